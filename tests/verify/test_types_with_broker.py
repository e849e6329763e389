"""An app of decimals, times, bytes and json on a real broker, through a failure: judged by `verify` and by `audit`."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from borealis_py.api import live
from borealis_py.query import App
from tests.cli.commands import Borealis
from tests.harness.launching import cut_off
from tests.harness.running import RunningApp, running
from tests.harness.waiting import until

pytestmark = pytest.mark.broker
NAME, SOURCES = "typed", ("left", "right")
COLUMNS = {"euros": "decimal(12,2)", "at": "timestamp", "day": "date", "receipt": "binary", "more": "json"}


def chain() -> App:
    """Partitioned by a decimal; a sum, and every type in a result."""
    app = App(NAME, bucket="100ms")
    left, right = (app.source(s, schema=COLUMNS) for s in SOURCES)
    mapped = app.union(left, right).map(
        euros="euros", day="day", at='"at" + INTERVAL 1 DAY', receipt="receipt", more="more", n="more ->> '$.n'"
    )
    cleaned = mapped.node("cleaned", replicas=1, partitions=2, by="euros")
    sums = (
        cleaned.window("500ms")
        .group_by("euros")
        .agg(
            total="sum(euros)",
            last='max("at")',
            day="min(day)",
            receipt="max(receipt)",
            more="first(more)",
            n="count(*)",
        )
    )
    app.query("sums", sums, "1s", replicas=1)
    return app


def row(n: int) -> dict[str, Any]:
    """Every tenth has a time that is out of range a day later, every eleventh an amount with too many digits."""
    return {
        "euros": Decimal("0.125") if n % 11 == 0 else Decimal(n % 5) / 4,
        "at": datetime.max.replace(tzinfo=UTC) if n % 10 == 0 else datetime(2026, 1, 1, microsecond=n, tzinfo=UTC),
        "day": date(2026, 1, 1 + n % 28),
        "receipt": bytes([n % 256]),
        "more": {"n": n, "deep": [{"x": 1.10}]},
    }


@pytest.fixture
def app(bootstrap: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RunningApp]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    with running(bootstrap, chain(), tmp_path / "app") as it:
        it.start(0)
        it.wait_ready(0)
        yield it


def test_every_type_survives_a_failure_and_both_views_agree(app: RunningApp, borealis: Borealis) -> None:
    stop = threading.Event()

    def feed() -> None:
        with app.publisher("left") as left, app.publisher("right") as right:
            n = 0
            while not stop.wait(0.02):
                left.send(row(n))
                right.send_many([row(n + 1)])
                n += 2
            for publisher in (left, right):
                publisher.close(end=True)

    feeding = threading.Thread(target=feed)
    feeding.start()
    try:
        until(lambda: len(app.corrected("sums")) > 10, "rows are published")
        cut_off(app.log, NAME, ["right"], time.time_ns() // 1000 + 60_000_000)
        until(lambda: (s := app.newest(0)) is not None and s.tentative_buckets > 5, "tentative buckets")
        cut_off(app.log, NAME, ["right"], 0)
        until(lambda: "STABLE" in app.events() or bool(app.errors), "corrected")
    finally:
        stop.set()
        feeding.join()
    seen = [change for change in live(app.log, app.state, "sums", True, threading.Event()) if change.kind == "STABLE"]
    until(lambda: borealis("verify", "--app", NAME).code == 0, "nothing is wrong")
    shown = sum(len(change.rows) for change in seen)
    until(lambda: len(app.corrected("sums")) >= shown, "publishing has got as far as the live view")
    corrected = sorted(json.dumps(json.loads(r.value or b"")) for r in app.corrected("sums"))
    assert sorted(json.dumps(value) for change in seen for value in change.rows) == corrected
    found = [json.loads(one) for one in corrected]
    assert {one["euros"] for one in found} == {"0.00", "0.25", "0.50", "0.75", "1.00"}
    assert all(Decimal(one["total"]) == Decimal(one["euros"]) * one["n"] for one in found)
    assert all(one["more"]["deep"] == [{"x": 1.1}] and one["last"].startswith("2026-01-02T") for one in found)
    reasons = {letter["reason"].split(": ")[-1].split(" (")[0] for letter in app.dead_letters()}
    assert "it has more than 2 digits after the point, and none is cut off" in reasons
    assert any("a timestamp before the year 1 or after 9999" in letter["reason"] for letter in app.dead_letters())
    said = borealis("audit", "sums", "--app", NAME, "--no-spark")
    assert said.code == 0, said.err + said.out
    assert not app.errors
