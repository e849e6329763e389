"""Processes of one life of an app in the topics of the next: production replicas, publisher and transactor on the
simulated log, started again as a host does, while `--reset` deletes the topics and makes them again.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from borealis_py.client.claim import Target
from borealis_py.client.stimes import Boundaries
from borealis_py.client.target import BegunAnew
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, NewRecord
from borealis_py.log.corrected import Progress, progress_record
from borealis_py.log.description import APP_KEY, OtherLife, OtherVersion
from borealis_py.log.messages import Description, encode
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.peers import Peers
from borealis_py.node.replica import Replica
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.settings import Delays, Timing
from borealis_py.query.spec import Serves
from borealis_py.runtime.ends import end_of
from borealis_py.simulation.checkers import oracles, streams
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.cluster.processes import LocalClock
from borealis_py.simulation.cluster.storage import SimRedos, Spark
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.simulation.log.connection import Refusal
from borealis_py.simulation.reference_model import NodeTruth, compute, read_source
from borealis_py.simulation.scenario import SimulatedNode
from borealis_py.simulation.toy_query import ToyKernel
from reconcile.replay_context import ReplayContext
from sunion import model
from tests.support.simulated_publisher import SimPublisher

APP, QUERY, SOURCE, W, SPAN, T0 = "a", "q", "s", 100_000, 50, 1_700_000_000_000_000
SPECS = topics.of_app(APP, [SOURCE], {QUERY: 2}, {})
TIMING = Timing()
SETTINGS, CORRECTED = Feed(topics.settings(APP)), Feed(topics.stream(APP, QUERY))


@dataclass
class Process:
    """What `host.supervise` does: incarnations of one replica, all with the same spec, until one ends for good."""

    world: AppOfLives
    name: str
    spec: ReplicaSpec
    replica: Replica | None = None
    ended: Exception | None = None
    incs: list[int] = field(default_factory=list)
    _again_us: int = 0

    def step(self) -> None:
        scheduler = self.world.scheduler
        if self.ended is not None or scheduler.now_us < self._again_us:
            return
        try:
            if self.replica is None:
                self.replica = self._start()
            self.replica.turn()
        except Exception as exc:
            self.replica, self._again_us = None, scheduler.now_us + 1_000_000
            if end_of(exc) is not None:
                self.ended = exc

    def _start(self) -> Replica:
        world, spec = self.world, self.spec
        client, kernel = world.log.client(self.name), ToyKernel(W, SPAN, QUERY)
        how = W, TIMING.ahead_max_us, spec.app_uid
        work = ReplayContext(
            QUERY, lambda: ToyKernel(W, SPAN, QUERY), cast(Log, client), spec.inputs, (spec.feeds(0),), *how
        )
        redos = SimRedos(work.open(), client, Spark(), random.Random(self.name))
        store = CheckpointStore(spec.checkpoints, spec.query_hash, kernel, threaded=False)
        redos.peers = Peers(spec, store, kernel)
        clock, uid = LocalClock(world.scheduler, 0), f"{self.name}{len(self.incs)}"
        replica = Replica(
            spec=spec,
            log_=cast(Log, client),
            clock=clock,
            kernel=kernel,
            redos=redos,
            store=store,
            uid=uid,
            wake=lambda: None,
        )  # type: ignore[arg-type]
        self.incs.append(replica.manager.identity.inc)
        return replica

    @property
    def f_s(self) -> int:
        assert self.replica is not None
        return self.replica.manager.f_s


class AppOfLives:
    """One app on one log, and all who were ever started."""

    def __init__(self, directory: Path) -> None:
        self.scheduler = Scheduler(T0)
        self.log = MemoryLog(self.scheduler, 1)
        self.origin, self.app_uid = T0 // W, ""
        self.processes: list[Process] = []
        self._directory, self._sent = directory, 0

    def describe(self, app_uid: str) -> None:
        """What `up` does: topics, then the description."""
        self.origin, self.app_uid = self.scheduler.now_us // W, app_uid
        self.log.client("up").admin().create(SPECS)
        description = Description("{}", "hash", self.origin, "f", app_uid)
        self.log.broker.append(NewRecord(SETTINGS, encode(description), APP_KEY.encode()))

    def reset(self, fence: bool = True) -> None:
        """What `up --reset` does, while processes elsewhere go on."""
        admin = self.log.client("up").admin()
        admin.delete(admin.topics())
        if fence:
            admin.fence([topics.transactional_id(APP, QUERY)])

    def start(self, name: str, replica: int = 0) -> Process:
        spec = ReplicaSpec(
            app=APP, app_uid=self.app_uid, node=QUERY, replica=replica, inputs=(model.Input.source(SOURCE),),
            bucket_us=W, origin=self.origin, partition=0, query_hash=f"hash@{self.app_uid}", app_json="{}",
            delays={QUERY: Delays(3_000_000)}, log=cast(Log, self.log.client(name)),
            data_dir=self._directory / name, timing=TIMING,
            serves=(Serves(query=QUERY),), position=1, corrected=True, replicas=2, host="sim",
        )  # fmt: skip
        self.processes.append(Process(self, name, spec))
        return self.processes[-1]

    def publisher(self, name: str, boundaries: Boundaries = Boundaries.CLOCK) -> SimPublisher:
        target = Target(APP, self.app_uid, SOURCE, W, self.origin, ahead_max_us=TIMING.ahead_max_us)
        log = cast(Log, self.log.client(name))
        return SimPublisher(self.scheduler, log, target, {"v": "int64"}, name, boundaries=boundaries)

    def run(self, seconds: float, *publishers: SimPublisher) -> None:
        """A row every 50 ms; every process has a turn every 10 ms."""
        end = self.scheduler.now_us + int(seconds * 1e6)
        while self.scheduler.now_us < end:
            self._sent += 1
            for publisher in publishers:
                if publisher.ready and not publisher.stopped and self._sent % 5 == 0:
                    publisher.send({"v": self._sent})
            self.scheduler.run_until(self.scheduler.now_us + 10_000)
            for process in self.processes:
                process.step()

    def truth(self) -> NodeTruth:
        log = self.log.committed(topics.source(APP, SOURCE))
        source = read_source(SOURCE, log, W, self.origin, TIMING.ahead_max_us, self.app_uid)
        return compute(SimulatedNode(QUERY, (SOURCE,), 2), {SOURCE: source}, {}, W, SPAN, {SOURCE})

    def judge(self) -> None:
        """What this life has said and published is what its source holds, up to a second ago."""
        truth, uid = self.truth(), self.app_uid
        for k in range(2):
            log = self.log.committed(Feed(topics.replica(APP, QUERY, k)))
            streams.stable_records(f"q.r{k}", log, truth, self.origin, uid)
        rows = self.log.committed(CORRECTED)
        oracles.corrected(rows, [], truth, W)
        late = self.scheduler.now_us // W - 10
        assert len(rows) >= sum(len(found) for bucket, found in truth.rows.items() if bucket < late) > 20


@pytest.fixture
def world() -> Iterator[AppOfLives]:
    with tempfile.TemporaryDirectory() as directory:
        found = AppOfLives(Path(directory))
        found.describe("first")
        yield found


def lived(world: AppOfLives, seconds: float = 4.0) -> Process:
    """A replica of the first life, with something published."""
    old, publisher = world.start("old"), world.publisher("p1")
    world.run(seconds, publisher)
    publisher.stop()
    world.log.kill("p1")
    assert len(world.log.committed(CORRECTED)) > 20
    return old


@pytest.mark.parametrize("met", ["beyond the end", "in the middle of a restart"])
def test_a_replica_of_the_life_before_ends_by_name_and_harms_nobody(world: AppOfLives, met: str) -> None:
    """It read "beyond the log's end", started again with the spec it had, above the new one's number, which ended."""
    old = lived(world)
    world.reset()
    if met != "beyond the end":
        old.replica = None
    world.run(1.5)
    assert old.ended is None  # there is no description: it waits for one
    world.describe("second")
    new = [world.start(f"new{k}", k) for k in range(2)]
    publisher = world.publisher("p2")
    world.run(6, publisher)
    assert isinstance(old.ended, OtherLife)
    assert "begun anew" in str(old.ended)
    assert [one.ended for one in new] == [None, None]
    assert [one.incs for one in new] == [[1], [1]]
    world.judge()


def test_a_replica_of_the_life_before_that_was_asleep_changes_nothing(world: AppOfLives) -> None:
    old = lived(world)
    world.processes.remove(old)
    world.reset()
    world.describe("second")
    new, publisher = [world.start(f"new{k}", k) for k in range(2)], world.publisher("p2")
    world.run(6, publisher)
    world.processes.append(old)
    world.run(4, publisher)
    assert isinstance(old.ended, OtherLife)
    assert [one.ended for one in new] == [None, None]
    world.judge()


def test_a_publisher_of_the_life_before_whose_rows_are_refused_tells_why(world: AppOfLives) -> None:
    """Its sequence numbers mean nothing to a topic that was made again, and that it was it has not read yet."""
    old = world.publisher("p1")
    world.run(2, old)
    world.describe("second")
    world.log.refuse("p1", topics.source(APP, SOURCE).topic, Refusal("out of order"))
    world.run(4, old)
    assert isinstance(old.error, BegunAnew)


def test_whoever_runs_ends_by_name_when_another_version_describes_the_app(world: AppOfLives) -> None:
    replica, publisher = world.start("old"), world.publisher("p1")
    world.run(2, publisher)
    world.log.broker.append(NewRecord(SETTINGS, b'{"version":3}', APP_KEY.encode()))
    world.log.refuse("p1", topics.source(APP, SOURCE).topic, Refusal("out of order"))
    world.run(2, publisher)
    assert isinstance(replica.ended, OtherVersion)
    assert isinstance(publisher.error, BegunAnew)
    assert all("version 3, this program reads 2" in str(error) for error in (replica.ended, publisher.error))


def test_a_publisher_of_the_life_before_takes_no_source_and_its_rows_are_nothing(world: AppOfLives) -> None:
    """Its epochs were higher, and whoever came after it had to be above them."""
    old = world.publisher("p1")
    world.run(2, old)
    world.reset()
    world.describe("second")
    new, publisher = [world.start(f"new{k}", k) for k in range(2)], world.publisher("p2")
    world.run(4, old, publisher)
    assert [one.ended for one in new] == [None, None]
    assert isinstance(old.error, BegunAnew)
    assert any(b"first" in (r.value or b"") for r in world.log.committed(topics.source(APP, SOURCE)))
    world.judge()


@pytest.mark.parametrize("progress", ["of its own life", "as if of this life"])
def test_the_last_transaction_of_the_life_before_moves_nobodys_progress(world: AppOfLives, progress: str) -> None:
    """The new corrected stream lost the rows below that progress."""
    old = lived(world, 6)
    at = old.f_s
    world.processes.clear()
    world.reset()
    world.describe("second")
    uid = "first" if progress == "of its own life" else "second"
    world.log.land_late([progress_record(APP, QUERY, Progress(uid, at + 40, 0, 1))])
    new, publisher = [world.start(f"new{k}", k) for k in range(2)], world.publisher("p2")
    world.run(14, publisher)
    assert [one.ended for one in new] == [None, None]
    if uid == "first":
        world.judge()
    else:  # nobody but a liar writes that
        oracles.corrected(world.log.committed(CORRECTED), [], world.truth(), W)


def test_progress_far_ahead_does_not_hold_up_what_comes_as_fast_as_possible(world: AppOfLives) -> None:
    """The corrected stream stood still for ever: the sources never came so far."""
    old = lived(world, 6)
    at = old.f_s
    world.processes.clear()
    world.reset()
    world.describe("second")
    world.log.land_late([progress_record(APP, QUERY, Progress("first", at + 1_000, 0, 1))])
    new, publisher = world.start("new0"), world.publisher("p2", Boundaries.DATA)
    world.start("new1", 1)
    while not publisher.ready:
        world.scheduler.step()
    for i in range(400):
        publisher.session.send({"v": i}, world.origin * W + i * 30_000, None, world.scheduler.now_us)
    world.run(6)
    assert new.ended is None
    world.judge()


def test_a_writer_that_was_not_fenced_commits_into_the_topics_made_again_and_reset_fences_it(world: AppOfLives) -> None:
    """Rows of a corrected stream carry no app_uid: nothing of the life before may be committed there."""
    old = lived(world)
    assert old.replica is not None
    world.reset()
    world.describe("second")
    old.replica._transactor.commit(  # what was on its way
        old.replica.manager.publishing._attempt, lambda: [NewRecord(CORRECTED, b'{"v":1}', None, 0, (("id", b"1:0"),))]
    )
    world.processes.clear()
    world.run(3)
    assert world.log.committed(CORRECTED) == []


def test_a_number_is_never_used_again_while_anything_of_it_lies_there(world: AppOfLives) -> None:
    """The heartbeats expire after an hour and the settings may hold garbage: its tentative words were ignored then."""
    old, publisher = world.start("old"), world.publisher("p1")
    world.run(3, publisher)
    for _ in range(3):
        old.replica = None
        world.run(1, publisher)
    assert old.incs == [1, 2, 3, 4]
    old.replica = None
    key = f"incarnation/{QUERY}/0".encode()
    world.log.broker.append(NewRecord(SETTINGS, b"garbage", key))
    world.log.delete_before(SETTINGS, world.log.client("x").lookup().bounds(SETTINGS)[1] - 1)
    description = Description("{}", "hash", world.origin, "f", world.app_uid)
    world.log.broker.append(NewRecord(SETTINGS, encode(description), APP_KEY.encode()))
    control = Feed(topics.control(APP))
    world.log.delete_before(control, world.log.client("x").lookup().bounds(control)[1])
    world.run(1, publisher)
    assert old.incs == [1, 2, 3, 4, 5]
