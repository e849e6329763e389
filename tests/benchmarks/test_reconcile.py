"""`make bench NAME=reconcile`: jobs out of a small log, run in each way that needs no broker; what is told of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from benchmarks.experiments.reconcile import (
    ALONE,
    COLUMNS,
    COSTLY_ROWS,
    GOAL_ROWS,
    GRIDS,
    INLINE,
    ONE_SLOT,
    RATES,
    SPARK,
    THREAD,
    WAYS,
    Redone,
    Spell,
    between,
    crossing,
    measure,
    outcome,
    spells,
)
from benchmarks.load.redo_ways import AtOnce, Quiet, Ringing, SubmittedRedo, bits_of, ran
from benchmarks.load.steady import Steady
from benchmarks.load.struck import Struck
from benchmarks.measure.redo_rpc import SLOTS, RpcRedos
from borealis_py import App
from borealis_py.app.state import AppState
from borealis_py.bench.figures import BenchError
from borealis_py.log.base import NewRecord
from borealis_py.log.messages import Description
from borealis_py.log.topics import redo_feeds
from borealis_py.protocol.redo import RedoFailed
from borealis_py.protocol.settings import Timing
from reconcile.redo_job import evict_all
from reconcile.thread_redo import ThreadRedo
from tests.reconcile.list_world import StubLog
from tests.reconcile.rpc_log import RpcLog

ROWS = Steady((4, 3, 3), 60)


@pytest.fixture(autouse=True)
def soon(monkeypatch) -> Iterator[None]:
    monkeypatch.setattr("benchmarks.experiments.reconcile.QUIET_S", 0.1)
    yield
    evict_all()


class ListStage:
    """The part of a stage that logs are written with."""

    def __init__(self) -> None:
        self.values: dict[str, list[bytes | None]] = {}
        self.log = StubLog(self.values)

    def describe(self, app: App, origin: str) -> AppState:
        spec = app.describe()
        return AppState(spec.name, spec, Description(spec.to_json(), spec.hash, 0, "", "a1", Timing()))

    def fill(self, records: Iterable[NewRecord]) -> None:
        for record in records:
            self.values.setdefault(record.feed.topic, []).append(record.value)


@pytest.fixture(scope="module")
def log() -> Iterator[Struck]:
    with closing(Struck(ListStage(), ROWS, "10m", keys=[5, 500])) as made:
        yield made


@pytest.fixture
def thread(log: Struck) -> Iterator[tuple[ThreadRedo, Ringing]]:
    bell = Ringing()
    with closing(ThreadRedo(log.works[0], bell, 60)) as redo:
        yield redo, bell


class Refusing:
    """Runs nothing."""

    def submit_job(self, job) -> None:
        self.job = job

    def poll_results(self) -> list[RedoFailed]:
        return [RedoFailed(self.job.id, "no free slot")]


class Never:
    """Answers nothing."""

    def submit_job(self, job) -> None: ...

    def poll_results(self) -> list[RedoFailed]:
        return []


def test_inline_and_a_thread_that_reads_the_log_give_the_same(log, thread) -> None:
    redo, bell = thread
    ways = {INLINE: log.inline, THREAD: lambda job: SubmittedRedo(job, redo)}
    of = [Spell(rate=100, rows=300), Spell(rate=100, rows=600, keys=500)]
    found = measure(log, ways, bell, of, 2, lambda done: None)
    assert [len(one.seconds[way]) for one in found for way in ways] == [2, 2, 2, 2]
    assert all(one.took_s(way) > 0 and one.late_ms(way) > 0 for one in found for way in ways)
    assert found[0].state_bytes < found[1].state_bytes


def test_ways_that_disagree_are_no_figure() -> None:
    bell = Ringing()
    with closing(Struck(ListStage(), ROWS, "1s")) as short, closing(ThreadRedo(short.works[0], bell, 60)) as redo:
        ways = {INLINE: short.inline, THREAD: lambda job: SubmittedRedo(replace(job, end=job.end - 20, rows=400), redo)}
        with pytest.raises(BenchError, match="thread gave other bits than inline"):
            measure(short, ways, bell, [Spell(rate=100, rows=600)], 1, lambda done: None)


def test_another_state_in_the_end_is_another_result(log) -> None:
    way = log.inline(log.job(300, 1))
    whole = ran(way, log.live(), Ringing()).results[0]
    less = ran(log.inline(log.job(290, 1)), log.live(), Ringing()).results[0]
    assert whole[1] == less[1] == {}
    assert bits_of(whole, log.kernel) != bits_of(less, log.kernel)


class OwnContext:
    """A SparkContext that runs each job in the thread that asks."""

    def __init__(self) -> None:
        self.groups: list[str] = []

    def setJobGroup(self, group: str, what: str, interrupt: bool) -> None:
        self.groups.append(group)

    def parallelize(self, items: list[bytes], slices: int) -> OwnJob:
        return OwnJob(items)


class OwnJob:
    def __init__(self, items: Iterable[bytes]) -> None:
        self._items = items

    def map(self, task) -> OwnJob:
        return OwnJob(map(task, self._items))

    def collect(self) -> list[bytes]:
        return list(self._items)


def messages_of(struck: Struck) -> RpcLog:
    """A log with the topics of all its redos."""
    return RpcLog(*(redo_feeds(struck.app.name, work.node, 0)[0] for work in struck.works))


def test_jobs_that_are_asked_for_by_rpc_give_the_same() -> None:
    bell, context = Ringing(), OwnContext()
    with (
        closing(Struck(ListStage(), ROWS, "1s")) as short,
        closing(RpcRedos(context, short, messages_of(short), bell)) as drivers,
    ):
        first = bits_of(ran(short.inline(short.job(600, 1)), short.live(), Ringing()).results[0], short.kernel)
        for number, slots in enumerate(SLOTS):
            job = short.job(600, 2 + number)
            both = AtOnce([SubmittedRedo(job, redo) for redo in drivers.redos[slots]])
            found = ran(both, short.live(), bell)
            assert [bits_of(result, short.kernel) for result in found.results] == [first, first]
            assert both.refusals == 0
        assert len(context.groups) == 4


def test_a_job_is_the_beginning_of_the_log(log) -> None:
    job = log.job(300, 1)
    assert (job.end - job.first, job.rows) == (30, 300)
    assert [(r.first, r.end) for r in job.ranges] == [(0, 31)] * 3
    way = log.inline(job)
    way.start_job()
    while not way.turn():
        pass
    ((state, outputs),) = way.results
    assert state != job.state
    assert outputs == {}, "the window is still open"


def test_keys_lie_in_the_open_window(log) -> None:
    assert log.state_bytes(0) < log.state_bytes(5) < log.state_bytes(500)
    assert log.job(10, 1, 500).state != log.job(10, 1, 5).state


def test_a_refused_job_runs_from_memory(log) -> None:
    with closing(Struck(ListStage(), ROWS, "1s")) as short:
        job = short.job(600, 1)
        alone = ran(short.inline(job), short.live(), Ringing())
        both = AtOnce([SubmittedRedo(job, Refusing(), short.inline(job)) for _ in range(2)])
        kernel = short.kernel
        found = [bits_of(result, kernel) for result in ran(both, short.live(), Ringing()).results]
        assert found == 2 * [bits_of(alone.results[0], kernel)]
        assert len(found[0]) > 1, "windows have closed"
        assert both.refusals == 2


def test_a_refusal_without_memory_and_silence_are_errors(log, monkeypatch) -> None:
    with pytest.raises(BenchError, match="no free slot"):
        ran(SubmittedRedo(log.job(10, 1), Refusing()), log.live(), Ringing())
    monkeypatch.setattr("benchmarks.load.redo_ways.DEADLINE_S", 0.05)
    with pytest.raises(BenchError, match="did not end within"):
        ran(SubmittedRedo(log.job(10, 1), Never()), log.live(), Ringing())


def test_live_turns_are_as_late_as_what_holds_the_loop_up(log) -> None:
    now = [100.0]
    live = log.live()
    live._clock = lambda: now[0]
    live.begin()
    live.catch_up()
    assert (live.late_s, live.due) == (0.0, pytest.approx(100.1))
    now[0] = 100.55
    live.catch_up()
    assert live.late_s == pytest.approx(0.45), "the first of those that were due waited longest"
    assert live.due == pytest.approx(100.6)


def test_with_nothing_beside_them_live_turns_go_on(log) -> None:
    assert ran(Quiet(0.25), log.live(), Ringing()).seconds >= 0.25


# What is told ---------------------------------------------------------------------------------------------------------


def redone(rows: int, inline: float, spark: float, late: tuple[float, float] = (0.01, 0.01), **spell) -> Redone:
    seconds = {way: [spark] for way in WAYS} | {INLINE: [inline], ONE_SLOT: [2 * spark]}
    late_s = {way: [late[1]] for way in WAYS} | {INLINE: [late[0]]}
    return Redone(
        spell=Spell(**{"rate": 10_000, "rows": rows} | spell),
        state_bytes=10,
        quiet_s=0.002,
        seconds=seconds,
        late_s=late_s,
        refused=dict.fromkeys(WAYS, 0),
    )


GROWING = [
    redone(1_000, 0.01, 0.1),
    redone(11_000, 0.11, 0.2, (0.05, 0.01)),
    redone(45_000, 0.9, 0.5, (0.15, 0.01)),
]


def test_where_spark_is_sooner_and_spares_live_turns() -> None:
    found = crossing(GROWING, 1.0)
    assert found.in_time == pytest.approx(11_000 + 34_000 * 0.09 / 0.49)
    assert found.spared == pytest.approx(11_000 + 34_000 * 0.01 / 0.1)
    assert found.inline_s == pytest.approx(0.11 + 0.79 * 0.1)
    assert (found.redo_rows, found.redo_rows_max) == (11_000, 90_000)


def test_ways_that_never_cross_say_so() -> None:
    found = crossing([redone(1_000, 0.01, 0.1), redone(45_000, 0.1, 0.5)], 1.5)
    assert (found.in_time, found.spared, found.inline_s) == (None, None, None)
    always = crossing([redone(1_000, 0.2, 0.1), redone(45_000, 0.9, 0.5)], 1.5)
    assert always.in_time == 1_000


def test_rows_in_a_time_lie_between_those_measured() -> None:
    points = [(1_000, 0.1), (2_000, 0.3)]
    assert [between(points, s) for s in (0.05, 0.1, 0.2, 0.6)] == pytest.approx([500, 1_000, 1_500, 4_000])


def test_the_table_has_a_cell_for_each_column_and_goals_are_judged() -> None:
    state = redone(GOAL_ROWS, 0.1, 0.5, keys=1_000)
    told = outcome([*GROWING, state])
    assert all(len(row) == len(COLUMNS) for row in told.rows)
    assert told.rows[-1][:5] == ["10,000", "sums", "45,000", "1,000", "0.100"]
    name = "45000 rows at 10,000/s"
    assert told.ratios == {
        f"{name}: inline to Spark": 1.8,
        f"{name}: inline to thread": 1.8,
        f"{name}: two jobs on one slot to two": 2.0,
        f"{name}: at most 1 s": 1.0,
    }
    assert "45,000 rows at 10,000/s: 9 times real time" in told.worse
    assert "took" not in told.worse
    slow = outcome([GROWING[0], redone(GOAL_ROWS, 2.0, 1.25)])
    assert "45,000 rows at 10,000/s took 1.25 s" in slow.worse
    assert slow.ratios[f"{name}: at most 1 s"] == pytest.approx(0.8)


def test_refusals_are_marked() -> None:
    one = replace(GROWING[0], refused={way: int(way == ONE_SLOT) for way in WAYS})
    assert outcome([one]).rows[0][7] == "0.200 r1"


@pytest.mark.parametrize("grid", GRIDS.values())
def test_every_spell_is_whole_buckets_of_its_log_and_the_goal_is_in_each_size(grid) -> None:
    for (rate, _, _), of in spells(grid).items():
        assert sum(RATES[rate]) == rate // 10
        assert all(spell.rows % (rate // 10) == 0 for spell in of)
    assert {spell.rows for spell in spells(grid)[10_000, "1s", False]} >= {GOAL_ROWS}
    assert {spell.rows for spell in spells(grid)[10_000, "1s", True]} >= {COSTLY_ROWS}
    assert set(ALONE) <= set(WAYS)
    assert SPARK in ALONE


def test_a_costly_query_is_told_apart() -> None:
    told = outcome([*GROWING, redone(COSTLY_ROWS, 9.0, 8.0, costly=True)])
    assert "took" not in told.worse
    assert "a costly query is redone at 0.12 times real time (goal of sums: 20)" in told.worse
    assert "at 10,000/s, a costly query Spark is sooner from 10,000 rows on" in told.worse
    name = "10000 rows at 10,000/s, a costly query"
    assert told.ratios[f"{name}: inline to Spark"] == 1.125
    assert f"{name}: at most 1 s" not in told.ratios
    assert [row[1] for row in told.rows] == ["sums", "sums", "sums", "costly"]
