"""`make bench NAME=latency`: medians, what is compared with the ping, what is refused, one small run."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from benchmarks.experiments import latency
from benchmarks.experiments.latency import LatencyCase, LatencyFound
from benchmarks.measure.windows import truth
from borealis_py.bench.console import bars_on
from borealis_py.bench.events import BUCKET_US, WINDOW_US
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage
from borealis_py.client.subscriber import LiveChange, Row
from borealis_py.kafka.broker import LocalBroker
from tests.harness.event_feeders import FeedPlan
from tests.harness.readers import Got, Heard

T0 = 1_800_000_000_000_000
MS = 1_000
CASE = LatencyCase(rate=90, seconds=2, startup_s=1)
PLAN = FeedPlan(rate=30, t0_us=T0, seconds=CASE.length_s)


def found_of(run: int, live_ms: Sequence[int], rate: int = 900, **more: int) -> LatencyFound:
    ways = {"live": live_ms, "corrected": [2 * ms for ms in live_ms], "ping": [5, 5, 50]}
    delays = {way: [ms * MS for ms in each] for way, each in ways.items()}
    return LatencyFound(
        case=LatencyCase(rate=rate, run=run), delays_us=delays, **{"tentative": 0, "unheard": 0, **more}
    )


RUNS = [found_of(1, [10, 20]), found_of(2, [14, 90]), found_of(3, [30, 31])]


def test_the_middle_is_that_of_the_runs_percentiles_and_not_of_all_results() -> None:
    found = latency.middle(RUNS, "live")
    assert (found.count, found.p50_ms, found.p99_ms, found.max_ms) == (6, 14.0, 31.0, 31.0)


def test_results_are_compared_with_the_ping_of_the_same_runs() -> None:
    found = latency.ratios(("process", 900, 2), RUNS)
    assert list(found.values()) == [5 / 14, 5 / 28]


def test_each_percentile_over_its_goal_is_named() -> None:
    told = latency.outcome([*RUNS, found_of(1, [19, 60], 50_000)]).worse
    assert told.partition("over the goal: ")[2] == (
        "live p50 14.0 ms at 900/s on host process (8), live p99 31.0 ms at 900/s on host process (25), corrected "
        "p50 28.0 ms at 900/s on host process (20), corrected p99 62.0 ms at 900/s on host process (50), corrected "
        "p50 38.0 ms at 50,000/s on host process (35)."
    )
    assert "goal" not in latency.outcome([found_of(1, [7, 8])]).worse


def test_what_is_told() -> None:
    told = latency.outcome([*RUNS, found_of(1, [40, 40], 50_000, tentative=2, unheard=1)])
    assert [row[1] for row in told.rows] == ["900"] * 3 + ["50,000"] * 3
    assert told.rows[0] == [
        "process",
        "900",
        "30",
        "2",
        latency.NAMES["live"],
        "3",
        "14.0",
        "31.0",
        "31.0",
        "2.8 x",
    ]
    assert told.rows[2][6:] == ["5.0", "50.0", "50.0", ""]
    assert told.rows[3][2] == "1666"
    assert all(len(row) == len(told.columns) for row in told.rows)
    assert "a live result takes 9 ms longer" in told.worse
    assert "2 windows came tentative first, of 1 nothing came" in told.worse
    assert "did not keep up" not in latency.outcome(RUNS).worse
    assert len(told.ratios) == 4
    assert len(msgspec.json.decode(msgspec.json.encode(told.data))["runs"]) == 4
    curve = told.panels[0].curves[0]
    assert (curve.x, curve.y[-1]) == ([10.0, 14.0, 20.0, 30.0, 31.0, 90.0], 1.0)


def test_every_size_measures_what_is_compared_and_the_usual_one_takes_eight_minutes() -> None:
    sizes = "short", "usual", "full"
    short, usual, full = ({(c.host, c.rate, c.replicas) for c in latency.cases(size, "process")} for size in sizes)
    assert short < usual < full
    assert {host for host, *_ in short} == {"process"}
    assert {host for host, *_ in usual} == {"process", "spark"}
    around_s = {"process": 12, "spark": 25}  # starting replicas and publishers, END, stopping
    assert sum(case.length_s + around_s[case.host] for case in latency.cases("usual", "process")) <= 480
    apps = [case.app for case in latency.cases("full", "process")]
    assert len(set(apps)) == len(apps)


@dataclass
class Hearing:
    """What was heard."""

    heard: Heard = field(default_factory=list)
    got: Got = field(default_factory=list)


def hearing(kind: str = "STABLE") -> Hearing:
    """Live results 10 ms after their windows' ends, corrected ones after 20."""
    found = Hearing()
    for start in sorted({start for start, _ in truth(PLAN)}):
        end = start + WINDOW_US
        rows = [
            {"window_start": start, "customer": key[1], "n": n, "total": total}
            for key, (n, total) in truth(PLAN).items()
            if key[0] == start
        ]
        bucket = end // BUCKET_US - 1
        found.heard.append((end + 10 * MS, LiveChange(kind, bucket, bucket + 1, rows)))
        found.got += [(end + 20 * MS, Row("1:1", 0, row)) for row in rows]
    return found


PINGS = [(T0 + 900 * MS, 900), (T0 + 1_000 * MS, 7 * MS), (T0 + 1_100 * MS, 9 * MS)]


def test_the_start_counts_for_nothing_nor_does_what_end_closes() -> None:
    found = latency.judge(CASE, PLAN, hearing(), PINGS)  # type: ignore[arg-type]
    assert found.delays_us == {"live": [10 * MS] * 2, "corrected": [20 * MS] * 2, "ping": [7 * MS, 9 * MS]}
    assert (found.tentative, found.unheard) == (0, 0)


def test_what_came_tentative_first_or_not_at_all_is_counted() -> None:
    heard = hearing("TENTATIVE")
    del heard.heard[1]
    found = latency.judge(CASE, PLAN, heard, PINGS)  # type: ignore[arg-type]
    assert (found.tentative, found.unheard) == (1, 1)


def test_wrong_results_have_no_latency() -> None:
    heard = hearing()
    heard.got[3][1].value["n"] += 1
    with pytest.raises(BenchError, match=r"1 are wrong, 0 missing, 0 there twice; 361 of 360"):
        latency.judge(CASE, PLAN, heard, PINGS)  # type: ignore[arg-type]
    heard.got[3][1].value.update(n=heard.got[3][1].value["n"] - 1, total=0.5)
    with pytest.raises(BenchError, match=r"1 are wrong, 0 missing, 0 there twice; 360 of 360"):
        latency.judge(CASE, PLAN, heard, PINGS)  # type: ignore[arg-type]
    del heard.got[3]
    with pytest.raises(BenchError, match="0 are wrong, 1 missing"):
        latency.judge(CASE, PLAN, heard, PINGS)  # type: ignore[arg-type]


def test_two_seconds_on_a_real_broker(broker: LocalBroker, tmp_path: Path) -> None:
    stage = Stage(tmp_path, broker)
    case = LatencyCase(rate=300, replicas=1, seconds=2, startup_s=4)
    with stage.endings, bars_on(Console(file=io.StringIO())) as bars:
        found = latency.measure(stage, case, bars)
    assert {way: len(delays) for way, delays in found.delays_us.items() if way != "ping"} == {"live": 2, "corrected": 2}
    assert len(found.delays_us["ping"]) >= 20
    assert all(us > 0 for delays in found.delays_us.values() for us in delays)
    assert found.unheard == 0
    assert len(latency.outcome([found]).rows) == 3
