"""What the end of a window with many keys does to a replica: how long its loop stands still, for how long neither a
turn ends nor a heartbeat is sent, and for how long no heartbeat is, by which peers tell whether it lives (R7.1, R8.1).

The window is filled ahead, half a second short of its end; then a bucket comes every 100 ms, as if it were live, while
a loop like a replica's runs in another process (`stalls`).
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.measure.loop.stalls import MS, QUERY, SOURCE, Watched, Written, beside
from borealis_py import App
from borealis_py.bench.console import Bars
from borealis_py.bench.events import BUCKET_US, START_US
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage
from borealis_py.log import topics

WINDOW = 200
"""Buckets of a window."""
AHEAD = WINDOW - 5
"""Buckets of it that are filled ahead."""
SECONDS = 8.0
THRESHOLD_S = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """One window's end, in milliseconds.

    Attributes:
        keys: one result each. turn_ms: the longest turn. silent_ms: the longest time in which no turn ended and no
            heartbeat was sent. beat_ms: from one heartbeat to the next, at most. handed_ms, corrected_ms: from when the
            bucket was sent with which the window ends until all results were handed to Kafka, or committed.
    """

    keys: int
    turn_ms: float
    silent_ms: float
    beat_ms: float
    handed_ms: float
    corrected_ms: float

    @property
    def within(self) -> bool:
        """Whether its results were handed over within X; the way to the reader is not measured."""
        return self.handed_ms <= THRESHOLD_S * 1000


def app(keys: int) -> App:
    """Count and sum by key, in a window that ends meanwhile."""
    built = App(f"overhead-closing-{keys}", bucket="100ms")
    source = built.source(SOURCE, schema={"key": "int64", "amount": "double"})
    kept = source.window(f"{WINDOW * BUCKET_US // 1_000_000}s").group_by("key").agg(n="count(*)", total="sum(amount)")
    built.query(QUERY, kept, delay_threshold=f"{THRESHOLD_S}s", replicas=1)
    return built


def filled(keys: int) -> list[range]:
    """The keys of each bucket that is filled ahead: each key once, evenly."""
    share = -(-keys // AHEAD)
    return [range(min(keys, n * share), min(keys, (n + 1) * share)) for n in range(AHEAD)]


def measure(stage: Stage, keys: int, bars: Bars) -> Closed:
    """One window, in an app and a process of its own.

    Raises:
        BenchError: the process failed, or results are missing.
    """
    what = f"the end of a window of {keys:,} keys"
    bars.say(f"{what}: filling")
    state = stage.describe(app(keys), str(START_US))
    source = Written(state.name, state.app_uid)
    last = source.bucket + WINDOW - 1
    stage.fill(iter([source.claim(), *map(source.next, filled(keys))]))
    bars.say(what)
    sent_ms: dict[int, float] = {}

    def sent(bucket: int) -> None:
        sent_ms[bucket] = time.time() * MS

    watched = beside(stage, state, source, SECONDS, range(1), what, sent)
    beats = [record.timestamp_ms for record in stage.read(topics.control(state.name))]
    results = len(stage.read(topics.corrected(state.name, QUERY)))
    stage.forget(state)
    if last not in sent_ms or results < keys:  # of a slow machine the next window ends, too
        raise BenchError(f"{what}: {results:,} results of {keys:,}; see {state.name}.log")
    return judge(keys, last, sent_ms[last], watched, beats)


def judge(keys: int, last: int, sent_ms: float, watched: Watched, beats_ms: Sequence[float]) -> Closed:
    """Args: last: the bucket that ends the window, sent at `sent_ms`, wall milliseconds, as those of the heartbeats."""
    stable = min(turn.wall_us for turn in watched.turns if turn.stable > last) / MS
    published = min(turn.wall_us for turn in watched.turns if turn.published > last) / MS
    return Closed(
        keys=keys,
        turn_ms=max(turn.ended - turn.began for turn in watched.turns) * MS,
        silent_ms=silent_ms(watched, beats_ms),
        beat_ms=max((after - before for before, after in pairwise(sorted(beats_ms))), default=SECONDS * MS),
        handed_ms=stable - sent_ms,
        corrected_ms=published - sent_ms,
    )


def silent_ms(watched: Watched, beats_ms: Sequence[float]) -> float:
    """The longest time, while the loop was watched, in which no turn ended and no heartbeat was sent."""
    ends = [turn.wall_us / MS for turn in watched.turns]
    signs = sorted([*ends, *(at for at in beats_ms if min(ends) <= at <= max(ends))])
    return max(after - before for before, after in pairwise(signs))
