"""Topics that plain clients write, from Kafka to corrected rows: a producer falls silent, an ingress is killed, and in
the end every row counts once. Broker, replicas and ingresses are real; there is no Spark.

The rows that were sent are summed here, by hand; `borealis verify` judges everything else that lies in Kafka.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]
from kafka import KafkaProducer

from borealis_py.api import subscribe
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.client.subscriber import LiveChange, Row
from tests.cli.commands import Borealis, borealis, status  # noqa: F401  # a fixture
from tests.harness.readers import Results
from tests.harness.waiting import PATIENCE_S, awaited, until
from tests.support.right import exactly

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

APP = "foreign"
TEXT = """
from borealis_py import App

app = App("foreign")
schema = {"item": "string", "cents": "int64", "at": "int64"}
berlin, paris = (
    app.topic(city, topic=f"prod.{city}", schema=schema, stime="at", stime_unit="ms", lateness="1s", expect="1s",
              heartbeat="item = 'ping'")
    for city in ("berlin", "paris")
)
sales = app.union(berlin, paris).window("1s").group_by("item").agg(sold="count(*)", cents="sum(cents)")
app.query("sales", sales, delay_threshold="3s")
"""
SECOND_MS = 1_000
EVERY_S = 0.05


class Shop:
    """Sells tea every 50 ms, in a thread, and remembers what it sold. While it is silent it keeps its rows, and sends
    them with their old times when it speaks again. Once it is closed, it sends heartbeats alone, until it ends."""

    def __init__(
        self, cents: int, partitions: int, send: Callable[[bytes, int], None], flush: Callable[[], None]
    ) -> None:
        self.sold: list[int] = []
        self.silent = threading.Event()
        self.sent = 0
        self._cents, self._partitions, self._send, self._flush = cents, partitions, send, flush
        self._closed, self._over = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._sell)
        self._thread.start()

    def _sell(self) -> None:
        while not self._over.wait(EVERY_S):
            at = time.time_ns() // 1_000_000
            if self._closed.is_set():
                for partition in range(self._partitions):
                    self._send(json.dumps({"item": "ping", "at": at}).encode(), partition)
                self._flush()
                continue
            self.sold.append(at)
            if not self.silent.is_set():
                for sold in self.sold[self.sent :]:
                    row = {"item": "tea", "cents": self._cents, "at": sold, "till": 7}
                    self._send(json.dumps(row).encode(), self.sent % self._partitions)
                    self.sent += 1
                self._flush()

    def close(self) -> None:
        """Sell nothing more; what was sold is sent."""
        self.silent.clear()
        self._closed.set()
        until(lambda: self.sent == len(self.sold) > 0, "everything sold is sent")

    def end(self) -> None:
        """Say nothing more."""
        self._over.set()
        self._thread.join()


@pytest.fixture
def shops(bootstrap: str) -> Iterator[dict[str, Shop]]:
    """Berlin, by transactions of the one client into three partitions; and Paris, by the other into one."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for made in admin.create_topics([NewTopic("prod.berlin", 3, 1), NewTopic("prod.paris", 1, 1)]).values():
        made.result()
    confluent = Producer({"bootstrap.servers": bootstrap, "transactional.id": "berlin", "linger.ms": 0})
    confluent.init_transactions(PATIENCE_S)
    plain = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    open_transaction = threading.Event()

    def to_berlin(row: bytes, partition: int) -> None:
        if not open_transaction.is_set():
            confluent.begin_transaction()
            open_transaction.set()
        confluent.produce("prod.berlin", row, partition=partition)

    def commit() -> None:
        confluent.commit_transaction(PATIENCE_S)
        open_transaction.clear()

    def to_paris(row: bytes, partition: int) -> None:
        plain.send("prod.paris", row, partition=partition)

    found = {"berlin": Shop(200, 3, to_berlin, commit), "paris": Shop(350, 1, to_paris, plain.flush)}
    yield found
    for shop in found.values():
        shop.end()
    plain.close()
    admin.delete_topics(["prod.berlin", "prod.paris"])


def lacking(live: Results, source: str) -> list[LiveChange]:
    """Tentative results with rows that lack this source alone."""
    return [c for c in live.seen if c.kind == "TENTATIVE" and c.rows and c.missing_sources == (source,)]


def expected(shops: Mapping[str, Shop]) -> dict[int, tuple[int, int]]:
    """By the window's start in microseconds: how many were sold, and for how much."""
    found: dict[int, tuple[int, int]] = {}
    for cents, shop in ((200, shops["berlin"]), (350, shops["paris"])):
        for at in shop.sold:
            window = at // SECOND_MS * SECOND_MS * 1_000
            sold, total = found.get(window, (0, 0))
            found[window] = sold + 1, total + cents
    return found


def corrected(bootstrap: str, last_window: int) -> dict[int, tuple[int, int]]:
    """The corrected stream up to that window; fails if a window is there twice."""
    found: dict[int, tuple[int, int]] = {}
    stop = threading.Event()
    for row in subscribe("sales", app=APP, bootstrap=bootstrap, stop=stop):
        assert isinstance(row, Row)
        value: Mapping[str, Any] = row.value
        assert value["window_start"] not in found
        found[value["window_start"]] = value["sold"], int(value["cents"])
        if value["window_start"] >= last_window:
            stop.set()
    return found


@pytest.fixture
def running(
    shops: dict[str, Shop],
    bootstrap: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    borealis: Borealis,  # noqa: F811
) -> Iterator[ReplicaProcesses]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    (tmp_path / "app.py").write_text(TEXT)
    said = borealis("up", "app.py", "--host", "process", "--reset", "--origin", "now")
    assert said.code == 0, said.err
    assert "ingress 0 started" in said.err
    yield ReplicaProcesses(tmp_path / ".borealis", APP)
    borealis("down", "--app", APP)


def owner(borealis: Borealis, source: str, but: str = "") -> dict[str, Any] | None:  # noqa: F811
    """The ingress that copies a source now. `but`: the uid of one that was killed."""
    found = [i for i in status(borealis, APP)["ingresses"] if i["source"] == source and i["running"]]
    return next((i for i in found if i["role"] == "owner" and i["uid"] != but), None)


def missing(borealis: Borealis) -> list[tuple[str, str]]:  # noqa: F811
    """The inputs that are missing now, and why."""
    inputs = [i for one in status(borealis, APP)["ingresses"] for i in one.get("inputs", ())]
    return [(i["name"], i["missing"]) for i in inputs if i["missing"]]


def paris_alone_is_missing(borealis: Borealis) -> bool:  # noqa: F811
    """On a busy machine others are silent for a moment, too."""
    told = "missing: paris.0 (partition 0): silent" in borealis("status", "--app", APP).err
    return told and missing(borealis) == [("paris.0", "silent")]


def test_a_silent_producer_and_a_killed_ingress_cost_nothing_in_the_end(
    shops: dict[str, Shop],
    running: ReplicaProcesses,
    bootstrap: str,
    borealis: Borealis,  # noqa: F811
) -> None:
    live = Results("sales", APP, bootstrap, "live")
    try:
        until(lambda: any(c.kind == "STABLE" and c.rows for c in live.seen), "results come")
        begun_us = time.time_ns() // 1_000  # each topic is read from where it ended when it was begun: by now all are
        shops["paris"].silent.set()
        silent_us = time.time_ns() // 1_000

        def without_paris() -> list[Mapping[str, Any]]:
            """Results that say that they lack Paris, of windows in which it had sent nothing yet."""
            rows = (row for change in lacking(live, "paris.0") for row in change.rows)
            return [row for row in rows if row["window_start"] > silent_us]

        until(lambda: len(without_paris()) >= 2, "results lack Paris, and say so")
        assert {change.completeness for change in lacking(live, "paris.0")} == {0.75}  # of four inputs
        assert all(row["cents"] == 200 * row["sold"] > 0 for row in without_paris())
        until(lambda: paris_alone_is_missing(borealis), "Paris alone is missing, and is said to be")

        first = awaited(lambda: owner(borealis, "berlin"), "Berlin is copied")
        victim = ProcessName(first["ingress"], ingress=True)
        running.running()[victim].kill()
        until(lambda: owner(borealis, "berlin", but=first["uid"]) is not None, "another one takes over")
        until(lambda: victim in running.running(), "it is started again")

        seen = len(live.seen)
        shops["paris"].silent.clear()
        until(lambda: any(c.kind == "REC_DONE" for c in live.seen[seen:]), "results are corrected")
        for shop in shops.values():
            shop.close()
    finally:
        live.close()
    sums = expected(shops)
    first_window, last = min(sums), max(sums)
    found = corrected(bootstrap, last)
    whole = {window: value for window, value in sums.items() if window >= begun_us}
    assert len(whole) > 5
    with exactly():
        assert {window: value for window, value in found.items() if window >= begun_us} == whole
    assert min(found) >= first_window
    said = borealis("verify", "--app", APP)
    assert said.code == 0, said.out + said.err
    counts = [i for one in status(borealis, APP)["ingresses"] for i in one.get("inputs", ())]
    assert sum(i["late"] + i["dead"] for i in counts) == 0
