"""A left join of two topics that plain programs write, while a writer is killed, a partition loses its broker, and
ingresses are killed. Brokers, replicas and ingresses are real.

What the topics hold is joined here, by hand; `borealis verify` judges everything else that lies in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed
from tests.cli.commands import Borealis, borealis, status  # noqa: F401  # a fixture
from tests.harness.broker import FIRST, SECOND, START_S, TwoBrokers
from tests.harness.readers import Results
from tests.harness.waiting import awaited, until
from tests.harness.writers import Writer, lying_in
from tests.support.right import exactly

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

APP, ORDERS, PAYMENTS = "joined", "prod.joined.orders", "prod.joined.payments"
TEXT = f"""
from borealis_py import App

app = App("{APP}")
orders = app.topic("orders", topic="{ORDERS}", schema={{"id": "int64", "euros": "int64", "at": "int64"}},
                   stime="at", stime_unit="ms", lateness="1s", expect="1s", cluster="pair")
payments = app.topic("payments", topic="{PAYMENTS}", schema={{"id": "int64", "amount": "int64", "paid_at": "int64"}},
                     stime="paid_at", stime_unit="ms", lateness="1s", expect="1s", cluster="pair")
paid = orders.join(payments, on="id", within=("0s", "1s"), how="left")
app.query("paid", paid, delay_threshold="3s")
"""
WITHIN_MS = 1_000
Pair = tuple[int, int, int | None]
"""An order's id, its euros, and what was paid."""


class Ingresses:
    """Of the running app. They are started again by themselves."""

    def __init__(self, directory: Path, borealis: Borealis) -> None:  # noqa: F811
        self._borealis, self._processes = borealis, ReplicaProcesses(directory / ".borealis", APP)
        self.killed = 0

    def owner(self, source: str, but: str = "") -> dict[str, Any] | None:
        """The one that copies a source now. `but`: the uid of one that was killed."""
        there = (i for i in status(self._borealis, APP)["ingresses"] if i["source"] == source and i["running"])
        return next((i for i in there if i["role"] == "owner" and i["uid"] != but), None)

    def kill_owner(self, source: str) -> None:
        """kill -9. Waits until another one has taken over and this one is back."""
        first = awaited(lambda: self.owner(source), f"{source} is copied")
        victim = ProcessName(first["ingress"], ingress=True)
        self._processes.running()[victim].kill()
        until(lambda: self.owner(source, but=first["uid"]) is not None, "another one takes over")
        until(lambda: victim in self._processes.running(), "it is started again")
        self.killed += 1


def joined(orders: list[dict[str, Any]], payments: list[dict[str, Any]]) -> list[Pair]:
    """The left join, by hand. An id is used once in each topic."""
    paid = {row["id"]: row for row in payments}
    found: list[Pair] = []
    for order in orders:
        payment = paid.get(order["id"])
        if payment is not None and 0 <= payment["paid_at"] - order["at"] <= WITHIN_MS:
            found.append((order["id"], order["euros"], payment["amount"]))
        else:
            found.append((order["id"], order["euros"], None))
    return found


def pair_of(row: Mapping[str, Any]) -> Pair:
    return row["id"], row["euros"], row["amount"]


def test_a_left_join_is_whole_whatever_was_killed(
    pair: TwoBrokers,
    run_app: Callable[[str, str], None],
    write: Callable[[str, str], Writer],
    tmp_path: Path,
    bootstrap: str,
    borealis: Borealis,  # noqa: F811
) -> None:
    pair.create(ORDERS, [FIRST, FIRST])
    pair.create(PAYMENTS, [FIRST, SECOND])
    run_app(APP, TEXT)
    ingresses = Ingresses(tmp_path, borealis)
    writers = [write(ORDERS, "orders"), write(PAYMENTS, "payments")]
    live, corrected = Results("paid", APP, bootstrap, "live"), Results("paid", APP, bootstrap)
    with closing(live), closing(corrected):
        until(lambda: len(corrected.seen) >= 20, "results come")
        ingresses.kill_owner("orders")

        pair.second.kill()

        def tentative() -> dict[int, Pair]:
            """Results that say that they lack that partition alone, by their order."""
            told = (c for c in live.seen if c.kind == "TENTATIVE" and c.missing_sources == ("payments.1",))
            return {row["id"]: pair_of(row) for change in told for row in change.rows}

        until(lambda: len(tentative()) >= 20, "results lack payments of the second broker, and say so")
        ingresses.kill_owner("payments")
        before = len(tentative())
        until(lambda: len(tentative()) >= before + 20, "results go on beside the partition")
        told = "missing: payments.1 (partition 1): "
        until(lambda: told in borealis("status", "--app", APP).err, "its input is said to be missing")

        writers[0].kill()
        writers.append(write(ORDERS, "orders"))
        until(lambda: len(writers[-1].acknowledged) >= 20, "another program writes orders")

        seen = len(live.seen)
        pair.second.up(START_S)
        until(lambda: any(c.kind == "REC_DONE" for c in live.seen[seen:]), "results are corrected")
        ingresses.kill_owner("payments")
        for writer in writers[1:]:
            writer.close()
        orders, payments = lying_in(pair.bootstrap, ORDERS, 2), lying_in(pair.bootstrap, PAYMENTS, 2)
        sent = joined(orders, payments)
        for source in ("orders", "payments"):  # silence would be missing
            assert borealis("source", "end", source, "--app", APP, "--timeout", "60s").code == 0
        until(lambda: len(corrected.seen) >= len(sent), "every order is a result")
        guessed = tentative()

    assert ingresses.killed == 3
    assert {n for one in (writers[0], writers[2]) for n in one.acknowledged} <= {row["id"] for row in orders}
    assert sorted(writers[1].acknowledged) == sorted(row["id"] for row in payments)
    with exactly():
        assert sorted(pair_of(row.value) for row in corrected.seen) == sorted(sent, key=lambda one: one[0])
    exact = {one[0]: one for one in sent}
    corrected_later = [n for n, one in guessed.items() if one != exact[n]]
    assert corrected_later, "nothing that was tentative was wrong: no payment came too late for it"
    assert {(guessed[n][2], n % 2) for n in corrected_later} == {(None, 1)}  # unpaid orders of that partition
    for change in (c for c in live.seen if c.kind == "TENTATIVE"):
        assert change.diverged_from is not None
        assert (change.completeness < 1) == bool(change.missing_sources)
        if not change.missing_sources:  # it lacks nothing: something older is yet to be corrected
            assert all(pair_of(row) == exact[row["id"]] for row in change.rows)
    with closing(KafkaLog(bootstrap).lookup()) as lookup:
        assert lookup.bounds(Feed(topics.deadletter(APP))) == (0, 0)
    said = borealis("verify", "--app", APP)
    assert said.code == 0, said.out + said.err
