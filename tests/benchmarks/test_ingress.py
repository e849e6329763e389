"""`make bench NAME=ingress`: what is made of measurements, and what is written into foreign topics. Pure."""

from __future__ import annotations

import json
import threading
from dataclasses import replace

import pytest

from benchmarks.experiments import first_test
from benchmarks.experiments.ingress import SIZES
from benchmarks.ingress import apps, catching, tables
from benchmarks.ingress.copying import _records
from benchmarks.ingress.figures import BothWays, Catching, CopyFigures, KilledFigures, WayDelays
from benchmarks.ingress.in_step import CopiedLog, lead_us, longest_lead_us
from benchmarks.ingress.killing import gap_us, tentative_of
from benchmarks.ingress.source_follower import SourceFollower
from benchmarks.ingress.writing import write
from borealis_py.bench.events import Backlog
from borealis_py.bench.figures import FirstTestFigures, run_figures
from borealis_py.bench.raw_loop import avro_decoder
from borealis_py.client.subscriber import LiveChange
from borealis_py.ingress.decoders import decoder_for
from borealis_py.log.base import Feed, Record
from tests.ingress.worlds import TopicWorld

DELAY = BothWays(WayDelays([10_000] * 100, 0, 0), WayDelays([13_000] * 99 + [50_000], late=0, tentative=1))
LOOPS = (run_figures("hand loop", 1_000, 2.0, 1.5), run_figures("hand loop", 1_000, 1.0, 1.0))
COPY = CopyFigures("json", 1_000, 98.0, LOOPS, tuple(run_figures("ingress", 1_000, s, s) for s in (2.0, 9.0, 4.0)))
SPARSE = Catching([60, 30, 10], [10, 6, 3], 1.0, 100, 0, 0, 0.9, [])
FULL = Catching([600, 300, 100], [100, 60, 30], 9.0, 1_000, 0, 0, 0.9, [[(0.0, 0.0), (1.0, 9.0)]] * 3)
KILLED = KilledFigures([900.0, 1_300.0], 0, 0, 500, 500, 0, 0)


def cells(what: str, found: list[list[str]]) -> list[str]:
    (row,) = (row for row in found if row[0].startswith(what))
    return row[1:]


def test_the_report_compares_each_figure_with_its_goal() -> None:
    found = tables.outcome([DELAY] * 3, [COPY], FULL, SPARSE, KILLED)
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert cells("plain topic to result, p50", found.rows) == ["+3.0 ms: 13.0 beside 10.0", "<= 5 ms", "met"]
    assert cells("plain topic to result, p99", found.rows)[2] == "met"
    assert cells("copying json, 98 B a record, of the hand loop", found.rows)[1:] == [">= 0.35", "MISSED"]
    assert cells("1,000 rows of 100 s in three full topics: dropped", found.rows) == ["0 (0 dead letters)", "0", "met"]
    assert cells("ingress killed 2 times: lost", found.rows) == ["0, 0", "0, 0", "met"]
    assert found.worse == "Missed: copying json, 98 B a record, of the hand loop."
    assert found.ratios["copying json, rows/s to the hand loop's"] == pytest.approx(0.25), "the median of the runs"
    assert found.ratios["our publisher's p50 to a plain topic's"] == pytest.approx(10 / 13)
    assert found.ratios["full topics: rows/s with few rows a second to those with many"] == pytest.approx(0.9)
    assert len(found.panels) == 4


@pytest.mark.parametrize(
    ("full", "killed", "missed"),
    [
        (replace(FULL, counted=999, dead=1), KILLED, "dropped"),
        (replace(FULL, tentative=1), KILLED, "tentative buckets"),
        (replace(FULL, lead_s=11.0), KILLED, "ahead of the slowest"),
        (FULL, replace(KILLED, missing=1), "lost, repeated"),
        (FULL, replace(KILLED, repeated=1), "lost, repeated"),
        (FULL, replace(KILLED, with_tentative=1), "with tentative results"),
        (FULL, replace(KILLED, unlabelled=1), "with tentative results"),
    ],
)
def test_what_is_missed_is_told(full: Catching, killed: KilledFigures, missed: str) -> None:
    found = tables.outcome([DELAY], [], full, FULL, killed)
    assert [row[0].endswith(missed) or missed in row[0] for row in found.rows if row[3] == "MISSED"] == [True]


def test_without_kills_there_is_nothing_about_them() -> None:
    found = tables.outcome([DELAY], [COPY], FULL, FULL, None)
    assert not any("killed" in row[0] for row in found.rows)
    assert len(found.panels) == 3


def test_rows_are_written_in_time_and_late_ones_at_once() -> None:
    stop, sent, clock = threading.Event(), list[tuple[int, int]](), iter(range(0, 10**9, 150_000))

    def send(n: int, at_us: int) -> None:
        sent.append((n, at_us))
        if n == 4:
            stop.set()

    assert write(send, 10, stop, lambda: next(clock)) == 5
    assert [n for n, _ in sent] == [0, 1, 2, 3, 4]
    assert all(at >= n * 100_000 for n, at in sent)


def test_a_topic_that_is_copied_to_its_end_holds_up_nobody() -> None:
    none = [False, False, False]
    assert lead_us([5, None, 9], [6, 8, 10], none) == 0, "one has not begun"
    assert lead_us([5, 7, 9], [6, 8, 10], none) == 3, "nothing is missing below the next row of the hindmost"
    assert lead_us([5, 7, 9], [6, 8, 10], [True, False, False]) == 1
    assert lead_us([5, 7, 9], [6, 8, 10], [True, True, True]) == 0
    assert lead_us([5], [6], [False]) == 0


def test_a_lead_is_one_of_where_the_logs_ended_at_a_moment() -> None:
    """However a reader of both came by their records. A topic has ten rows, of stimes 0 to 90."""
    logs = [CopiedLog(), CopiedLog()]
    for offset, (rows, stime) in enumerate([(3, 20), (3, 50), (4, 90)]):
        logs[0].add(10 * offset, rows, stime)
    logs[1].add(0, 2, 10)
    logs[1].add(7, 8, 90)
    wanted = [10, 10]

    def lead(*moments: list[int]) -> int:
        return longest_lead_us(logs, moments, wanted, lambda _, n: 10 * n)

    assert lead() == 0
    assert lead([0, 0], [1, 0]) == 0, "one has not begun"
    assert lead([1, 1]) == 0, "the next row of the hindmost is its neighbour"
    assert lead([1, 1], [11, 7]) == lead([11, 7], [11, 8]) == 30
    assert lead([21, 8]) == 0, "both are copied"


def test_what_falls_short_by_less_than_is_printed_is_printed_in_full() -> None:
    """A figure read 1.00 s where at most 1 s are wanted, and MISSED."""
    dense = replace(FULL, rows=[600_000, 300_000, 100_000], counted=1_000_000)
    rows = {}
    for lead_s in (1.0, 1.0001):
        found = tables.outcome([DELAY], [COPY], replace(dense, lead_s=lead_s), FULL, None).rows
        rows[lead_s] = next(row for row in found if "ahead" in row[0])
    assert rows[1.0][1:] == ["1.00 s", "<= 1 s", "met"]
    assert rows[1.0001][1:] == ["1.0001 s", "<= 1 s", "MISSED"]


def test_topics_with_few_rows_may_run_as_far_ahead_as_the_protocol_says() -> None:
    assert FULL.step_s == 10.0
    assert replace(FULL, rows=[180_000, 108_000, 0]).step_s == pytest.approx(10_000 / 3_600)
    assert replace(FULL, rows=[600_000, 300_000, 100_000]).step_s == 1.0


def test_topics_are_of_uneven_length_and_their_rows_even() -> None:
    assert catching.plan(1_000_000, 100) == [(600_000, 100), (300_000, 60), (100_000, 30)]
    rows = [json.loads(value) for value in catching.written(7_000_000, 30, 3, 1)]
    assert [row["at"] for row in rows[:3]] == [7_000_000, 7_100_000, 7_200_000]
    assert [catching.stime_of(n, 7_000_000, 30, 3) for n in (0, 2)] == [7_000_000, 7_200_000]
    assert len(rows) == 30
    assert SIZES["usual"].full == 1_000_000


def change(kind: str, bucket: int, missing: tuple[str, ...] = ()) -> LiveChange:
    return LiveChange(kind, bucket, bucket + 1, [], missing_sources=missing)


def test_the_gap_of_a_kill_is_the_longest_silence_around_it() -> None:
    heard = [(100, change("STABLE", 1)), (200, change("STABLE", 2)), (900, change("STABLE", 2))]
    heard += [(1_500, change("STABLE", 3)), (1_600, change("STABLE", 4)), (9_000, change("STABLE", 5))]
    assert gap_us(heard, 250, 1_550) == 1_300, "a correction is no progress"
    assert gap_us(heard, 150, 160) == 100
    assert gap_us(heard, 250, 1_650) == 7_400, "the silence had not ended"


def test_tentative_results_count_for_the_kill_they_follow() -> None:
    heard = [(100, change("TENTATIVE", 1, ("t0.0",))), (200, change("TENTATIVE", 2)), (300, change("STABLE", 1))]
    assert tentative_of(heard, 0, 150) == [True]
    assert tentative_of(heard, 150, 400) == [False]


def test_a_follower_sees_the_rows_that_an_ingress_has_copied_and_nothing_else() -> None:
    world = TopicWorld(partitions=1)
    world.copying()
    sent = [world.now - ago for ago in (900, 500, 700)]
    for at in sent:
        world.send(at=at)
    world.run(2.0)
    with SourceFollower(world.memory.client("bench"), "shop", ["orders"]) as follower:
        world.run(1.0)
        found = list(follower.poll())
        follower.look()
        world.run(1.0)
        follower.look()
    assert sum(one.rows for one in found) == 3
    assert {one.place for one in found} == {0}
    assert max(one.stime for one in found) == max(sent)
    (moment,) = follower.moments
    assert moment[0] > max(one.offset for one in found)


@pytest.mark.parametrize("form", ["json", "avro"])
def test_both_programs_read_the_same_rows(form: apps.Form) -> None:
    backlog = Backlog(20, 2)
    records = list(_records(form, backlog))
    spec = apps.copy("a", "t", form).describe()
    decoder = decoder_for("t0", spec.ingresses["t0"], spec.sources["t0"], 10_000)
    of = decoder.decode([Record(Feed("t"), n, 1, None, value) for n, value in enumerate(records)])
    assert of.bad == ()
    loads = json.loads if form == "json" else avro_decoder(json.dumps(apps.AVRO))
    assert of.rows.to_pylist() == [loads(value) for value in records]
    assert of.stimes.tolist() == [backlog.at_us(n) for n in range(20)]


def test_a_first_test_is_compared_with_its_goal() -> None:
    found = first_test.outcome(FirstTestFigures(7, 0.8, 0.2, 0.4))
    assert found.rows[1] == ["run of two sources", "0.20", "< 0.5"]
    assert "less than the goal" in found.worse
    assert found.ratios["imports to run"] == pytest.approx(4.0)
    assert "more than the goal" in first_test.outcome(FirstTestFigures(7, 0.8, 0.6, 0.4)).worse
