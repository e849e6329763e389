"""`make bench NAME=failover`: arithmetic of gaps, what counts as repeated or missing, exit codes, one small run."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.measure import failover
from benchmarks.measure.failover import Content, FailoverFigures, counted, write_source
from benchmarks.measure.gaps import GapFigures, Kill, gap_figures, longest, spacings
from borealis_py.bench.figures import BenchError, Percentiles
from borealis_py.bench.stage import Stage
from borealis_py.kafka.broker import LocalBroker
from tests.benchmarks.commands import Benchmarks, benchmarks  # noqa: F401  # a fixture

MS = 1_000


def every(step_ms: int, end_ms: int, without: range = range(0)) -> list[int]:
    """Arrivals every `step_ms` until `end_ms`, but none in `without`."""
    return [ms * MS for ms in range(0, end_ms, step_ms) if ms not in without]


def kill(at_ms: int, until_ms: int) -> Kill:
    return Kill((at_ms - 1_000) * MS, at_ms * MS, until_ms * MS)


def test_a_kill_that_nobody_notices_has_no_gap() -> None:
    figures = gap_figures("live stream", 200.0, every(100, 5_000), [kill(2_050, 3_050)])
    assert figures.gap == figures.quiet_gap == Percentiles(1, 0.0, 0.0, 0.0)
    assert figures.ordinary.p50_ms == 100.0
    assert figures.met


def test_the_gap_is_what_the_longest_silence_exceeds_the_ordinary_one_by() -> None:
    times = every(100, 9_000, range(2_100, 3_700))  # the last before at 2 000, the next at 3 700
    figures = gap_figures("corrected stream", 1_600.0, times, [kill(2_050, 4_000), kill(6_000, 7_000)])
    assert figures.gap == Percentiles(2, 0.0, 1_600.0, 1_600.0)
    assert not figures.met  # below the target, not at it


def test_a_silence_that_began_before_the_kill_or_lasts_past_its_end_counts_whole() -> None:
    times = every(100, 9_000, range(2_000, 5_000))
    assert longest(times, 2_500 * MS, 3_000 * MS) == 3_100 * MS


def test_what_stood_still_after_the_watch_is_not_the_kills_doing() -> None:
    times = every(100, 9_000, range(4_000, 5_000))
    assert longest(times, 2_050 * MS, 3_050 * MS) == 100 * MS


def test_silence_before_the_kill_shows_beside_it() -> None:
    figures = gap_figures("live stream", 200.0, every(100, 5_000, range(1_500, 1_800)), [kill(2_050, 3_050)])
    assert figures.quiet_gap.max_ms == 300.0
    assert figures.gap.max_ms == 0.0


@pytest.mark.parametrize("times", [[], every(100, 2_000), [ms * MS for ms in (2_100, 2_200)]])
def test_a_stream_that_does_not_flow_has_no_figure(times: list[int]) -> None:
    with pytest.raises(BenchError):
        gap_figures("live stream", 200.0, times, [kill(2_050, 3_050)])


@given(st.lists(st.integers(1, 500), min_size=5, max_size=60), st.data())
def test_the_longest_spacing_is_that_of_every_look_at_it(steps: list[int], data: st.DataObject) -> None:
    """Against the definition: each pair that overlaps the open interval, one by one."""
    times = [sum(steps[: i + 1]) for i in range(len(steps))]
    start = data.draw(st.integers(times[0], times[-2]))
    end = data.draw(st.integers(start + 1, times[-1]))
    pairs = list(pairwise(times))
    assert longest(times, start, end) == max(b - a for a, b in pairs if b > start and a < end)
    assert spacings(times, start, end) == [b - a for a, b in pairs if start <= a and b <= end]


def row(bucket: int, index: int, feed: str, n: int) -> tuple[bytes, dict[str, object]]:
    return f"{bucket}:{index}".encode(), {"feed": feed, "n": n}


CLEAN = [row(1, 0, "s0", 0), row(1, 1, "s1", 0), row(2, 0, "s0", 1), row(3, 0, "s0", 2)]


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (CLEAN, Content(4, 0, 0)),
        ([*CLEAN, CLEAN[1]], Content(5, 1, 0)),
        ([*CLEAN, row(4, 0, "s0", 1)], Content(5, 1, 0)),
        ([CLEAN[0], CLEAN[1], CLEAN[3]], Content(3, 0, 1)),
        (CLEAN[1:], Content(3, 0, 1)),
        ([], Content(0, 0, 0)),
    ],
    ids=["clean", "an id twice", "a row twice under two ids", "a hole", "the first is gone", "nothing"],
)
def test_repeated_and_missing_rows_are_counted(rows: list[tuple[bytes, dict[str, object]]], found: Content) -> None:
    assert counted(rows) == found


def test_sources_are_numbered_and_never_at_the_same_time(tmp_path: Path) -> None:
    times: set[int] = set()
    for i in range(failover.SOURCES):
        write_source(tmp_path / "s.csv", i, 3)
        head, *lines = (tmp_path / "s.csv").read_text().splitlines()
        assert head == "at,n,feed"
        assert [int(line.split(",")[1]) for line in lines] == list(range(3 * failover.RATE))
        assert {line.split(",")[2] for line in lines} == {f"s{i}"}
        times |= {int(line.split(",")[0]) for line in lines}
    assert len(times) == 3 * failover.RATE * failover.SOURCES


GOOD = Content(9_000, 0, 0)


def figures(p99_ms: float = 20.0, content: Content = GOOD) -> FailoverFigures:
    gap, quiet, usual = (
        Percentiles(2, 5.0, p99_ms, p99_ms),
        Percentiles(2, 1.0, 2.0, 2.0),
        Percentiles(9, 100, 101, 102),
    )
    live = GapFigures("live stream, read", 200.0, gap, quiet, usual)
    fine = Percentiles(2, 5.0, 7.0, 7.0)
    upstream = GapFigures("live stream, upstream", 200.0, fine, quiet, usual)
    return FailoverFigures(
        live, upstream, GapFigures("corrected stream", 2_500.0, gap, quiet, usual), content, 3, 2, 30.0
    )


def test_a_missed_target_and_a_repeated_row_are_failures() -> None:
    assert figures().ok
    assert not figures(p99_ms=200.0).ok
    assert not figures(content=Content(9, 1, 0)).ok
    assert not figures(content=Content(9, 0, 1)).ok


@pytest.mark.parametrize(("measured", "code"), [(figures(), 0), (figures(p99_ms=250.0), 1)])
def test_the_command_says_what_was_measured(
    benchmarks: Benchmarks,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    measured: FailoverFigures,
    code: int,
) -> None:
    monkeypatch.setattr(failover, "run", lambda kills, work, tick: measured)
    said = benchmarks("failover", "--kills", "2")
    assert said.code == code
    assert ("missed" in said.out) == bool(code)
    told = ("live stream, upstream", "corrected stream", "9,000 rows, 0 repeated, 0 missing", "p99 is the largest")
    for part in (*told, "3 buckets were tentative first"):
        assert part in said.out
    said = benchmarks("failover", "--kills", "2", "--json")
    assert said.code == code
    assert (json.loads(said.out)["live_met"], json.loads(said.out)["upstream_met"]) == (not code, True)


def test_a_bench_that_cannot_measure_says_why(benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    def refuse(kills: int, work: object, tick: object) -> FailoverFigures:
        raise BenchError("nobody writes the corrected stream")

    monkeypatch.setattr(failover, "run", refuse)
    said = benchmarks("failover")
    assert said.code == 1
    assert "nobody writes the corrected stream" in said.err
    assert "Traceback" not in said.err


@pytest.mark.e2e  # a machine that does something else misses the gaps
def test_one_kill_of_each_kind_on_a_real_broker(broker: LocalBroker, tmp_path: Path) -> None:
    said: list[tuple[int, str]] = []
    stage = Stage(tmp_path, broker)
    with stage.endings:
        found = failover.measure(stage, 1, lambda done, what: said.append((done, what)))
    assert [done for done, _ in said] == [0, 1, 2, 3]
    assert found.content.rows > 100
    assert (found.content.repeated, found.content.missing) == (0, 0)
    assert found.live.gap.count == found.upstream.gap.count == found.corrected.gap.count == 1
    # the shortest patience is a second: below it the one killed did not write the stream
    assert found.corrected.gap.max_ms > 500.0
