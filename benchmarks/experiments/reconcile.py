"""`make bench NAME=reconcile`: seconds to redo what a failure has left, by its length and by the size of the state, in
each of the ways available to a replica, and how late live turns are meanwhile.

Ways: inline, in slices of a replica's own turns; in a thread that reads the log again (if rows have left memory); as a
job on Spark, requested by message; and two jobs at once, of two nodes, on one slot and on two. All give the same bits,
which is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, dataclass
from itertools import count, pairwise
from statistics import median
from typing import Any

from benchmarks.load.redo_ways import AtOnce, Quiet, RedoWay, Ringing, SubmittedRedo, bits_of, ran
from benchmarks.load.steady import Steady
from benchmarks.load.struck import Struck
from benchmarks.measure.redo_rpc import RpcRedos
from benchmarks.report.goals import goals, published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions, Size
from borealis_py.app.topics import create_topics, redo_topics_of
from borealis_py.bench.console import At, Bars
from borealis_py.bench.figures import BenchError
from borealis_py.bench.redo import DEADLINE_S, Bits
from borealis_py.bench.stage import Stage, stage_for
from borealis_py.kafka.log import KafkaLog
from borealis_py.protocol.redo import RedoJob
from borealis_py.protocol.settings import Timing
from borealis_py.runtime.spark import class_archive
from borealis_py.runtime.spark.session import ReplicaSession
from reconcile.thread_redo import ThreadRedo

INLINE, THREAD, SPARK = "inline", "thread", "Spark"
ONE_SLOT, TWO_SLOTS = "2 jobs, 1 slot", "2 jobs, 2 slots"
WAYS = INLINE, THREAD, SPARK, ONE_SLOT, TWO_SLOTS
ALONE = INLINE, THREAD, SPARK
"""Ways of one job."""
_GOALS = goals("reconcile")
GOAL_ROWS: int = _GOALS["rows"]
GOAL_S: float = _GOALS["took_s"]
GOAL_RATE: int = _GOALS["rate"]
GOAL_TIMES: float = _GOALS["times"]
"""Tuples per second, and the factor by which redoing them should be faster."""
COSTLY_ROWS = 10_000
"""Number of rows for which a costly query is summarised."""
SPARED_MS = 50.0
"""A delay of live turns above this is worth avoiding."""

SETUP = (
    "Count and sum of 100 customers by second over three sources, a record a source and 100 ms; where keys are given, "
    "by 10 minutes, with so many keys in the open window. Seconds: medians, from a job's start until its results are "
    "there, while a loop runs 900 rows/s live as a replica does. Inline: from memory, in slices of a turn. Thread: the "
    "log read again in the same process. Spark: requested by message from a driver with a warm session on this "
    "machine. 2 jobs: of two nodes at once; r: so many were refused for want of a slot and ran inline. Live: the "
    "longest that a live turn ended after it was due, of all runs. Writing the results is in none of it."
)
COLUMNS = [
    "rows/s>",
    "query",
    "rows>",
    "keys>",
    *(f"{way} s>" for way in WAYS),
    "live ms late: no job>",
    *(f"{way}>" for way in ALONE),
    "times real time>",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """What is redone: `rows` as they come at `rate` a second; `keys` in an open window before it, 0: nothing. `costly`:
    by a query whose rows take long."""

    rate: int
    rows: int
    keys: int = 0
    costly: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Redone:
    """One spell, by way: seconds and longest delay of live turns of each run, and the total number of refused jobs.

    `quiet_s`: the longest delay of live turns without a job. `state_bytes`: of the initial state, as it is sent.
    """

    spell: Spell
    state_bytes: int
    quiet_s: float
    seconds: Mapping[str, Sequence[float]]
    late_s: Mapping[str, Sequence[float]]
    refused: Mapping[str, int]

    def took_s(self, way: str) -> float:
        """The median."""
        return median(self.seconds[way])

    def late_ms(self, way: str) -> float:
        """The longest."""
        return max(self.late_s[way]) * 1000

    @property
    def best(self) -> str:
        """The faster of the ways that replicas choose from."""
        return min((INLINE, SPARK), key=self.took_s)

    @property
    def times(self) -> float:
        """How many times faster than real time, in the best way."""
        return self.spell.rows / self.spell.rate / self.took_s(self.best)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """From how many rows on a job on Spark takes less time than inline, and spares live turns a delay; None: never.

    The others are what the same figures say of settings of `Timing`. `inline_s`: what as many rows as from which on
    Spark spares live turns take inline; None: inline is always better. `redo_rows`: a job of which half is fixed cost.
    `redo_rows_max`: what a job does in `redo_us`.
    """

    rate: int
    costly: bool
    in_time: float | None
    spared: float | None
    inline_s: float | None
    redo_rows: int
    redo_rows_max: int


def crossing(found: Sequence[Redone], redo_s: float) -> Crossing:
    """Of spells of one rate, by their rows. `redo_s`: what a job may take."""
    spark = [(one.spell.rows, one.took_s(SPARK)) for one in found]
    inline = [(one.spell.rows, one.took_s(INLINE)) for one in found]
    fixed_s = spark[0][1]
    spared = _from(found, lambda one: one.late_ms(INLINE) - one.late_ms(SPARK) - SPARED_MS)
    return Crossing(
        rate=found[0].spell.rate,
        costly=found[0].spell.costly,
        in_time=_from(found, lambda one: one.took_s(INLINE) - one.took_s(SPARK)),
        spared=spared,
        inline_s=None if spared is None else between([(s, rows) for rows, s in inline], spared),
        redo_rows=round(between(spark, 2 * fixed_s)),
        redo_rows_max=round(between(spark, redo_s)),
    )


def _from(found: Sequence[Redone], gain: Callable[[Redone], float]) -> float | None:
    """The number of rows from which on a gain stays positive."""
    gains = [(one.spell.rows, gain(one)) for one in found]
    if gains[-1][1] <= 0:
        return None
    for (rows, before), (more, after) in reversed(list(pairwise(gains))):
        if before <= 0:
            return rows + (more - rows) * -before / (after - before)
    return float(gains[0][0])


def between(points: Sequence[tuple[float, float]], at: float) -> float:
    """The x where y is `at`, on the line through points (x, y), ascending; outside of them in the nearest's ratio.

    Of (rows, seconds): how many rows a way does in so many seconds.
    """
    first, last = points[0], points[-1]
    if at <= first[1]:
        return first[0] * at / first[1]
    for (x, y), (next_x, next_y) in pairwise(points):
        if y <= at < next_y:
            return x + (next_x - x) * (at - y) / (next_y - y)
    return last[0] * at / last[1]


def outcome(found: Sequence[Redone], timing: Timing | None = None) -> Outcome:
    """The whole report. `timing`: the defaults to compare with."""
    timing = timing or Timing()
    lengths = by_rate([one for one in found if not one.spell.keys])
    crossings = [crossing(of, timing.redo_us / 1e6) for of in lengths.values()]
    return Outcome(
        name="reconcile",
        title="Redo of what a failure has left: seconds, and how late live turns are meanwhile",
        published=published("reconcile"),
        setup=SETUP,
        worse=_worse(found, crossings, timing),
        columns=COLUMNS,
        rows=[_row(one) for one in found],
        ratios=_ratios(lengths),
        data={"spells": [_told(one) for one in found], "crossings": [asdict(one) for one in crossings]},
        panels=_panels(lengths, [one for one in found if one.spell.keys]),
    )


Of = tuple[int, bool]
"""Rate, and whether the query is costly."""


def by_rate(found: Sequence[Redone]) -> dict[Of, list[Redone]]:
    """Spells of each rate and query, by their rows."""
    groups: dict[Of, list[Redone]] = {}
    for one in sorted(found, key=lambda one: one.spell.rows):
        groups.setdefault((one.spell.rate, one.spell.costly), []).append(one)
    return {key: groups[key] for key in sorted(groups, key=lambda key: (key[1], key[0]))}


def _named(rate: int, costly: bool) -> str:
    return f"{rate:,}/s" + (", a costly query" if costly else "")


def _row(one: Redone) -> list[str]:
    refused = {way: f" r{one.refused[way]}" if one.refused[way] else "" for way in WAYS}
    return [
        f"{one.spell.rate:,}",
        "costly" if one.spell.costly else "sums",
        f"{one.spell.rows:,}",
        f"{one.spell.keys:,}" if one.spell.keys else "",
        *(f"{one.took_s(way):.3f}{refused[way]}" for way in WAYS),
        f"{one.quiet_s * 1000:.0f}",
        *(f"{one.late_ms(way):.0f}" for way in ALONE),
        f"{one.times:.0f}",
    ]


def _told(one: Redone) -> dict[str, Any]:
    return {
        **asdict(one),
        "took_s": {way: one.took_s(way) for way in WAYS},
        "late_ms": {way: one.late_ms(way) for way in WAYS},
        "times_real_time": one.times,
    }


def _worse(found: Sequence[Redone], crossings: Sequence[Crossing], timing: Timing) -> str:
    said = []
    plain = [one for one in found if not one.spell.costly]
    slow = [one for one in plain if one.spell.rows == GOAL_ROWS and one.took_s(one.best) >= GOAL_S]
    said += [f"{GOAL_ROWS:,} rows at {one.spell.rate:,}/s took {one.took_s(one.best):.2f} s" for one in slow]
    long = [one for one in plain if one.spell.rows >= one.spell.rate == GOAL_RATE]
    behind = [one for one in long if one.times < GOAL_TIMES]
    said += [f"{one.spell.rows:,} rows at {one.spell.rate:,}/s: {one.times:.0f} times real time" for one in behind]
    costly = [one.times for one in found if one.spell.costly and one.spell.rows >= one.spell.rate == GOAL_RATE]
    if costly and min(costly) < GOAL_TIMES:
        times = " to ".join(dict.fromkeys(f"{x:.2g}" for x in (min(costly), max(costly))))
        said.append(f"a costly query is redone at {times} times real time (goal of sums: {GOAL_TIMES:g})")
    for one in crossings:
        time = "never sooner" if one.in_time is None else f"sooner from {one.in_time:,.0f} rows on"
        live = (
            "it spares live turns nothing"
            if one.spared is None
            else f"it spares them delay from {one.spared:,.0f} rows on"
        )
        inline = "no limit" if one.inline_s is None else f"{one.inline_s:.2f} s"
        said.append(
            f"at {_named(one.rate, one.costly)} Spark is {time} than inline, and {live}; this suggests inline_us "
            f"{inline} (it is {timing.inline_us / 1e6:g} s), redo_rows {one.redo_rows:,} ({timing.redo_rows:,}), "
            f"redo_rows_max {one.redo_rows_max:,} ({timing.redo_rows_max:,}) with redo_us {timing.redo_us / 1e6:g} s"
        )
    refused = sum(sum(one.refused.values()) for one in found)
    if refused:
        said.append(f"{refused} jobs were refused for want of a slot")
    return "; ".join(said)


def _ratios(lengths: Mapping[Of, Sequence[Redone]]) -> dict[str, float]:
    """Of spells that every size has."""
    found = {}
    for (rate, costly), of in lengths.items():
        for one in of:
            if one.spell.rows == (COSTLY_ROWS if costly else GOAL_ROWS) and rate <= GOAL_RATE:
                name = f"{one.spell.rows} rows at {_named(rate, costly)}"
                found[f"{name}: inline to Spark"] = one.took_s(INLINE) / one.took_s(SPARK)
                found[f"{name}: inline to thread"] = one.took_s(INLINE) / one.took_s(THREAD)
                found[f"{name}: two jobs on one slot to two"] = one.took_s(ONE_SLOT) / one.took_s(TWO_SLOTS)
                if not costly:
                    found[f"{name}: at most {GOAL_S:g} s"] = min(1.0, GOAL_S / one.took_s(one.best))
    return found


def _panels(lengths: Mapping[Of, Sequence[Redone]], states: Sequence[Redone]) -> list[Panel]:
    return [
        *(_panel(f"As at {_named(*key)}", "rows", of, WAYS, _rows, _took) for key, of in lengths.items()),
        *(_panel(f"Live turns, as at {_named(*key)}", "rows", of, ALONE, _rows, _late) for key, of in lengths.items()),
        *(
            _panel(
                f"State, {of[0].spell.rows:,} rows at {_named(*key)}", "keys in the open window", of, WAYS, _keys, _took
            )
            for key, of in by_rate(states).items()
        ),
    ]


CellValue = Callable[[Redone, str], float]


def _rows(one: Redone, way: str) -> float:
    return float(one.spell.rows)


def _keys(one: Redone, way: str) -> float:
    return float(one.spell.keys)


def _took(one: Redone, way: str) -> float:
    return one.took_s(way)


def _late(one: Redone, way: str) -> float:
    return one.late_ms(way) / 1000


def _panel(title: str, x: str, of: Sequence[Redone], ways: Sequence[str], at: CellValue, value: CellValue) -> Panel:
    curves = [Curve(label=way, x=[at(one, way) for one in of], y=[value(one, way) for one in of]) for way in ways]
    y = "s" if value is _took else "longest delay past due, s"
    return Panel(title=title, x=x, y=y, curves=curves, log_x=True, log_y=True)


RATES = {1_000: (34, 33, 33), 10_000: (334, 333, 333), 50_000: (1_667, 1_667, 1_666)}
"""Rows per second -> rows of each source in a bucket."""
LENGTHS, STATES = "1s", "10m"
"""Windows: of the spells with varied length, and of those with varied state, whose window stays open all the time."""
PATIENT = (("fetch.wait.max.ms", "500"),)
"""Settings of the clients that carry messages, as replicas have them."""
QUIET_S = 2.0
"""How long live turns run without a job, for comparison."""
FEW = 150_000
"""Up to this many rows, each way is run several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """`rows`: lengths, at each of `rates`. `costly`: those of a query whose rows take long, at `GOAL_RATE`. `keys`: of
    states, with `state_rows` rows at each of `state_rates`. `runs`: of each way, where rows are few."""

    rates: Sequence[int]
    rows: Sequence[int]
    keys: Sequence[int]
    costly: Sequence[int] = (1_000, COSTLY_ROWS)
    state_rates: Sequence[int] = (10_000,)
    state_rows: int = 45_000
    runs: int = 1


GRIDS: dict[Size, Grid] = {
    "short": Grid(rates=(1_000, 10_000), rows=(1_000, 45_000), keys=(10, 100_000)),
    "usual": Grid(
        rates=(1_000, 10_000, 50_000),
        rows=(1_000, 5_000, 10_000, 45_000, 150_000, 450_000, 1_000_000),
        keys=(10, 1_000, 100_000),
        costly=(1_000, 5_000, COSTLY_ROWS, 45_000, 150_000),
        state_rates=(1_000, 10_000),
        runs=3,
    ),
    "full": Grid(
        rates=(1_000, 10_000, 50_000),
        rows=(1_000, 2_000, 5_000, 10_000, 20_000, 45_000, 100_000, 150_000, 300_000, 450_000, 700_000, 1_000_000),
        keys=(10, 1_000, 10_000, 100_000),
        costly=(1_000, 2_000, 5_000, COSTLY_ROWS, 20_000, 45_000, 100_000, 150_000, 300_000),
        state_rates=(1_000, 10_000),
        runs=5,
    ),
}


SpellKey = tuple[int, str, bool]
"""Rate, window and whether the query is costly: of each a log and an app of its own."""


def spells(grid: Grid) -> dict[SpellKey, list[Spell]]:
    """The measurements on each log."""
    found: dict[SpellKey, list[Spell]] = {}
    for rate in grid.rates:
        fits = [rows for rows in grid.rows if rows % (rate // 10) == 0]
        found[rate, LENGTHS, False] = [Spell(rate=rate, rows=rows) for rows in fits]
    found[GOAL_RATE, LENGTHS, True] = [Spell(rate=GOAL_RATE, rows=rows, costly=True) for rows in grid.costly]
    for rate in grid.state_rates:
        found[rate, STATES, False] = [Spell(rate=rate, rows=grid.state_rows, keys=keys) for keys in grid.keys]
    return found


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure the grid.

    Raises:
        BenchError: a redo failed, or the ways disagree.
        BrokerError, LogError, SparkUnavailable: what it was to be measured on did not start.
    """
    class_archive.prepare(bars.say)
    grid = GRIDS[options.size]
    found: list[Redone] = []
    with stage_for(options.work, bars) as stage, ExitStack() as stack:
        bars.say("starting Spark")
        session = ReplicaSession.start_spark("borealis bench", output=stage.work / "spark-bench.log")
        stack.callback(session.stop)
        for (rate, window, costly), of in spells(grid).items():
            bars.say(f"writing {max(spell.rows for spell in of):,} rows as at {rate:,}/s")
            what = f"redoing up to {max(spell.rows for spell in of):,} rows of {rate:,}/s"
            with (
                struck(stage, rate, window, costly, of) as log,
                set_up(stage, session, log) as (ways, bell),
                bars.bar(what, len(of)) as at,
            ):
                found += measure(log, ways, bell, of, grid.runs, at)
            stage.forget(log.app)
    return outcome(found)


@contextmanager
def struck(stage: Stage, rate: int, window: str, costly: bool, of: Sequence[Spell]) -> Iterator[Struck]:
    """The log of some spells."""
    per_bucket = RATES[rate]
    rows = Steady(per_bucket, max(spell.rows for spell in of) // sum(per_bucket))
    with closing(Struck(stage, rows, window, costly, sorted({spell.keys for spell in of if spell.keys}))) as log:
        yield log


Make = Callable[[RedoJob], RedoWay]


@contextmanager
def set_up(stage: Stage, session: ReplicaSession, log: Struck) -> Iterator[tuple[Mapping[str, Make], Ringing]]:
    """By name, how a job on a log is run, and the bell that rings for all of them."""
    bell = Ringing()
    create_topics(stage.log, redo_topics_of(log.app.spec))
    rpc_log = KafkaLog(stage.log.bootstrap, PATIENT)
    for work in log.works:
        session.warm(work.pack())
    with (
        closing(ThreadRedo(log.works[0], bell, DEADLINE_S)) as thread,
        closing(RpcRedos(session.context, log, rpc_log, bell)) as drivers,
    ):

        def asked(slots: int, nodes: int) -> Make:
            redos = drivers.redos[slots][:nodes]
            return lambda job: AtOnce([SubmittedRedo(job, redo, log.inline(job)) for redo in redos])

        ways: dict[str, Make] = {
            INLINE: log.inline,
            THREAD: lambda job: SubmittedRedo(job, thread),
            SPARK: asked(1, 1),
            ONE_SLOT: asked(1, 2),
            TWO_SLOTS: asked(2, 2),
        }
        yield ways, bell


def measure(
    log: Struck, ways: Mapping[str, Make], bell: Ringing, of: Sequence[Spell], runs: int, at: At
) -> list[Redone]:
    """Each spell each way. The first one is run once before it counts.

    Raises:
        BenchError: a redo failed, or the ways disagree.
    """
    live, numbers, found = log.live(), count(1), list[Redone]()
    quiet_s = ran(Quiet(QUIET_S), live, bell).late_s
    for n, spell in enumerate(of):
        seconds: dict[str, list[float]] = {name: [] for name in ways}
        late: dict[str, list[float]] = {name: [] for name in ways}
        refused = dict.fromkeys(ways, 0)
        expected: Bits = {}
        warm = 1 if n == 0 else 0
        for number in range(warm + (runs if spell.rows <= FEW else 1)):
            for name, make in ways.items():
                way = make(log.job(spell.rows, next(numbers), spell.keys))
                run = ran(way, live, bell)
                for came in [bits_of(result, log.kernel) for result in run.results]:
                    expected = expected or came
                    if came != expected:
                        raise BenchError(f"{spell.rows} rows at {spell.rate}/s: {name} gave other bits than {INLINE}")
                if number >= warm:
                    seconds[name].append(run.seconds)
                    late[name].append(run.late_s)
                    refused[name] += way.refusals
        size = log.state_bytes(spell.keys)
        found.append(
            Redone(spell=spell, state_bytes=size, quiet_s=quiet_s, seconds=seconds, late_s=late, refused=refused)
        )
        at(n + 1)
    return found
