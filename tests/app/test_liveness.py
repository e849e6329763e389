"""`up --reset` deletes nothing under anybody who lives: heartbeats tell who does, of whatever version and machine."""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any, cast

import pytest

from borealis_py.app import launch
from borealis_py.app.errors import LaunchError
from borealis_py.app.liveness import Alive, alive, ensure_nobody, explain_taken
from borealis_py.app.replicas import ReplicaProcesses
from borealis_py.app.topics import topics_of
from borealis_py.log import topics
from borealis_py.log.base import Committed, Feed, Fenced, Log, NewRecord
from borealis_py.log.messages import Description, beat_key, encode
from borealis_py.query import App
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryLog
from tests.support.heartbeats import heartbeat
from tests.support.statuses import status

NAME = "shop"


class DescribedApp:
    """An app of one query and one cut node, described; nobody runs it."""

    def __init__(self) -> None:
        self.scheduler = Scheduler(1_700_000_000_000_000)
        self.memory = MemoryLog(self.scheduler, 0)
        self.log = cast(Log, self.memory.client("up"))
        app = App(NAME, bucket="100ms")
        source = app.source("s", schema={"x": "int64"})
        app.query("q", source.filter("x > 0").node("cut").filter("x > 1"), "3s")
        self.spec = app.describe()
        self.log.admin().create(topics_of(self.spec))
        described = Description(self.spec.to_json(), self.spec.hash, 0, "", "a1")
        self.put(topics.settings(NAME), encode(described), b"app")

    def put(self, topic: str, value: bytes, key: bytes, partition: int = 0) -> None:
        self.memory.broker.append(NewRecord(Feed(topic, partition), value, key))

    def beat(self, uid: str, node: str = "q", partition: int = 1) -> None:
        value = encode(heartbeat(1, 7, uid=uid))
        self.put(topics.control(NAME), value, beat_key(node, 1), partition)

    def alive(self, *meanwhile: Any) -> list[Alive]:
        return alive(self.log, NAME, 9, lambda seconds: [do() for do in meanwhile] and None)


@pytest.fixture
def world() -> DescribedApp:
    return DescribedApp()


def test_an_app_that_never_ran_is_not_watched(world: DescribedApp) -> None:
    assert alive(world.log, NAME, 2, pytest.fail) == []


def test_old_heartbeats_are_nobody(world: DescribedApp) -> None:
    world.beat("gone")
    assert world.alive() == []


def test_whoever_beats_meanwhile_is_alive_and_named_as_its_status_knows_it(world: DescribedApp) -> None:
    world.beat("gone")
    said = status(node="q", replica=1, uid="u1", pid=77, host="far")
    world.put(topics.status(NAME), encode(said), b"q/1")

    def first_version() -> None:
        value = json.dumps({"replica": 0, "inc": 3, "uid": "u3", "state": "STABLE"}).encode()
        world.put(topics.control(NAME), value, b"0")

    found = world.alive(
        lambda: world.beat("u1"),
        lambda: world.beat("u1"),
        lambda: world.beat("u2", "cut", 0),
        lambda: world.put(topics.control(NAME), b"garbage", b"q/0"),
        first_version,
    )
    assert sorted(map(str, found)) == [
        "replica 0 of a node (uid u3)",
        "replica 1 of cut (uid u2)",
        "replica 1 of q (uid u1, pid 77 on far)",
    ]


def test_processes_of_this_data_directory_are_nobody_elsewhere() -> None:
    here = Alive("q", 0, "u1", 77, platform.node())
    ensure_nobody([here], [77, 78])
    for other in (Alive("q", 0, "u1", 79, platform.node()), Alive("q", 0, "u1", 77, "far"), Alive("q", 0, "u1")):
        with pytest.raises(LaunchError, match=r"nothing was deleted.*replica 0 of q \(uid u1.*--take-over"):
            ensure_nobody([here, other], [77])


def test_a_reset_deletes_nothing_while_somebody_lives_elsewhere(
    world: DescribedApp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.beat("gone")
    before, processes = world.memory.broker.topics(), ReplicaProcesses(tmp_path, NAME)
    monkeypatch.setattr(launch, "alive", lambda *args: alive(*args, sleep=lambda seconds: world.beat("u1")))
    with pytest.raises(LaunchError, match=r"replica 1 of q \(uid u1\)"):
        launch.reset(world.log, world.spec, processes)
    assert world.memory.broker.topics() == before
    launch.reset(world.log, world.spec, processes, take_over=True)
    assert world.memory.broker.topics() == []


def test_a_reset_fences_whoever_writes_a_corrected_stream_or_dead_letters(world: DescribedApp, tmp_path: Path) -> None:
    """What it had begun would land in the topics made again, of which it knows nothing (and rows carry no app_uid)."""
    writers = {node: world.memory.client(node).transactor(f"{NAME}.{node}", Feed(topics.progress(NAME, node)),
               lambda: None, lambda lookup: None) for node in ("q", "cut")}  # fmt: skip
    for writer in writers.values():
        writer.take_over(1)
    world.scheduler.run_until(world.scheduler.now_us + 3_000_000)
    launch.reset(world.log, world.spec, ReplicaProcesses(tmp_path, NAME))
    world.log.admin().create(topics_of(world.spec))
    for node, writer in writers.items():
        writer.events()
        writer.commit(1, lambda node=node: [NewRecord(Feed(topics.progress(NAME, node)), b"{}", b"0")])
        world.scheduler.run_until(world.scheduler.now_us + 3_000_000)
        assert writer.events() == [Fenced(1)] != [Committed(1)]


def test_who_runs_an_index_elsewhere_is_told_with_where_to_stop_it() -> None:
    found = [Alive("q", 0, "u1", 77, "far"), Alive("cut", 0, "u1", 77, "far"), Alive("q", 1, "u2", 78, "far")]
    told = explain_taken(found, "a", {0}, {79})
    assert told is not None
    assert "replica 0 runs elsewhere: pid 77 on far (cut, q); stop it there (`borealis down`)" in told
    assert "replica 1" not in told
    assert "--take-over" in told


def test_this_directorys_own_processes_run_nothing_elsewhere() -> None:
    assert explain_taken([Alive("q", 0, "u1", 77, platform.node())], "a", {0}, {77}) is None
