"""Worlds whose redos and checkpoints lie in topics of the log, and what commands find in the logs of worlds."""

from __future__ import annotations

import pytest

from borealis_py.app.liveness import alive
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.cluster.checkpoints import Disk, File
from borealis_py.simulation.cluster.kept_in_topics import ACTOR, PART_BYTES, Keeper, TopicPlace
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.simulation.quiet import quiet
from borealis_py.simulation.runner.generator import SCRIBBLES, draw
from borealis_py.simulation.runner.simulation import Simulation
from reconcile import rpc

FILES = Feed("sim.q.r0.files")
CONTENT = bytes(range(256)) * 2


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog(Scheduler(0))


def place(log: MemoryLog, disk: Disk, name: str = "process") -> TopicPlace:
    found = TopicPlace({0: disk}, "q", 0, Keeper(log, log.client(name), "sim"))
    found.prepare()
    return found


def written(log: MemoryLog, *names: str) -> Disk:
    disk = Disk()
    for name in names:
        on = place(log, disk)
        on.note = File("", b"", bucket=int(name.partition(".")[0]))
        on.write(name, CONTENT)
    return disk


def test_a_file_lies_in_its_topic_in_parts_and_the_next_process_reads_it_there(log: MemoryLog) -> None:
    disk = written(log, "1.ckpt")
    assert len(log.committed(FILES)) == -(-len(CONTENT) // PART_BYTES)
    assert place(log, disk, "next").read("1.ckpt") == CONTENT == disk.files["1.ckpt"].content


def test_what_a_fault_does_to_the_disk_is_what_the_next_process_reads(log: MemoryLog) -> None:
    disk = written(log, "1.ckpt", "2.ckpt")
    old = dict(disk.files)
    disk.tear()
    assert place(log, disk, "second").read("2.ckpt") == CONTENT[: len(CONTENT) // 2]
    del disk.files["1.ckpt"]
    assert place(log, disk, "third").names() == ["2.ckpt"]
    disk.put_back(old.values())
    assert [place(log, disk, "fourth").read(name) for name in old] == [CONTENT, CONTENT]


def test_a_write_that_cannot_be_acknowledged_fails_and_may_lie_there(log: MemoryLog) -> None:
    disk = written(log, "1.ckpt")
    on = place(log, disk)
    release = log.hold([FILES.topic])
    with pytest.raises(OSError, match="no broker answered process in time"):
        on.write("2.ckpt", b"short")
    assert "2.ckpt" not in disk.files
    release(False)
    assert place(log, disk, "next").read("2.ckpt") == b"short"


def test_of_a_file_in_the_middle_of_which_its_writer_died_the_next_one_finds_a_part_and_removes_it(
    log: MemoryLog,
) -> None:
    disk = written(log, "1.ckpt")
    place(log, disk).leave(File("2.ckpt", b"half"))
    after = place(log, disk, "next")
    assert after.names() == ["1.ckpt"]
    assert after.remove_temporaries() == ["2.ckpt"]
    assert place(log, disk, "last").remove_temporaries() == []


def test_a_disk_whose_topic_cannot_be_written_is_brought_there_later(log: MemoryLog) -> None:
    disk = written(log, "1.ckpt")
    disk.tear()
    cut = log.cut(ACTOR)
    assert place(log, disk, "second").read("1.ckpt") == CONTENT
    log.heal(ACTOR, cut)
    assert place(log, disk, "third").read("1.ckpt") != CONTENT


def lived(seed: int, *kinds: str) -> Simulation:
    life = Simulation(draw(seed, (SCRIBBLES, *kinds)))
    with quiet():
        life.run()
    return life


def test_redos_and_checkpoints_of_such_a_world_go_through_its_topics_beside_garbage() -> None:
    world = lived(4, "source_failed", "redos").world
    feeds = [feed for m in world.replicas for feed in topics.redo_feeds(APP, m.node, m.index)]
    said = [rpc.decode(record.value) for feed in feeds for record in world.log.committed(feed)]
    assert {type(None), rpc.SubmitJob, rpc.JobAccepted, rpc.JobResult} <= {type(one) for one in said}
    for machine in world.replicas:
        assert machine.disk.files.keys() == machine.disk.in_topic.keys() != set()
        assert world.log.committed(Feed(topics.kept_files(APP, f"{machine.node}.r{machine.index}")))


@pytest.mark.parametrize("seed", [4, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def test_a_command_finds_alive_whoever_runs_and_nobody_else(seed: int) -> None:
    """Also beside garbage in the control log, and after processes that died."""
    life = lived(seed, "bad_control", "crash", "twins", "expired")
    world, scheduler = life.world, life.world.scheduler

    def sleep(seconds: float) -> None:
        scheduler.run_until(scheduler.now_us + int(seconds * 1e6))

    found = alive(world.log.client("command"), APP, len(world.scenario.nodes), sleep)  # type: ignore[arg-type]
    runs = {(m.node, m.index, p.name) for m in world.replicas for p in m.processes}
    assert {(one.node, one.replica, one.uid) for one in found} == runs != set()
