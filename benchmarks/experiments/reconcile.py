"""`make bench NAME=reconcile`: seconds to redo what a failure has left, by its length and by the size of the state, in
each of the ways available to a replica, and how late live turns are meanwhile.

Ways: inline, in slices of a replica's own turns; in a thread that reads the log again (if rows have left memory); as a
job on Spark, requested by message; and two jobs at once, of two nodes, on one slot and on two. All give the same bits,
which is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from itertools import count

from benchmarks.experiments import reconcile_tables
from benchmarks.experiments.reconcile_tables import (
    COSTLY_ROWS,
    GOAL_RATE,
    INLINE,
    ONE_SLOT,
    SPARK,
    THREAD,
    TWO_SLOTS,
    Redone,
    Spell,
)
from benchmarks.load.redo_ways import AtOnce, Quiet, RedoWay, Ringing, SubmittedRedo, bits_of, ran
from benchmarks.load.steady import Steady
from benchmarks.load.struck import Struck
from benchmarks.measure.redo_rpc import RpcRedos
from benchmarks.report.outcome import Outcome
from benchmarks.report.runner import ExperimentOptions, Size
from borealis_py.app.topics import create_topics, redo_topics_of
from borealis_py.bench.console import At, Bars
from borealis_py.bench.figures import BenchError
from borealis_py.bench.redo import DEADLINE_S, Bits
from borealis_py.bench.stage import Stage, stage_for
from borealis_py.kafka.log import KafkaLog
from borealis_py.protocol.redo import RedoJob
from borealis_py.runtime.spark import class_archive
from borealis_py.runtime.spark.session import ReplicaSession
from reconcile.thread_redo import ThreadRedo

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


Of = tuple[int, str, bool]
"""Rate, window and whether the query is costly: of each a log and an app of its own."""


def spells(grid: Grid) -> dict[Of, list[Spell]]:
    """The measurements on each log."""
    found: dict[Of, list[Spell]] = {}
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
    return reconcile_tables.outcome(found)


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
