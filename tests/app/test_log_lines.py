"""Log lines as people read them: nothing is lost, buckets are times."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.app.log_lines import LEVELS, LogLine, grave, ordered, parsed, shown
from sunion.bucket import Buckets

WIDTH = 100_000
START = datetime(2026, 11, 28, 21, 7, 3, 900_000, tzinfo=UTC)
BUCKET = 17959000239
NUMBERS = "bucket 17959000239 ran without paris, completeness 0.50"


def written(event: str, **fields: Any) -> str:
    said = {"event": event, "level": "info", "logger": "borealis_py.node", "timestamp": "2026-11-28T21:07:06.767033Z"}
    return json.dumps({**fields, **said})


def test_the_example_is_the_bucket_of_its_time() -> None:
    assert Buckets(WIDTH).of(int(START.timestamp() * 1e6)) == BUCKET


def test_a_replicas_line() -> None:
    line = parsed(
        "replica-1", written("FIRST_TENTATIVE", node="sales", replica=1, detail=NUMBERS, f_s=BUCKET, f_l=BUCKET + 1)
    )
    assert shown(line, WIDTH) == (
        "2026-11-28 21:07:06.767  info     sales.r1  FIRST_TENTATIVE: bucket 2026-11-28 21:07:03.9 ran without paris, "
        "completeness 0.50 f_l=2026-11-28 21:07:04.0"
    )
    assert NUMBERS in shown(line, None), "where the width is not known, numbers stay"
    assert f"f_l={BUCKET + 1}" in shown(line, None)


def test_a_supervisors_line_keeps_its_fields() -> None:
    line = parsed("replica-0", written("the replica process ended 1", pid=11242, how="killed by SIGKILL", restarts=1))
    said = shown(line, WIDTH)
    assert said.endswith('replica 0  the replica process ended 1 pid=11242 how="killed by SIGKILL" restarts=1')


def test_a_trace_follows_its_line() -> None:
    line = parsed("ingress-0", written("failed", exception="Traceback\n  ValueError: x"))
    assert shown(line, WIDTH).splitlines()[1:] == ["    Traceback", "      ValueError: x"]


@pytest.mark.parametrize(
    "text", ["Killed", "{", "[1]", "3", '{"event": "x"}', '{"event": "x", "timestamp": "soon"}', "  at x"]
)
def test_what_is_printed_there_stays_as_it_is(text: str) -> None:
    line = parsed("replica-0", text)
    assert (line.at, line.message) == (None, text)
    assert shown(line, WIDTH).endswith(text)


def test_times_are_as_fine_as_buckets() -> None:
    line = parsed("replica-0", written("x", bucket=Buckets(10_000).of(1_795_900_023_910_000)))
    assert 'bucket="2026-' in shown(line, 10_000) or "bucket=2026-11-28 21:07:03.910" in shown(line, 10_000)
    assert "END" in shown(parsed("replica-0", written("x", bucket=Buckets(WIDTH).last)), WIDTH)


def test_the_width_is_told_by_a_replica_that_starts() -> None:
    line = parsed("replica-0", written("replica starts", node="q", replica=0, bucket=BUCKET, bucket_us=WIDTH))
    assert line.bucket_us == WIDTH
    assert "bucket_us" not in shown(line, WIDTH)
    assert parsed("replica-0", written("x", bucket_us="wide")).bucket_us is None


def test_levels() -> None:
    lines = [LogLine("p", START, level, "p", level) for level in (*LEVELS, "")]
    assert [line.level for line in grave(lines, "warning")] == ["warning", "error", "critical", ""]


stamps = st.none() | st.integers(0, 5).map(lambda s: START + timedelta(seconds=s))
logs = st.lists(st.tuples(st.sampled_from("ab"), stamps), max_size=30)


@given(logs)
def test_lines_of_a_process_stay_in_order_and_none_is_lost(written: list[tuple[str, datetime | None]]) -> None:
    lines = [LogLine(process, at, "info", process, str(n)) for n, (process, at) in enumerate(written)]
    found = ordered(lines)
    for process in "ab":
        own = [line for line in lines if line.process == process]
        assert [line for line in found if line.process == process] == own


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from(["bucket", "f_s", "first", "why", "n"]), values), st.none() | st.integers(1, 10**7)
)
def test_no_line_is_too_odd_to_be_shown(fields: dict[str, Any], width: int | None) -> None:
    said = shown(parsed("replica-0", written("x", **fields)), width)
    assert said.startswith("2026-11-28 21:07:06.767  info     replica 0  x")
    assert all(f"{name}=" in said for name in fields if name not in ("bucket", "f_s", "first"))
