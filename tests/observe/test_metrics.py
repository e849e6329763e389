"""What Prometheus reads: judged by its own parsers and by its naming rules."""

from __future__ import annotations

import re

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from borealis_py.log.messages import RedoStatus
from borealis_py.observe.http_routes import replica_routes
from borealis_py.observe.status_registry import StatusRegistry
from sunion.bucket import Buckets
from tests.observe.states import CUT1, Q0, app_state, both
from tests.support.statuses import BUCKET_US, NOW, WALL_US, snapshot, source

LABELS = {"app", "node", "replica", "input", "state", "event", "engine"}
OPENMETRICS = "application/openmetrics-text; version=1.0.0"
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


@pytest.fixture
def board() -> StatusRegistry:
    board = StatusRegistry(app_state(), [Q0, CUT1])
    both(board, event="READY", inputs=(source("s"), source("t", ended=True, late=True, closed=NOW + 1)))
    board.tell(
        snapshot(
            event="REDO",
            state="STABILIZATION",
            granted=True,
            f_s=NOW - 20,
            redo=RedoStatus(0, 5, 9, "spark", 0.75, WALL_US),
            checkpoint_wall_us=WALL_US - 1_500_000,
        )
    )
    return board


def page(board: StatusRegistry, accept: str = "") -> str:
    return replica_routes(board).answer("GET", "/metrics", accept).body.decode()


def read(board: StatusRegistry) -> Samples:
    found = parse_text(page(board))
    return {(s.name, frozenset(s.labels.items())): s.value for metric in found for s in metric.samples}


def value(samples: Samples, name: str, node: str = "q", replica: str = "0", **labels: str) -> float | None:
    where = {"app": "a", "node": node, "replica": replica, **labels}
    return samples.get((f"borealis_{name}", frozenset(where.items())))


def test_what_a_replica_says(board: StatusRegistry) -> None:
    found = read(board)
    assert value(found, "replica_tuples_total") == 9
    assert value(found, "replica_stable_rows_total") == 5
    assert value(found, "replica_tentative_buckets_total") == 2
    assert value(found, "replica_stable_frontier_timestamp_seconds") == 1_700_000_000 - 2
    assert value(found, "replica_live_frontier_timestamp_seconds") == 1_700_000_000
    assert value(found, "replica_uncorrected_buckets") == 20
    assert value(found, "replica_delay_threshold_seconds") == 3
    assert value(found, "replica_checkpoint_timestamp_seconds") == 1_700_000_000 - 1.5
    assert value(found, "replica_checkpoint_timestamp_seconds", "cut", "1") is None
    assert [value(found, "replica_granted", *key) for key in (("q", "0"), ("cut", "1"))] == [1, 0]
    states = {s: value(found, "replica_state", state=s) for s in ("STABLE", "STABILIZATION", "RECOVERING")}
    assert states == {"STABLE": 0, "STABILIZATION": 1, "RECOVERING": 0}
    assert value(found, "redo_duration_seconds_sum", engine="spark") == 0.75
    assert value(found, "redo_duration_seconds_count", engine="spark") == 1
    assert value(found, "replica_events_total", event="READY") == 1
    assert value(found, "input_late", "cut", "1", input="t") == 1
    assert value(found, "input_closed_timestamp_seconds", "cut", "1", input="s") == 1_700_000_000
    assert found["borealis_replicas", frozenset()] == found["borealis_replicas_ready", frozenset()] == 2


def test_an_end_is_no_time(board: StatusRegistry) -> None:
    last = Buckets(BUCKET_US).last
    board.tell(snapshot(f_s=last, f_l=last, inputs=(source("s", closed=last, ended=True),)))
    found = read(board)
    assert value(found, "replica_stable_frontier_timestamp_seconds") is None
    assert value(found, "input_closed_timestamp_seconds", input="s") is None
    assert value(found, "input_ended", input="s") == 1


def test_a_standby_that_reads_nothing_counts_in_no_minimum(board: StatusRegistry) -> None:
    names = ("replica_stable_frontier_timestamp_seconds", "replica_uncorrected_buckets", "input_late")

    def told(**changes: object) -> list[float | None]:
        board.tell(snapshot(**changes))
        found = read(board)
        assert found["borealis_replicas_ready", frozenset()] == 2
        assert value(found, "replica_stable_rows_total") == 5
        return [value(found, name, **({"input": "s"} if name.startswith("input") else {})) for name in names]

    for way in ("passive-standby", "upstream-backup"):
        assert told(state="STANDBY", recovery=way) == [None, None, None]
        assert told(state="STABLE", recovery=way) == [1_700_000_000, 0, 0]
    assert told(state="STANDBY", recovery="active-standby") == [1_700_000_000, 0, 0]


def test_names_units_and_labels_keep_the_conventions(board: StatusRegistry) -> None:
    ours = [m for m in parse_openmetrics(page(board, OPENMETRICS)) if m.name.startswith("borealis_")]
    assert len(ours) > 20
    for metric in ours:
        assert re.fullmatch(r"[a-z]+(_[a-z]+)+", metric.name)
        assert metric.documentation.endswith(".")
        assert not re.search(r"_(us|ms|kb|mb|millis|minutes)(_|$)", metric.name), "base units"
        for sample in metric.samples:
            assert (metric.type == "counter") == sample.name.endswith("_total")
            assert set(sample.labels) <= LABELS
    assert "process_resident_memory_bytes" in page(board)


def test_labels_do_not_grow_with_what_flows(board: StatusRegistry) -> None:
    before = {labels for _, labels in read(board)}
    for n in range(50):
        board.tell(snapshot(inc=n, uid=str(n), detail=f"key {n}", f_s=n, tuples_in=n, event="READY"))
    assert {labels for _, labels in read(board)} <= before | {
        frozenset({**dict(labels), "state": state}.items())
        for labels in before
        for state in ("STABLE", "UPSTREAM_FAILURE")
        if "state" in dict(labels)
    }
    assert len(read(board)) <= 120


def test_nothing_has_been_said_yet() -> None:
    found = read(StatusRegistry(app_state(), [Q0]))
    assert (found["borealis_replicas", frozenset()], found["borealis_replicas_ready", frozenset()]) == (1, 0)
    assert not [name for name, labels in found if name.startswith("borealis_replica_") and labels]
