"""`make bench NAME=scaling`: the arithmetic, what is counted where, refusals, what is printed, one small run."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.load import keyed
from benchmarks.measure import partitions, scaling, scaling_tables, volume
from benchmarks.measure.partitions import PartitionSource
from benchmarks.measure.scaling import ScalingOptions, ScalingReport
from benchmarks.measure.scaling_figures import (
    APPS,
    UNRELATED,
    KeyedRun,
    keyed_figures,
    limit_of,
    slot_figures,
    volume_figures,
)
from borealis_py.app.state import AppState
from borealis_py.bench.figures import BenchError
from borealis_py.bench.machine import BenchMachine
from borealis_py.bench.stage import Stage
from borealis_py.kafka.broker import LocalBroker
from borealis_py.log.base import Feed, Record
from borealis_py.log.messages import Description
from borealis_py.log.records import BatchHeader, unpack_source
from tests.benchmarks.commands import Benchmarks, benchmarks  # noqa: F401  # a fixture


def run_of(seconds: float, node_cpu_s: float = 1.0, query_cpu_s: float = 1.0) -> KeyedRun:
    return KeyedRun(seconds, node_cpu_s, query_cpu_s)


def test_a_ratio_is_the_median_over_pairs_of_runs_and_not_of_medians() -> None:
    one = [run_of(10.0), run_of(20.0), run_of(40.0)]  # the machine gets slower
    two = [run_of(5.0), run_of(12.5), run_of(20.0)]
    first, second = keyed_figures(1_000, 2, {("spark", 1): one, ("spark", 2): two})
    assert (first.events_per_s, first.ratio) == (50.0, 1.0)
    assert (second.events_per_s, second.ratio, second.runs) == (80.0, 2.0, 3)


def test_hosts_are_compared_with_themselves_only() -> None:
    runs = {("process", 1): [run_of(10.0)], ("spark", 1): [run_of(5.0)], ("spark", 4): [run_of(2.5)]}
    assert [f.ratio for f in keyed_figures(1_000, 2, runs)] == [1.0, 1.0, 2.0]


def test_partitions_are_compared_with_as_many_unrelated_apps_of_the_same_run() -> None:
    runs = {
        ("process", 1): [run_of(10.0), run_of(20.0)],
        ("process", 2): [run_of(8.0), run_of(10.0)],
        (UNRELATED, APPS): [run_of(4.0), run_of(9.0)],
    }
    one, two, apps = keyed_figures(1_000, 2, runs)
    assert (one.of_unrelated, two.of_unrelated, apps.of_unrelated) == (None, pytest.approx(0.7), 1.0)
    assert apps.ratio == pytest.approx((10 / 4 + 20 / 9) / 2)
    assert [f.of_unrelated for f in keyed_figures(1_000, 2, {("process", 2): [run_of(8.0)]})] == [None]


def test_processor_time_is_told_by_the_million_and_in_cores() -> None:
    (found,) = keyed_figures(500_000, 2, {("spark", 2): [run_of(4.0, 2.0, 6.0)]})
    assert (found.node_cpu_s, found.query_cpu_s) == (4.0, 12.0)
    assert (found.node_cores, found.query_cores) == (0.5, 1.5)
    with pytest.raises(BenchError, match="clocks"):
        keyed_figures(1, 2, {("spark", 2): [run_of(0.0)]})


@pytest.mark.parametrize(
    ("host", "parts", "node", "query", "limit"),
    [
        ("spark", 2, 0.6, 1.3, "all cores"),
        ("spark", 1, 0.5, 0.95, "one core a partition"),
        ("process", 1, 0.5, 0.95, "one core a partition"),
        ("process", 4, 0.5, 1.0, "Python's lock"),
        ("spark", 4, 0.5, 1.0, "waiting for each other"),
        ("spark", 4, 0.9, 0.4, "the node before it"),
    ],
)
def test_the_limit_is_what_was_busy(host: str, parts: int, node: float, query: float, limit: str) -> None:
    assert limit_of(host, parts, 2, node, query) == limit


def test_two_apps_have_two_nodes_before_them() -> None:
    (apps,) = keyed_figures(1_000, 4, {(UNRELATED, APPS): [KeyedRun(10.0, 9.0, 9.0)]})
    assert apps.limit == "waiting for each other", "no node is busy all the time"


def test_slots_are_compared_with_the_fewest() -> None:
    one, two = slot_figures(900, 4, {1: [9.0, 3.0, 3.0], 2: [1.0, 2.0, 1.5]})
    assert (one.seconds, one.tuples_per_s, one.ratio) == (3.0, 300.0, 1.0)
    assert (two.seconds, two.tuples_per_s, two.ratio, two.runs) == (1.5, 600.0, 2.0, 3)


def test_bytes_are_shares_of_what_was_published_in_the_same_time() -> None:
    stretches = [(2.0, {"a": 100, "b": 0}), (2.0, {"a": 300, "b": 8}), (4.0, {"a": 400, "b": 16})]
    found = volume_figures(2, 10, 5.0, stretches, 0)
    assert found.input_per_s == 50.0
    assert (found.per_s, found.share) == ({"a": 100.0, "b": 4.0}, {"a": 2.0, "b": 0.08})
    assert found.total == pytest.approx(2.08)


def state(name: str, replicas: int = 2, parts: int = 2) -> AppState:
    spec = keyed.app(name, parts, replicas).describe()
    return AppState(name, spec, Description(spec.to_json(), spec.hash, 0, "", "a1"))


def test_every_topic_of_the_app_has_one_class_and_only_its_own_are_counted(tmp_path: Path) -> None:
    classes = volume.classes(state("a"))
    assert set(classes.values()) == set(volume.CLASSES)
    assert classes["a.clean.r1"] == volume.NODE_CLASS
    assert {classes[f"a.alike.{p}.r{k}"] for p in (0, 1) for k in (0, 1)} == {volume.QUERY_CLASS}
    assert classes["a.alike"] == volume.CORRECTED_CLASS
    assert classes["a.alike.0.progress"] == classes["a.control"] == volume.CONTROL_CLASS
    for n, partition in enumerate(["a.s0-0", "a.clean.r0-0", "a.clean.r0-1", "a.clean.r1-0", "a.alike-0", "b.s0-0"]):
        (tmp_path / partition).mkdir()
        (tmp_path / partition / "00000000000000000000.log").write_bytes(b"x" * 10**n)
        (tmp_path / partition / "00000000000000000000.index").write_bytes(b"x" * 77)
    (tmp_path / "a.s0-0.0f3-delete").mkdir()
    (tmp_path / "meta.properties").write_text("")
    assert volume.log_sizes(tmp_path, classes) == {
        volume.SOURCE_CLASS: 1,
        volume.NODE_CLASS: 10 + 100 + 1_000,
        volume.QUERY_CLASS: 0,
        volume.CORRECTED_CLASS: 10_000,
        volume.CONTROL_CLASS: 0,
    }


def test_a_source_that_did_not_grow_has_no_share() -> None:
    sizes = dict.fromkeys(volume.CLASSES, 5)
    grown = {**sizes, volume.SOURCE_CLASS: 9, volume.NODE_CLASS: 6}
    assert volume.grown([(1.0, [sizes]), (3.0, [grown])], 0)[0] == (
        2.0,
        {**dict.fromkeys(volume.CLASSES, 0), volume.SOURCE_CLASS: 4, volume.NODE_CLASS: 1},
    )
    with pytest.raises(BenchError, match="nothing was written"):
        volume.grown([(1.0, [sizes]), (3.0, [sizes])], 0)


def test_the_first_window_is_not_measured_and_records_follow_each_other() -> None:
    source = PartitionSource.of(4_000, 20)
    assert (source.measured, source.backlog.events) == (4_000, 4_200)
    assert len(source.records) == 1 + 4_200 // 20
    headers = [unpack_source(record.value)[0] for record in source.records]
    assert [h.first_seq for h in headers if isinstance(h, BatchHeader)][:3] == [0, 20, 40]
    with pytest.raises(ValueError, match="must divide"):
        PartitionSource.of(4_001, 20)


def result(customer: str, n: int, start: int = 0) -> Record:
    value = {"window_start": start, "window_end": 1, "customer": customer, "n": n, "total": 0.5, "distance": 2.0}
    return Record(Feed("a.alike"), 0, 0, None, json.dumps(value).encode())


def test_a_result_is_there_once_and_a_key_in_one_partition() -> None:
    assert keyed.results([[result("a", 1), result("a", 2, 5)], [result("b", 3)]]) == {
        (0, "a"): (1, 0.5, 2.0),
        (5, "a"): (2, 0.5, 2.0),
        (0, "b"): (3, 0.5, 2.0),
    }
    for twice in ([[result("a", 1), result("a", 1)]], [[result("a", 1)], [result("a", 2, 5)]]):
        with pytest.raises(BenchError, match="is there twice"):
            keyed.results(twice)


def test_runs_that_disagree_are_no_figures() -> None:
    good = keyed.results([[result("a", 1), result("b", 3)]])
    keyed.check(good, good, 4, "2 partitions")
    with pytest.raises(BenchError, match="2 partitions counted 4 of 5 events"):
        keyed.check(good, good, 5, "2 partitions")
    with pytest.raises(BenchError, match=r"other results than the first run: 2 differ, first \(0, 'a'\): \(1, "):
        keyed.check(good, keyed.results([[result("a", 2), result("b", 2)]]), 4, "2 partitions")


MACHINE = BenchMachine(2, (0.1, 1.2), "Linux", "3.11", {"kafka": "4"})
REPORT = ScalingReport(
    machine=MACHINE,
    seconds=200.0,
    length=4,
    partitions=keyed_figures(
        300_000,
        2,
        {(host, n): [run_of(3.0 / n, 0.5, 2.0)] for host in scaling.HOSTS for n in scaling.PARTITIONS}
        | {(UNRELATED, APPS): [run_of(1.2, 0.5, 2.0)]},
    ),
    slots=slot_figures(300_000, 4, {1: [2.0], 2: [1.0], 4: [1.0]}),
    volume=[
        volume_figures(k, 4_000, 90.0, [(1.0, dict.fromkeys(volume.CLASSES, 36000 * k))], 0) for k in scaling.REPLICAS
    ],
)


def shown(report: ScalingReport) -> str:
    out = io.StringIO()
    scaling_tables.show(report, Console(file=out, width=200))
    return out.getvalue()


def test_the_tables_say_what_is_compared() -> None:
    said = shown(REPORT)
    assert all(len(line) <= 120 for line in said.splitlines())
    for part in (
        "300,000 JSON events waiting",
        "threads of one process",
        "apps, half the rows each",
        "0.80",
        "as processes (goal 0.85: missed)",
        "Spark tasks",
        "Redo of 4 partitions at once",
        "1 replica",
        "2 replicas",
        "Kafka's own replication multiplies all of it",
        "36.0 kB/s and 72.0 kB/s, whatever the rate",
        "2 cores, load 0.1 before and 1.2 after",
    ):
        assert part in said
    assert "tentative" not in said


def test_a_machine_that_did_not_keep_up_and_one_without_spark_are_told() -> None:
    said = shown(replace(REPORT, slots=[], volume=[replace(v, tentative=1) for v in REPORT.volume]))
    assert "the machine did not keep up" in said
    assert "Redo of" not in said


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (ScalingOptions(events=300_001), "must divide"),
        (ScalingOptions(per_record=7), "must divide"),
        (ScalingOptions(events=150, per_record=5), "unrelated apps share them"),
        (ScalingOptions(events=0), "nothing would be measured"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_before_anything_starts(options: ScalingOptions, why: str) -> None:
    with pytest.raises(BenchError, match=why):
        scaling.check(options)


def test_the_command_prints_tables_aside_and_json_as_data(
    benchmarks: Benchmarks,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[ScalingOptions] = []

    def measured(options: ScalingOptions, source: PartitionSource, console: Console) -> ScalingReport:
        asked.append(options)
        return REPORT

    monkeypatch.setattr(scaling, "run", measured)
    said = benchmarks("scaling", "--events", "50000", "--runs", "2", "--host", "process", "--json")
    assert said.code == 0, said.err
    assert asked == [ScalingOptions(events=50_000, runs=2, spark=False)]
    told = json.loads(said.out)
    assert [f["ratio"] for f in told["partitions"]] == [*[1.0, 2.0, 4.0] * 2, 2.5]
    assert told["volume"][1]["share"]["source"] == 0.2
    assert "Throughput of a query in partitions" in said.err
    said = benchmarks("scaling", "--events", "7")
    assert said.code == 1
    assert "must divide" in said.err


def test_a_bench_that_cannot_measure_says_why(benchmarks: Benchmarks, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    def refuse(options: ScalingOptions, source: PartitionSource, console: Console) -> ScalingReport:
        raise BenchError("2 partitions counted 4 of 5 events")

    monkeypatch.setattr(scaling, "run", refuse)
    said = benchmarks("scaling", "--events", "50000")
    assert said.code == 1
    assert "counted 4 of 5 events" in said.err
    assert "Traceback" not in said.err


def test_partitions_of_a_process_on_a_real_broker(broker: LocalBroker, tmp_path: Path) -> None:
    said: list[str] = []
    stage = Stage(tmp_path, broker)
    with stage.endings:
        found, last = partitions.measure(stage, PartitionSource.of(2_000, 20), 2, (1, 2), ("process",), 1, said.append)
        kept = set(stage.log.admin().topics())
    each = [("process", 1, 2_000), ("process", 2, 2_000), (UNRELATED, APPS, 2_000)]
    assert [(f.host, f.partitions, f.events) for f in found] == each
    assert found[2].of_unrelated == 1
    assert all(f.events_per_s > 0 and f.query_cpu_s > 0 for f in found)
    ran = ["1 partitions, process host, 1 of 1", "2 partitions, process host, 1 of 1", "2 unrelated apps, 1 of 1"]
    assert said == ran
    assert not any(UNRELATED in topic for topic in kept)
    assert "bench-process-2-0.alike" in kept
    assert not any(topic.startswith("bench-process-1-0.") for topic in kept)
    assert last.name == "bench-process-2-0"
