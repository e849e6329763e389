"""A partition whose only broker is killed has no leader until that is back. Brokers, replica and ingresses are real."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from typing import Any

import pytest

from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed
from tests.cli.commands import Borealis, borealis, status  # noqa: F401  # a fixture
from tests.harness.broker import FIRST, SECOND, START_S, TwoBrokers
from tests.harness.readers import Results
from tests.harness.waiting import until
from tests.harness.writers import Writer, lying_in

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

APP, TOPIC = "unled", "prod.unled"
TEXT = f"""
from borealis_py import App

app = App("{APP}")
orders = app.topic("orders", topic="{TOPIC}", schema={{"id": "int64", "euros": "int64", "at": "int64"}}, stime="at",
                   stime_unit="ms", lateness="1s", expect="1s", cluster="pair")
sums = orders.window("1s").agg(n="count(*)", ids="sum(id)", euros="sum(euros)")
app.query("sums", sums, delay_threshold="3s", replicas=1)
"""


def inputs_of(borealis: Borealis) -> list[dict[str, Any]]:  # noqa: F811
    """As `borealis status` tells of the ingress that copies."""
    found = (one["inputs"] for one in status(borealis, APP)["ingresses"] if one["running"] and one["role"] == "owner")
    return next(found, [])


def sums_of(rows: list[dict[str, Any]]) -> dict[int, tuple[int, int, int]]:
    """By the window's start in microseconds, added up by hand: how many, their ids, euros."""
    found: dict[int, Counter[str]] = {}
    for row in rows:
        found.setdefault(row["at"] // 1_000 * 1_000_000, Counter()).update(n=1, ids=row["id"], euros=row["euros"])
    return {window: (one["n"], one["ids"], one["euros"]) for window, one in found.items()}


def test_its_input_is_missing_and_named_until_it_can_be_read_and_then_nothing_is_late(
    pair: TwoBrokers,
    run_app: Callable[[str, str], None],
    write: Callable[[str, str], Writer],
    bootstrap: str,
    borealis: Borealis,  # noqa: F811
) -> None:
    pair.create(TOPIC, [FIRST, SECOND])
    run_app(APP, TEXT)
    writer = write(TOPIC, "orders")
    live, corrected = Results("sums", APP, bootstrap, "live"), Results("sums", APP, bootstrap)
    with closing(live), closing(corrected):
        until(lambda: len(corrected.seen) >= 2, "results come")

        pair.second.kill()
        killed_us = time.time_ns() // 1_000
        until(lambda: [i["unreadable"] for i in inputs_of(borealis)] == [[], [1]], "its input alone is missing")
        assert pair.leaders(TOPIC) == [FIRST, SECOND]  # it is noticed before Kafka ends the broker's session
        told = "missing: orders.1 (partition 1): "
        until(lambda: told in borealis("status", "--app", APP).err, "it is said to be missing")
        until(lambda: pair.leaders(TOPIC) == [FIRST, -1], "the partition has no leader")

        def alone() -> list[Mapping[str, Any]]:
            """Results of the other partition, which say that they lack this one, of windows after the kill."""
            told = (c for c in live.seen if c.kind == "TENTATIVE" and c.missing_sources == ("orders.1",))
            return [row for change in told for row in change.rows if row["window_start"] > killed_us]

        until(lambda: len(alone()) >= 3, "the other partition goes on")
        assert {row["n"] for row in alone()} == {10}  # of 20 rows a second

        seen = len(live.seen)
        pair.second.up(START_S)
        until(lambda: any(c.kind == "REC_DONE" for c in live.seen[seen:]), "results are corrected")
        until(lambda: not any(i["missing"] for i in inputs_of(borealis)), "nothing is missing any more")
        writer.close()
        rows = lying_in(pair.bootstrap, TOPIC, 2)
        assert borealis("source", "end", "orders", "--app", APP, "--timeout", "60s").code == 0
        until(lambda: corrected.seen[-1].value["window_start"] >= max(sums_of(rows)), "all windows are corrected")
    assert sorted(row["id"] for row in rows) == sorted(writer.acknowledged)
    found = [
        (row.value["window_start"], (row.value["n"], row.value["ids"], row.value["euros"])) for row in corrected.seen
    ]
    assert found == sorted(sums_of(rows).items())
    with closing(KafkaLog(bootstrap).lookup()) as lookup:
        assert lookup.bounds(Feed(topics.deadletter(APP))) == (0, 0)
    said = borealis("verify", "--app", APP)
    assert said.code == 0, said.out + said.err
