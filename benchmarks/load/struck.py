"""What a failure leaves to be redone, of any length: in the sources' logs, and in the memory of a replica that still
has all of it.

Two queries do the same over three sources, so that one failure affects both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from itertools import islice

import msgspec

from benchmarks.load import keyed
from benchmarks.load.redo_ways import Inline, LiveTurns
from benchmarks.load.steady import BUCKETS, ORIGIN, UID, Steady
from borealis_py import App
from borealis_py.app.state import AppState
from borealis_py.bench import events
from borealis_py.bench.stage import Stage
from borealis_py.engine import compile_query
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.description import Life
from borealis_py.log.kernel import Kernel
from borealis_py.log.records import BatchHeader, ClaimHeader, pack, pack_stimes
from borealis_py.log.source_records import decode_source
from borealis_py.protocol.input_state import InputState
from borealis_py.protocol.redo import RedoJob, SourceRange
from borealis_py.protocol.settings import ManagerConfig
from reconcile.replay_context import ReplayContext, node_context
from sunion.model import State
from sunion.source import SourceFold
from sunion.units import Bucket, Offset

SOURCES = 3
NODES = "totals", "alike"
LIVE = (30, 30, 30)
"""Rows of each source in a bucket of what comes meanwhile: 900 a second in all."""
EVER = 1_000_000
REPEATED = 4
"""How often names are repeated in a costly query."""
SETTLED_TOGETHER = 500
"""Records of a source that are taken in at once, as one read brings them."""


def app(name: str, window: str, costly: bool) -> App:
    """Count and sum per customer and window over the union of the sources, twice. `costly`: names are compared, too."""
    built = App(name, bucket="100ms")
    union = built.union(*(built.source(f"s{i}", schema=events.SCHEMA) for i in range(SOURCES)))
    more = {"distance": keyed.DISTANCE.format(REPEATED)} if costly else {}
    for node in NODES:
        totals = union.window(window).group_by("customer").agg(n="count(*)", total="sum(amount)", **more)
        built.query(node, totals, delay_threshold="3s", replicas=1)
    return built


def lying(records: Iterator[NewRecord]) -> Iterator[Record]:
    """The records of a log that holds just these."""
    for offset, new in enumerate(records):
        yield Record(new.feed, offset, new.timestamp_ms or 0, new.key, new.value)


class Struck:
    """A log of `rows`, and jobs on the beginning of it.

    Args:
        keys: in an open window before the first row. window: as an app's file has it. costly: see `app`.
    """

    def __init__(self, stage: Stage, rows: Steady, window: str, costly: bool = False, keys: Sequence[int] = ()) -> None:
        self.rows = rows
        name = f"bench-struck-{sum(rows.per_bucket)}-{window}" + ("-costly" if costly else "")
        self.app: AppState = stage.describe(app(name, window, costly), str(events.START_US))
        self.timing = self.app.timing
        for i in range(SOURCES):
            stage.fill(rows.records(self._feed(i), self.app.app_uid, i))
        spec, uid = self.app.runs, self.app.app_uid
        self.works: list[ReplayContext] = [
            node_context(spec, n, stage.log, self.timing.ahead_max_us, uid) for n in NODES
        ]
        self._opened = ExitStack()
        self.kernel: Kernel = compile_query(spec, NODES[0])
        self._opened.callback(self.kernel.close)
        self._intake = self._filled(rows, rows.buckets + 1)
        self._states = {n: self._with_keys(n) for n in keys}

    def close(self) -> None:
        self._opened.close()

    def job(self, rows: int, number: int, keys: int = 0) -> RedoJob:
        """The first `rows` rows, whole buckets of them. `keys`: one of those given; 0: the state before anything."""
        buckets = rows // sum(self.rows.per_bucket)
        fold = SourceFold(BUCKETS.start(ORIGIN))
        end = Offset(1 + buckets)  # the claim, then one record a bucket
        ranges = tuple(SourceRange(i, Offset(0), end, fold) for i in range(SOURCES))
        state = self._states[keys] if keys else self.kernel.initial()
        return RedoJob(id=number, first=ORIGIN, end=Bucket(ORIGIN + buckets), state=state, ranges=ranges, rows=rows)

    def state_bytes(self, keys: int) -> int:
        """What a state takes where it is sent."""
        return len(self.kernel.encode_state(self._states[keys] if keys else self.kernel.initial()))

    def inline(self, job: RedoJob) -> Inline:
        """From this process's memory."""
        return Inline(job, self._intake, self.kernel, self.timing, events.BUCKET_US)

    def live(self) -> LiveTurns:
        """What comes meanwhile; on the kernel that inline redos use, too, as in a replica."""
        rows = Steady(LIVE, EVER)
        logs = [lying(rows.records(self._feed(i), self.app.app_uid, i)) for i in range(SOURCES)]
        intake, life = self._filled(rows, 1, logs), Life(self.app.app_uid)
        codecs = [(f"s{i}", self.kernel.source_codec(f"s{i}")) for i in range(SOURCES)]
        return LiveTurns(zip(*logs, strict=True), codecs, life, intake, self.kernel, ORIGIN)

    def _feed(self, source: int) -> Feed:
        return topics.source(self.app.name, f"s{source}")

    def _filled(self, rows: Steady, records: int, logs: Sequence[Iterator[Record]] = ()) -> InputState:
        """The state of a replica that has read this many records of each source."""
        intake = self._empty(ORIGIN)
        for i in range(SOURCES):
            log = logs[i] if logs else lying(rows.records(self._feed(i), self.app.app_uid, i))
            left = islice(log, records)
            while some := list(islice(left, SETTLED_TOGETHER)):
                self._take(intake, i, some)
        return intake

    def _empty(self, origin: Bucket) -> InputState:
        config = ManagerConfig(
            inputs=self.works[0].inputs,
            fragment=self.kernel,
            ops=self.kernel,
            buckets=BUCKETS,
            origin=origin,
            timing=self.timing,
        )
        return InputState(config, origin, None)

    def _take(self, intake: InputState, source: int, records: Sequence[Record]) -> None:
        codec, life = self.kernel.source_codec(f"s{source}"), Life(self.app.app_uid)
        intake.union.feed_all(source, [decode_source(r, codec, f"s{source}", life) for r in records])

    def _with_keys(self, keys: int) -> State:
        """The state after a bucket in which each of so many customers has bought once, just before the first row."""
        intake, uid = self._empty(Bucket(ORIGIN - 1)), self.app.app_uid
        at = BUCKETS.start(ORIGIN - 1)
        bought = [{"at": at, "customer": f"k-{n:06d}", "amount": 0.25, "shop": "", "kind": ""} for n in range(keys)]
        header = BatchHeader(uid, 1, UID, 0, pack_stimes([at] * keys), BUCKETS.end(ORIGIN - 1), "json")
        values = pack(ClaimHeader(uid, 1, UID)), pack(header, msgspec.json.encode(bought))
        self._take(intake, 0, list(lying(NewRecord(self._feed(0), value) for value in values)))
        state, _ = self.kernel.step(self.kernel.initial(), ORIGIN - 1, ORIGIN, intake.union.ordered(ORIGIN - 1, ORIGIN))
        return state
