"""`make bench NAME=throughput`: what is compared with what, which goals are missed, what is refused, a small run."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from benchmarks.experiments import throughput
from benchmarks.experiments.throughput import CatchUp, Caught, Glimpse, HandLoop, KeptUp, Load
from borealis_py.bench import events
from borealis_py.bench.console import bars_on
from borealis_py.bench.figures import BenchError, RunFigures
from borealis_py.bench.stage import Stage
from borealis_py.kafka.broker import LocalBroker
from borealis_py.log.messages import Status
from sunion.bucket import Buckets
from sunion.model import FOREVER
from tests.harness.event_feeders import FeedPlan

T0 = 1_800_000_000_000_000
S = 1_000_000


def caught(replicas: int, seconds: float, per_record: int = 33, host: str = "process", run: int = 1) -> Caught:
    point = CatchUp(host=host, replicas=replicas, per_record=per_record, run=run)
    return Caught(point=point, events=1_000, own_s=seconds / 2, published_s=seconds, cpu_s=seconds * replicas)


def loop(per_record: int) -> HandLoop:
    single = RunFigures("raw loop", 1.0, 1.0, 1_000.0), RunFigures("raw loop", 2.0, 0.5, 500.0)
    return HandLoop(per_record, 1_000, single, (RunFigures("raw loop, arrays", 0.5, 0.5, 2_000.0),))


LOAD = Load(host="process", replicas=2, rate=900, seconds=4)
KEPT = KeptUp(load=LOAD, lag_s=0.2, fed_lag_s=0.14, tentative=0, cpu_percent=9.0, cpu_us=100.0)


def test_the_fastest_run_is_compared_with_the_fastest_raw_one() -> None:
    runs = [caught(1, 4.0), caught(1, 2.0, run=2), caught(1, 3.0, run=3), caught(2, 5.0)]
    found = throughput.outcome(runs, [loop(33)], [KEPT])
    name = "process, 33 rows a record"
    assert found.ratios == {
        f"{name}: one replica / raw loop": 0.5,
        f"{name}: one replica / raw loop, processor time": 0.25,
        f"{name}: two replicas / one": 0.4,
    }
    one = ["catching up", "process", "1", "33", "1,000", "500", "2000.0", "50%", "25%", "", "", "", "", "met"]
    two = ["catching up", "process", "2", "33", "400", "200", "10000.0", "20%", "10%", "0.40", "", "", "", ""]
    live = ["900 events/s", "process", "2", "30", "", "", "100.0", "", "", "", "9", "0.20", "0.14", "keeps up"]
    assert found.rows[2:] == [one, two, live]
    assert found.rows[0][:7] == ["raw loop", "", "", "1", "", "1,000", "500.0"]
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert "not keeping up" not in found.worse
    assert msgspec.json.decode(msgspec.json.encode(found.data))["live"][0]["keeps_up"] is True
    assert [len(panel.curves) for panel in found.panels] == [4, 1]


def test_goals_that_are_missed_are_told() -> None:
    runs = [caught(1, 2.1), caught(1, 2.0, 500, "spark"), caught(2, 4.4, 500, "spark"), caught(2, 4.5, host="process")]
    verdicts = [row[-1] for row in throughput.outcome(runs, [loop(33), loop(500)], []).rows]
    assert verdicts == ["", "", "missed: 50%", "", "", "", "met", "met"]
    behind = throughput.outcome([caught(1, 4.0, 500, "spark"), caught(2, 5.0, 500, "spark")], [loop(500)], [])
    assert behind.rows[-1][-1] == "missed: 20.5%", "of the raw loop, 120,000 of 584,000 events/s"
    slower = throughput.outcome([runs[1], caught(2, 4.5, 500, "spark")], [loop(500)], [])
    assert slower.rows[-1][-1] == "missed: 0.45"


def test_who_falls_behind_or_tells_without_its_input_does_not_keep_up() -> None:
    behind, early = replace(KEPT, lag_s=1.2), replace(KEPT, tentative=3)
    found = throughput.outcome([caught(1, 1.0)], [loop(33)], [behind, early])
    assert [row[-1] for row in found.rows[-2:]] == ["does not keep up", "does not keep up, 3 buckets tentative"]
    assert "not keeping up: 2 replicas (process) at 900/s, 2 replicas (process) at 900/s" in found.worse


def test_programs_that_disagree_are_no_figures() -> None:
    good = {(0, "c"): (200, 1.0)}
    throughput.check("one", good, dict(good))
    with pytest.raises(BenchError, match=r"one and the raw loop differ in 1 results, first \(0, 'c'\): None and"):
        throughput.check("one", {}, good)


STATUS = Status("totals", 0, 1, "u", 1, T0, "STABLE", 0, 0, *[False] * 2, None, False, *[0] * 10, "", "", ())


def said(replica: int, f_s_us: int, tentative: int = 0) -> Status:
    f_s = Buckets(events.BUCKET_US).of(f_s_us)
    return msgspec.structs.replace(STATUS, replica=replica, f_s=f_s, tentative_buckets=tentative)


PLAN = FeedPlan(rate=300, t0_us=T0, seconds=7)
SEEN = [
    Glimpse(T0 + S, 10.0, T0 + S - 300_000, (said(0, T0 + S - 400_000), said(1, T0 + S - 300_000))),
    Glimpse(T0 + 2 * S, 10.1, T0 + 2 * S - 100_000, (said(1, T0 + 2 * S - 800_000, 2),)),
    Glimpse(T0 + 3 * S, 10.2, T0 + 3 * S - 100_000, (said(1, T0 + 3 * S),)),
]


def test_a_load_is_judged_by_the_longest_lag_of_any_replica_behind_its_sources() -> None:
    found = throughput.judge(LOAD, PLAN, SEEN)
    assert (found.lag_s, found.fed_lag_s, found.tentative) == (0.7, 0.3, 2)
    assert found.cpu_percent == pytest.approx(10)
    assert found.cpu_us == pytest.approx(0.2 * 1e6 / 1_800)


def test_the_end_of_a_source_is_no_lag() -> None:
    ended = Glimpse(T0 + 4 * S, 10.3, FOREVER, (said(0, T0 + 3_900_000), said(1, FOREVER)))
    found = throughput.judge(LOAD, PLAN, [*SEEN, ended])
    assert (found.lag_s, found.fed_lag_s) == (0.7, 0.3)


def test_a_load_of_which_nothing_is_said_is_no_figure() -> None:
    for seen in (SEEN[1:], SEEN[:1]):
        with pytest.raises(BenchError, match="not every replica said"):
            throughput.judge(LOAD, PLAN, seen)


def test_backlogs_fill_whole_windows_at_any_number_of_rows_a_record() -> None:
    for per_record in throughput.PER_RECORD:
        backlog = throughput.backlog_of(1_000_000, per_record)
        assert backlog.per_record == per_record
        assert 1_000_000 <= throughput.measured(backlog) <= 1_050_000
    assert throughput.measured(throughput.backlog_of(1, 5_000)) == throughput.BUCKETS * 15_000


def test_every_size_measures_what_is_compared() -> None:
    short, usual, full = (
        {(p.host, p.replicas, p.per_record) for p in throughput.points(size, "process")}
        for size in ("short", "usual", "full")
    )
    assert short < usual < full
    loads = [throughput.loads(size, "spark") for size in ("short", "usual", "full")]
    assert [len(each) for each in loads] == [1, 3, 12]
    assert {load.host for load in throughput.loads("usual", "process")} == {"process", "spark"}
    apps = [p.app for p in throughput.points("full", "process")] + [load.app for load in loads[2]]
    assert len(set(apps)) == len(apps)


def test_a_backlog_on_a_real_broker(broker: LocalBroker, tmp_path: Path) -> None:
    stage = Stage(tmp_path, broker)
    backlog = throughput.backlog_of(1_000, 5)
    with stage.endings, bars_on(Console(file=io.StringIO())) as bars:
        point = CatchUp(host="process", replicas=2, per_record=5)
        (found,), loops = throughput.catch_up(stage, backlog, [point], bars)
    assert min(found.own_s, found.published_s) > 0
    assert found.cpu_s > 0
    assert (len(loops.single), len(loops.arrays), loops.events) == (2, 2, throughput.measured(backlog))
    log = stage.log.admin()
    assert not [name for name in log.topics() if name.startswith("throughput")]
    log.close()


def test_a_live_rate_on_a_real_broker(broker: LocalBroker, tmp_path: Path) -> None:
    stage = Stage(tmp_path, broker)
    with stage.endings, bars_on(Console(file=io.StringIO())) as bars:
        load = Load(host="process", replicas=1, rate=300, seconds=6, startup_s=2)
        found = throughput.feed(stage, load, bars)
    assert found.lag_s < 20  # nothing at all where every look came right after a bucket was said
    assert found.fed_lag_s > 0
    assert found.cpu_us > 0
