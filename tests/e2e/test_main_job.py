"""The main job at small scale: real broker, two replica processes with Spark, threshold 1 s, an input lost for 6 s.

Every field of the report is checked but the times, which depend on the machine and are printed.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest

from borealis_py.demo import scenario
from borealis_py.protocol.settings import Timing
from tests.harness.waiting import PATIENCE_S, until_equal
from tests.support.right import exactly

pytestmark = [pytest.mark.e2e, pytest.mark.broker, pytest.mark.spark]

DAYS = 12
PUBLISHED = 10_452
VERY_LATE, POOR = 108, 1
REPLICAS = [(q, k) for q in ("carrier_delays", "very_late") for k in (0, 1)]
TIMING = Timing(inline_us=0, suspicion_us=20_000_000, redo_deadline_us=60_000_000, stagger_us=70_000_000)
"""A replica that a busy machine stops for a while keeps its turn, and a slow job its time."""


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One run for all tests of this module."""
    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scenario, "SETTLE_S", 2 * PATIENCE_S)
        scenario.run(scenario.DemoOptions(out, DAYS, threshold_s=1.0, cut_after_s=5.9, cut_s=6.0, timing=TIMING))
    return out


@pytest.fixture(scope="module")
def report(out: Path) -> dict[str, Any]:
    report: dict[str, Any] = json.loads((out / "report.json").read_text())
    return report


@exactly()
def test_stable_results_are_right_and_never_change(report: dict[str, Any]) -> None:
    assert report["stable_results"] > 100
    assert report["stable_results_changed"] == 0
    assert report["unlabelled_partial_results"] == 0
    assert report["unreadable_records"] == 0


@exactly()
def test_the_corrected_streams_equal_the_recomputation_in_pandas(report: dict[str, Any]) -> None:
    assert report["corrected_results"] == report["stable_results"]
    assert report["corrected_missing"] == report["corrected_duplicated"] == report["corrected_different"] == 0
    assert report["differences"] == []


def test_tentative_results_were_seen_and_are_right(report: dict[str, Any]) -> None:
    assert report["tentative_results"] > 0
    assert report["tentative_buckets"] > 0
    with exactly():
        assert report["tentative_wrong"] == 0
        assert report["tentative_content_right"] is True


@exactly()
def test_replicas_agree_and_the_audit_finds_nothing(report: dict[str, Any]) -> None:
    assert report["replicas_identical"] is True
    assert report["audit_differences"] == 0
    assert [(a["query"], a["differences"], a["error"]) for a in report["audit"]] == [
        ("carrier_delays", 0, None),
        ("very_late", 0, None),
    ]
    assert sum(a["rows"] for a in report["audit"]) == report["corrected_results"]


def test_each_replica_is_corrected_in_its_own_turn_on_spark_or_from_a_peer(report: dict[str, Any]) -> None:
    on_spark = {(r["query"], r["replica"]) for r in report["reconciliations"] if r["jobs"] > 0}
    adopted = {(r["query"], r["replica"]) for r in report["reconciliations"] if r["engine"] == "peer"}
    refused = {(r["query"], r["replica"]) for r in report["reconciliations"] if r["failed"]}  # as a busy driver does
    assert on_spark, refused
    assert {query for query, _ in on_spark | refused} == {query for query, _ in REPLICAS}
    assert on_spark | adopted | refused == set(REPLICAS)
    assert all(r["engine"] == "spark" for r in report["reconciliations"] if r["jobs"])
    assert all(r["rows"] > 0 and r["buckets"] > 0 for r in report["reconciliations"] if r["jobs"])
    assert report["overlap_of_reconciliations_s"] == 0


def test_every_replica_went_through_the_states_in_order(report: dict[str, Any]) -> None:
    assert set(report["states"]) == {f"{q}.r{k}" for q, k in REPLICAS}
    for name, line in report["states"].items():
        seen = [state for _, state in line]
        assert seen[-1] == "STABLE", name
        for state in ("STABLE", "UPSTREAM_FAILURE"):
            assert state in seen, name


def test_every_published_tuple_came_in(report: dict[str, Any]) -> None:
    assert report["tuples_in"] == report["tuples_published"] == report["tuples_expected"] == PUBLISHED
    assert report["published_different"] == 0
    assert report["buckets_without_any_result"] == 0


def test_the_rest_of_the_report_is_there(report: dict[str, Any]) -> None:
    assert report["threshold_s"] == 1.0
    assert {"python", "pyspark", "duckdb", "confluent-kafka", "kafka-python"} <= set(report["versions"])
    names = ("max_added_delay_s", "delay_p50_ms", "delay_p99_ms")
    print({name: report[name] for name in names})  # of this machine, now
    assert all(isinstance(report[name], float) and report[name] >= 0 for name in names)


def test_very_late_flights_have_the_weather_of_their_hour(report: dict[str, Any]) -> None:
    """That it is the right one is part of what is compared with pandas."""
    assert report["weather"] == {"very_late_flights": VERY_LATE, "with_weather": VERY_LATE, "poor_visibility": POOR}


def test_the_picture_shows_both_queries(out: Path) -> None:
    text = "".join(ElementTree.fromstring((out / "timeline.svg").read_text()).itertext())
    assert "carrier_delays" in text
    assert "very_late" in text
    assert "STABILIZATION" in text
    assert "visibility < 3 miles" in text


def test_nothing_is_left_running(out: Path) -> None:
    def left() -> list[list[str]]:
        commands = [p.info["cmdline"] or [] for p in psutil.process_iter(["cmdline"])]
        return [command for command in commands if str(out) in " ".join(command)]

    until_equal(left, [], "all has ended")
