"""One replica on the simulated log: what its status and its log lines say of it, what it mends, how it ends."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from borealis_py.client.target import Target
from borealis_py.log import topics
from borealis_py.log.acks import ack_record, read_ack
from borealis_py.log.base import Feed, Fenced, LogError, NewRecord, TransactorEvent, Unknown
from borealis_py.log.corrected import Progress, progress_record, transaction
from borealis_py.log.description import APP_KEY, Life
from borealis_py.log.messages import (
    DisagreementSetting,
    RecoverySetting,
    RedoStatus,
    SourceFailure,
    Status,
    Threshold,
    beat_key,
    decode,
    encode,
)
from borealis_py.log.stream import StreamEncoder
from borealis_py.node.checkpoint_storage import SUFFIX
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.dynamic_settings import AGAIN_US
from borealis_py.node.endings import NumberShared, Superseded, WayChanged
from borealis_py.node.replica import Replica
from borealis_py.node.reporter import Reporter, StatusSnapshot
from borealis_py.node.spec import ReplicaSpec
from borealis_py.node.standby import Standby
from borealis_py.node.unpublished import Unpublished
from borealis_py.protocol.redo import RedoJob, RedoPlace
from borealis_py.protocol.settings import Delays, Timing
from borealis_py.protocol.trimming import Graph, Need, NodeReads, ReplicaName, Retain, Trimming
from borealis_py.protocol.turn import AskEnds, CancelRedo, EmitEvent, SaveCheckpoint, StartRedo, WriterLost
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.query.spec import Serves
from borealis_py.simulation.cluster.processes import LocalClock
from borealis_py.simulation.log.appender import MemoryAppender
from borealis_py.simulation.toy_query import ToyKernel
from reconcile.redo_client import RedoRouter
from sunion.bucket import Buckets
from sunion.digests import TOLD_MAX, Digest
from sunion.errors import RetentionLost
from sunion.model import Input, Output, StableBucket, StableRange
from sunion.source import SourceFold
from sunion.union import Mark
from tests.support.heartbeats import heartbeat
from tests.support.redos import FailingRedo
from tests.support.simulated_app import SimulatedApp
from tests.support.simulated_publisher import SimPublisher

BUCKETS = Buckets(100_000)
FIRST = 17_000_000
OTHER = "0123456789abcdef"
KERNEL = ToyKernel(BUCKETS.width_us, 1)
ONE_NODE = Graph({"q": NodeReads(1, ("s",))})
SOURCE, UP, ROWS = topics.source("app", "s"), Feed(topics.replica("app", "up", 0)), topics.corrected("app", "q")


class OnlyReplica(SimulatedApp):
    """A node that reads source `s`, where a publisher runs, and stream `up`, and its only replica."""

    def __init__(self, directory: Path) -> None:
        super().__init__(start_us=BUCKETS.start(FIRST))
        for spec in topics.of_app("app", ["s"], {"q": 1}, {"up": 1}):
            self.create(spec.name, partitions=spec.partitions)
        self.describe("a1", FIRST)
        target = Target(
            app="app",
            app_uid="a1",
            source="s",
            bucket_us=BUCKETS.width_us,
            origin=FIRST,
            ahead_max_us=Timing().ahead_max_us,
        )
        client = self.log.client("publisher")
        self.publisher = SimPublisher(self.scheduler, client, target, {"v": "int64"}, "p", lateness_us=300_000)
        self.spec = ReplicaSpec(
            app="app", app_uid="a1", node="q", replica=0, inputs=(Input.source("s"), Input("up", 1, ("t",))),
            bucket_us=BUCKETS.width_us, origin=FIRST, partition=0, query_hash="h", app_json="",
            delays={"q": Delays(3_000_000)}, log=self.log.client("replica"), data_dir=directory, timing=Timing(),
            serves=(Serves(query="q"),), position=1, corrected=True, pid=77, host="here",
        )  # fmt: skip
        self.clock = LocalClock(self.scheduler, 0)
        self.store = CheckpointStore(self.spec.checkpoints, "h", KERNEL, threaded=False)
        self.snapshots: list[StatusSnapshot] = []

    def start(self) -> Replica:
        def wake() -> None:
            pass

        redos = RedoRouter(*(FailingRedo("no Spark", wake) for _ in range(3)))
        return Replica(
            spec=self.spec,
            log_=self.spec.log,
            clock=self.clock,
            kernel=KERNEL,
            redos=redos,
            store=self.store,
            uid="u1",
            wake=wake,
            seen=self.snapshots.append,
        )

    def run(self, replica: Replica, seconds: float) -> None:
        """Let it take a turn every 10 ms."""
        end = self.scheduler.now_us + int(seconds * 1_000_000)
        while self.scheduler.now_us < end:
            self.scheduler.run_until(self.scheduler.now_us + 10_000)
            replica.turn()

    def up_says(self, *records: StableBucket | StableRange) -> None:
        self._say(UP, "a1", records)

    def said_before(self, *records: StableBucket | StableRange, app_uid: str = "a1") -> None:
        """What an earlier incarnation has written into the replica's own stream."""
        self._say(self.spec.own_feeds[0], app_uid, records)

    def _say(self, feed: Feed, app_uid: str, records: Sequence[StableBucket | StableRange]) -> None:
        encoder = StreamEncoder(feed, app_uid, BUCKETS, KERNEL, KERNEL.schema_id)
        for record in records:
            for new in encoder.encode(record):
                self.log.broker.append(new)

    def published(self) -> list[tuple[str, int]]:
        """(kind, value) of the rows of the corrected stream."""
        read = (json.loads(record.value or b"") for record in self.log.committed(ROWS))
        return [(kind, value) for _, kind, value, *_ in read]

    @property
    def status(self) -> Status:
        """The last one."""
        return self.snapshots[-1].status


@pytest.fixture
def world(tmp_path: Path) -> OnlyReplica:
    return OnlyReplica(tmp_path)


def rows(bucket: int, *values: int) -> Output:
    return Output([(BUCKETS.start(bucket), "row", value, 0) for value in values])


def test_a_status_tells_how_far_it_is_and_what_it_took_of_each_input(world: OnlyReplica) -> None:
    replica = world.start()
    world.run(replica, 0.5)
    for late_us in (0, 100_000, 200_000):
        assert world.publisher.send({"v": 3}, world.scheduler.now_us - late_us)
    world.up_says(StableBucket(1, FIRST, rows(FIRST, 1, 3)), StableBucket(1, FIRST + 1, rows(FIRST + 1, 5)))
    world.up_says(StableRange(1, FIRST + 2, FIRST + 9))
    world.run(replica, 5)
    status, manager = world.status, replica.manager
    assert status.f_s == manager.f_s == FIRST + 9
    assert status.f_s < status.f_l <= manager.f_l
    assert 0 <= status.pss_kb <= status.rss_kb
    assert status.rss_kb > 1_000
    assert (status.pid, status.host, status.tuples_in) == (77, "here", 6)
    source, stream = status.inputs
    assert (source.name, source.tuples, source.lateness_us, source.reachable) == ("s", 3, 300_000, True)
    assert 100_000 <= source.late_us[0] < 107_000
    assert source.late_us[1:] == (200_000, 200_000)
    assert (stream.name, stream.tuples, stream.late_us) == ("up", 3, (0, 0, 0))
    written = world.log.committed(world.spec.status_feed)[-1]
    assert written.key == b"q/0"
    assert decode(written.value or b"", Status) in [snapshot.status for snapshot in world.snapshots]


def test_a_status_tells_of_the_last_checkpoint_and_when_it_was_seen(world: OnlyReplica) -> None:
    replica = world.start()
    world.run(replica, 1)
    assert (world.status.checkpoint_bucket, world.status.checkpoint_wall_us) == (0, 0)
    world.up_says(StableRange(1, FIRST, FIRST + 5))
    world.run(replica, 4)
    assert world.store.written_bucket == world.status.checkpoint_bucket == FIRST + 5
    seen_us = world.status.checkpoint_wall_us
    assert BUCKETS.start(FIRST) + 2_000_000 <= seen_us <= world.scheduler.now_us
    world.run(replica, 3)
    assert world.status.checkpoint_wall_us == seen_us, "nothing new was written"


def test_a_setting_is_in_force_as_it_is_read(world: OnlyReplica) -> None:
    replica = world.start()
    world.run(replica, 0.5)
    waited_us = replica.manager.delays.wait_us
    world.log.broker.append(NewRecord(world.spec.settings_feed, encode(Threshold(500_000)), b"threshold/q"))
    world.run(replica, 1.5)
    assert waited_us - replica.manager.delays.wait_us == 2_500_000
    assert world.status.threshold_us == world.snapshots[-1].delays["q"].threshold_us == 500_000


def test_a_difference_is_written_into_the_settings_and_stops_publishing_for_good(world: OnlyReplica) -> None:
    replica = world.start()
    world.run(replica, 0.5)
    first = replica.manager.f_s
    beat = heartbeat(1, digests=(Digest(FIRST, first + 50, OTHER),))
    assert world.publisher.send({"v": 3}, world.scheduler.now_us)
    world.up_says(StableRange(1, FIRST, first + 50))
    world.run(replica, 1.0)
    world.log.broker.append(NewRecord(world.spec.control_feed, encode(beat), beat_key("q", 1)))
    world.run(replica, 1.5)
    (told,) = [r for r in world.log.committed(world.spec.settings_feed) if r.key == b"diverged/q"]
    setting = decode(told.value or b"", DisagreementSetting)
    found = setting.found
    assert found is not None
    assert (setting.app_uid, found.node, found.replica, found.peer, found.peer_digest) == ("a1", "q", 0, 1, OTHER)
    assert world.status.diverged.startswith("replicas 0 and 1 emitted different rows for stable bucket")
    assert not world.status.publishing
    successor = world.start()
    world.run(successor, 2.0)
    assert successor.manager.publishing.disagreement.found == found
    assert not world.status.publishing
    clear = encode(DisagreementSetting("a1", None))
    world.log.broker.append(NewRecord(world.spec.settings_feed, clear, b"diverged/q"))
    world.run(successor, 3.0)
    assert world.status.diverged == ""
    assert world.status.publishing


def test_a_difference_that_the_log_has_lost_is_written_again_until_it_is_there_or_an_operator_clears_it(
    world: OnlyReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, lost = MemoryAppender.append, list[bytes]()

    def losing(self: MemoryAppender, record: NewRecord, token: object = None) -> None:
        if (record.key or b"").startswith(b"diverged/") and len(lost) < 2:
            lost.append(record.value or b"")
        else:
            append(self, record, token)

    monkeypatch.setattr(MemoryAppender, "append", losing)
    replica = world.start()
    world.run(replica, 0.5)
    first = replica.manager.f_s
    assert world.publisher.send({"v": 3}, world.scheduler.now_us)
    world.up_says(StableRange(1, FIRST, first + 50))
    world.run(replica, 1.0)
    beat = heartbeat(1, digests=(Digest(FIRST, first + 50, OTHER),))
    world.log.broker.append(NewRecord(world.spec.control_feed, encode(beat), beat_key("q", 1)))

    def told() -> list[bytes]:
        return [r.value or b"" for r in world.log.committed(world.spec.settings_feed) if r.key == b"diverged/q"]

    world.run(replica, 1.0)
    assert (len(lost), told()) == (1, [])
    world.run(replica, AGAIN_US / 1e6)
    assert (len(lost), told()) == (2, [])
    world.run(replica, 3 * AGAIN_US / 1e6)
    assert told() == lost[:1], "once, as it was found, and never again"


def test_heartbeats_with_digests_that_no_replica_tells_are_ignored(world: OnlyReplica) -> None:
    replica = world.start()
    many = tuple(Digest(n, n + 1, OTHER) for n in range(FIRST, FIRST + TOLD_MAX + 1))
    for digests in (many, (Digest(5, 5, OTHER),), (Digest(-1, 5, OTHER),), (Digest(5, 6, OTHER * 1_000),)):
        beat = encode(heartbeat(1, digests=digests))
        world.log.broker.append(NewRecord(world.spec.control_feed, beat, beat_key("q", 1)))
    with capture_logs() as lines:
        world.run(replica, 0.5)
    assert [line["event"] for line in lines].count("heartbeat ignored") == 4


def reported(world: OnlyReplica, note: EmitEvent) -> tuple[Status, dict[str, Any]]:
    """The status and the log line of an event."""
    replica = world.start()
    appender = world.log.client("replica").appender(lambda: None)
    reporter = Reporter(world.spec, appender, world.clock, replica.settings, lambda: "", world.snapshots.append)
    with capture_logs() as lines:
        reporter.note(note, replace(replica.manager.status(), head=4), frozenset())
    (line,) = lines
    return world.status, line


@pytest.mark.parametrize(
    ("event", "said"),
    [
        ("REDO_FAILED", "redo failed; going on inline"),
        ("ADOPT_FAILED", "a peer's checkpoint was not adopted; correcting without it"),
        ("DRIFT", "buckets run without a source that is alive: check its clock and lateness, or raise the threshold"),
    ],
)
def test_what_somebody_should_look_at_is_a_warning_in_words(world: OnlyReplica, event: str, said: str) -> None:
    status, line = reported(world, EmitEvent(event, "because"))
    assert (line["log_level"], line["event"], line["why"]) == ("warning", said, "because")
    assert (line["f_s"], line["f_l"], line["node"], line["replica"]) == (FIRST, FIRST, "q", 0)
    assert (status.event, status.detail) == (event, "because")


def test_of_statuses_in_a_row_only_the_newest_need_be_read_but_each_event(world: OnlyReplica) -> None:
    replica, records = world.start(), list[NewRecord]()
    appender: Any = SimpleNamespace(append=records.append, clock_ahead_us=None)
    reporter = Reporter(world.spec, appender, world.clock, replica.settings, lambda: "")
    reporter.periodic(0, replica.manager.status, frozenset())
    reporter.note(EmitEvent("SILENT", "s"), replica.manager.status(), frozenset())
    assert [(decode(r.value or b"", Status).event, r.conflatable) for r in records] == [("", True), ("SILENT", False)]


def test_replicas_that_differ_are_an_error_that_says_what_to_do(world: OnlyReplica) -> None:
    _, line = reported(world, EmitEvent("DIVERGED", "because"))
    assert (line["log_level"], line["why"]) == ("error", "because")
    assert "`borealis resume` goes on" in line["event"]


def test_a_redo_is_in_the_status_and_in_the_log(world: OnlyReplica) -> None:
    status, line = reported(world, EmitEvent("REDO", "", (3, 9, 12, "spark", 0.25)))
    assert status.redo == RedoStatus(3, 9, 12, "spark", 0.25, world.clock.wall_us())
    assert (line["log_level"], line["event"]) == ("info", "REDO")
    assert (line["first"], line["end"], line["rows"], line["engine"], line["seconds"]) == (3, 9, 12, "spark", 0.25)


def test_who_is_next_to_be_corrected_is_in_the_status(world: OnlyReplica) -> None:
    status, _ = reported(world, EmitEvent("DRIFT", ""))
    assert status.head == 4


def test_a_start_needs_no_more_of_a_log_than_what_follows_its_checkpoint(world: OnlyReplica) -> None:
    replica = world.start()
    world.run(replica, 0.5)
    assert world.publisher.send({"v": 3}, world.scheduler.now_us)
    world.up_says(StableRange(1, FIRST, FIRST + 15))
    world.run(replica, 5)
    written = world.store.written_bucket
    assert written is not None
    assert written > FIRST
    replica.close()
    world.log.delete_before(SOURCE, 2)
    world.store = CheckpointStore(world.spec.checkpoints, "h", KERNEL, threaded=False)
    assert world.start().manager.f_s == written


def test_who_shares_its_number_with_another_that_stays_starts_again(world: OnlyReplica) -> None:
    replica = world.start()
    world.run(replica, 1)
    other = heartbeat(0, replica.manager.identity.inc, uid="a")
    world.log.broker.append(NewRecord(world.spec.control_feed, encode(other), beat_key("q", 0)))
    with pytest.raises(NumberShared, match="a has incarnation 1, too"):
        world.run(replica, 1)


def test_who_is_not_believed_since_another_acknowledged_by_its_number_starts_again(world: OnlyReplica) -> None:
    world.spec = replace(world.spec, inputs=(Input.source("s"),), trimming=Trimming(ONE_NODE, {"q": Retain(0)}))
    replica = world.start()
    me = replica.manager.identity
    other = Need(inc=me.inc, uid="a", number=1, bucket=FIRST, offsets={"s": 0})
    world.log.broker.append(ack_record("app", me.app_uid, ReplicaName("q", 0), other))
    world.run(replica, 1)
    replica.decide_trims(world.log.client("q").lookup())
    with pytest.raises(NumberShared, match="a has incarnation 1, too"):
        world.run(replica, 1)


@pytest.mark.parametrize(("event", "fenced"), [(Fenced(7), True), (Unknown(7, "no answer"), False)])
def test_a_writer_that_another_one_fenced_gives_way(world: OnlyReplica, event: TransactorEvent, fenced: bool) -> None:
    assert world.start()._writer_event(event) == WriterLost(7, fenced)


def test_rows_of_an_aborted_transaction_that_hangs_never_come_to_be_seen(world: OnlyReplica) -> None:
    """The next end of the same transactional id would end it, too: whoever takes over mends first (R10.8)."""
    broker = world.log.broker
    made = list(transaction("app", "q", {FIRST: rows(FIRST, 99)}, Progress("a1", FIRST + 1, 0, 1), BUCKETS, KERNEL))
    epoch = broker.init_producer(world.spec.transactional_id)
    broker.write(world.spec.transactional_id, epoch, made)
    broker.losing.append(lambda parts: [p for p in parts if p.feed == ROWS])
    broker.abort(world.spec.transactional_id, epoch)
    broker.losing.clear()
    replica = world.start()
    world.run(replica, 1)
    world.up_says(StableBucket(1, FIRST, rows(FIRST, 1)), StableRange(1, FIRST + 1, FIRST + 5))
    world.run(replica, 4)
    assert world.published() == [("row", 1), ("window", 1)]


def test_rows_that_are_in_memory_are_published_without_reading_them_again(
    world: OnlyReplica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Unpublished, "said")
    replica = world.start()
    world.run(replica, 0.5)
    world.up_says(StableBucket(1, FIRST, rows(FIRST, 1)), StableRange(1, FIRST + 1, FIRST + 5))
    world.run(replica, 2.5)
    assert world.published() == [("row", 1), ("window", 1)]


def test_what_is_still_to_be_published_at_the_start_is_published_whole_however_little_goes_at_once(
    world: OnlyReplica,
) -> None:
    """The writer learns from each transaction how far it came, not from what was asked of it (R10.3)."""
    world.spec = replace(world.spec, timing=Timing(publish_buckets=2))
    world.said_before(*(StableBucket(1, FIRST + n, rows(FIRST + n, n)) for n in range(5)))
    marks = (Mark(0, SourceFold(BUCKETS.start(FIRST + 5))),)
    world.store.save(SaveCheckpoint(FIRST + 5, KERNEL.initial(), marks))
    replica = world.start()
    world.run(replica, 2)
    assert world.published() == [("row", n) for n in range(5)]


def test_a_writer_that_is_still_at_work_is_not_fenced(world: OnlyReplica) -> None:
    """A large transaction may take longer than anybody's patience; fenced, it would only begin again (R10.3)."""
    broker, id_ = world.log.broker, world.spec.transactional_id
    epoch = broker.init_producer(id_)
    made = list(transaction("app", "q", {FIRST: rows(FIRST, 1)}, Progress("a1", FIRST + 1, 0, 1), BUCKETS, KERNEL))
    replica = world.start()
    world.up_says(StableBucket(1, FIRST, rows(FIRST, 1)), StableRange(1, FIRST + 1, FIRST + 5))
    for _ in range(10):
        broker.write(id_, epoch, made[:1])
        world.run(replica, 0.2)
    broker.write(id_, epoch, made[1:])
    broker.commit(id_, epoch)
    assert world.published() == [("row", 1)] * 10


def test_a_writer_goes_on_behind_the_last_row_where_the_progress_is_garbage(world: OnlyReplica) -> None:
    """Nobody could have closed the buckets that it names: the rows tell, and none comes twice (R10.6)."""
    for record in transaction("app", "q", {FIRST: rows(FIRST, 1)}, Progress("a1", FIRST + 1, 0, 1), BUCKETS, KERNEL):
        world.log.broker.append(record)
    world.log.broker.append(progress_record("app", "q", Progress("a1", FIRST + 900, 0, 1)))
    replica = world.start()
    world.run(replica, 1)
    world.up_says(StableBucket(1, FIRST, rows(FIRST, 1)), StableBucket(1, FIRST + 1, rows(FIRST + 1, 3)))
    world.up_says(StableRange(1, FIRST + 2, FIRST + 5))
    world.run(replica, 3.5)
    assert world.published() == [("row", 1), ("row", 3), ("window", 1)]


@pytest.mark.parametrize(
    "settings",
    [[], [("threshold/q", encode(Threshold(500_000)))], [(APP_KEY, b"garbage")]],
    ids=["nothing", "a setting", "garbage"],
)
def test_without_a_description_no_replica_starts(world: OnlyReplica, settings: list[tuple[str, bytes]]) -> None:
    """The app is being begun anew: `--reset` writes it last."""
    world.log.delete_before(world.spec.settings_feed, 1)
    for key, value in settings:
        world.log.broker.append(NewRecord(world.spec.settings_feed, value, key.encode()))
    with pytest.raises(LogError, match="app 'app' has no description"):
        world.start()


@pytest.mark.parametrize(("said", "inc"), [([], 1), ([("a1", 7)], 8), ([("a1", 7), ("b2", 99), ("a1", 6)], 8)])
def test_the_own_stream_tells_which_number_comes_next(
    world: OnlyReplica, said: list[tuple[str, int]], inc: int
) -> None:
    """Heartbeats expire. Readers would take nothing tentative of a number that is not the highest; of another life
    none counts."""
    for app_uid, before in said:
        world.said_before(StableRange(before, FIRST, FIRST + 1), app_uid=app_uid)
    assert world.start().manager.identity.inc == inc


def test_the_end_of_a_drill_wakes_it(world: OnlyReplica) -> None:
    replica = world.start()
    world.run(replica, 0.5)
    heals_us = world.clock.wall_us() + 13_000
    world.log.broker.append(NewRecord(world.spec.settings_feed, encode(SourceFailure(heals_us)), b"fail/s"))
    world.run(replica, 0.01)
    assert replica.next_wakeup() == world.clock.now_us() + heals_us - world.clock.wall_us()


def test_the_result_of_a_redo_that_was_taken_back_never_comes(world: OnlyReplica) -> None:
    replica = world.start()
    for job_id in (4, 5):
        replica._carry_out(
            StartRedo(
                RedoJob(id=job_id, first=FIRST, end=FIRST + 1, state=(0, 0, 0), ranges=(), rows=0), RedoPlace.LOG
            ),
            0,
        )
    replica._carry_out(CancelRedo(4), 0)
    assert [result.id for result in replica._redos.poll_results()] == [5]


def test_what_was_not_read_until_now_is_asked_for_its_end_too(world: OnlyReplica) -> None:
    """Memory was full when the turn began, and is not any more. Unasked, the source would count as read (B14)."""
    replica = world.start()
    world.run(replica, 1.0)
    replica._input_reader.hold(frozenset({0}))
    world.scheduler.run_until(world.scheduler.now_us + 200_000)
    now = world.scheduler.now_us
    replica._carry_out(AskEnds(), now)
    world.scheduler.run_until(now + 50_000)
    assert replica._input_reader.read_to(now + 50_000) is None
    assert replica._input_reader.poll().inputs[0]
    assert replica._input_reader.read_to(now + 50_000) == now


def test_at_its_end_it_does_not_wait_for_the_log_for_long(world: OnlyReplica, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(MemoryAppender, "flush", lambda self, timeout_s: waits.append(timeout_s))
    world.start().close("asked to")
    assert (world.status.event, world.status.detail) == ("STOPPED", "asked to")
    assert len(waits) == 1
    assert 0 < waits[0] <= 2


def test_it_says_what_it_may_still_read_where_it_is_told_to(world: OnlyReplica) -> None:
    acks = Feed(topics.acks("app"))
    world.spec = replace(world.spec, inputs=(Input.source("s"),), trimming=Trimming(ONE_NODE))
    replica = world.start()
    world.run(replica, 9.0)
    begins, record = world.log.committed(acks)
    first, said = read_ack(begins, Life("a1")), read_ack(record, Life("a1"))
    assert first is not None
    assert isinstance(first[1], Need)
    assert (first[1].bucket, first[1].offsets, first[1].published) == (FIRST, {"s": 0}, None)
    assert said is not None
    name, need = said
    assert name == ReplicaName("q", 0)
    assert isinstance(need, Need)
    assert need.number == 2
    checkpoints = sorted(int(name.removesuffix(SUFFIX)) for name in world.spec.checkpoints.names())
    assert FIRST < need.bucket <= checkpoints[0], "what a start from the oldest reads"
    assert need.published is not None
    assert FIRST < need.published <= replica.manager.f_s
    assert 0 < need.offsets["s"] <= world.log.broker.partition(SOURCE).stable_end


def _trimmed(world: OnlyReplica) -> Feed:
    """The world's replica acknowledges, and reads one source; returns the feed of acknowledgements."""
    acks = Feed(topics.acks("app"))
    world.spec = replace(world.spec, inputs=(Input.source("s"),), trimming=Trimming(ONE_NODE))
    return acks


def test_it_acknowledges_nothing_before_it_knows_that_its_number_is_its_own(world: OnlyReplica) -> None:
    acks = _trimmed(world)
    world.run(world.start(), 0.5)
    assert len(world.log.committed(acks)) == 1
    second = world.start()
    world.log.broker.append(NewRecord(second.spec.control_feed, encode(heartbeat(0, 2, uid="twin")), b"q/0"))
    with pytest.raises(Superseded):
        world.run(second, 9.0)
    assert len(world.log.committed(acks)) == 1


@pytest.mark.parametrize("successor", [True, False])
def test_records_that_a_successor_did_not_need_are_not_lost_to_who_gives_way_to_it(
    world: OnlyReplica, successor: bool
) -> None:
    _trimmed(world)
    replica = world.start()
    world.run(replica, 1.0)
    world.scheduler.run_until(world.scheduler.now_us + 5_000_000)  # it sleeps
    source = world.log.broker.partition(SOURCE)
    source.delete_before(source.stable_end - 1)
    if successor:
        world.log.broker.append(NewRecord(replica.spec.control_feed, encode(heartbeat(0, 2)), b"q/0"))
    with pytest.raises(Superseded if successor else RetentionLost):
        replica.turn()


@pytest.mark.parametrize("stands_by", [True, False])
@pytest.mark.parametrize("successor", [True, False])
def test_who_reads_another_way_looks_for_a_successor_before_it_begins_anew(
    world: OnlyReplica, successor: bool, stands_by: bool
) -> None:
    """It was suspended; its new number would end the one that runs in its place."""
    passive, backup = (RecoveryPlan(way) for way in (RecoveryWay.PASSIVE_STANDBY, RecoveryWay.UPSTREAM_BACKUP))
    world.spec = replace(world.spec, recovery=passive)
    who = Standby(world.spec, world.spec.log, world.clock, "u1", lambda: None) if stands_by else world.start()
    who.turn()
    setting = encode(RecoverySetting.of("a1", backup))
    world.log.broker.append(NewRecord(world.spec.settings_feed, setting, b"recovery/q"))
    if successor:
        world.log.broker.append(NewRecord(world.spec.control_feed, encode(heartbeat(0, 2)), b"q/0"))
    world.scheduler.run_until(world.scheduler.now_us + 5_000_000)
    with pytest.raises(Superseded if successor else WayChanged):
        who.turn()


def test_by_default_it_says_nothing_of_it(world: OnlyReplica) -> None:
    acks = Feed(topics.acks("app"))
    world.spec = replace(world.spec, inputs=(Input.source("s"),))
    world.run(world.start(), 9.0)
    assert world.store.kept is not None
    assert world.log.committed(acks) == []
