"""Two ingress processes on a real broker, and a producer with transactions of another client: exactly once."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from contextlib import closing
from itertools import count

import pytest
from confluent_kafka import Producer

from borealis_py.engine.arrow.rows import ArrowRows
from borealis_py.engine.codec import ArrowSourceCodec
from borealis_py.ingress.plan import IngressPlan
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import TopicSpec
from borealis_py.log.description import Life
from borealis_py.log.source_records import decode_source
from borealis_py.log.topics import EVENT_TIME
from sunion.source import SourceFold, fold
from tests.harness.waiting import PATIENCE_S, until
from tests.support.ingress_process import AHEAD_US, COLUMNS, plan_of

APP, SOURCE, TOPIC, PARTITIONS = "ingressing", "orders", "ingressing-foreign", 3
EACH = 20
"""Rows of a transaction."""


class Ingress:
    """One process; the lines that it prints say what it is."""

    def __init__(self, bootstrap: str, origin_us: int, index: int) -> None:
        self.said: list[str] = []
        what = [bootstrap, APP, SOURCE, TOPIC, str(PARTITIONS), str(origin_us), str(index)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.ingress_process", *what], stdout=subprocess.PIPE, text=True
        )
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        for line in self.process.stdout or ():
            self.said.append(line.strip())

    @property
    def owner(self) -> bool:
        return [line for line in self.said if line in ("owner", "standby")][-1:] == ["owner"]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


class Transactions(threading.Thread):
    """Writes rows in transactions, every third of which it aborts. `committed`: the numbers of the others' rows."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(daemon=True)
        self.committed: list[int] = []
        self.enough = threading.Event()
        self._producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "shops", "linger.ms": 1})

    def run(self) -> None:
        self._producer.init_transactions(PATIENCE_S)
        numbers = count()
        for turn in count():
            if self.enough.is_set():
                return
            self._producer.begin_transaction()
            rows = [next(numbers) for _ in range(EACH)]
            for n in rows:
                value = json.dumps({"n": n, "at": time.time_ns() // 1_000, "more": "ignored"})
                self._producer.produce(TOPIC, value, partition=n % PARTITIONS)
                if n == rows[EACH // 2]:
                    self._producer.flush(PATIENCE_S)  # half of the rows are in the log while their transaction is open
            self._producer.flush(PATIENCE_S)
            if turn % 3 == 2:
                self._producer.abort_transaction(PATIENCE_S)
            else:
                self._producer.commit_transaction(PATIENCE_S)
                self.committed += rows


@pytest.fixture
def plan(bootstrap: str) -> IngressPlan:
    with closing(KafkaLog(bootstrap).admin()) as admin:
        admin.create(
            [
                TopicSpec(f"{APP}.{SOURCE}", PARTITIONS, EVENT_TIME),
                TopicSpec(TOPIC, PARTITIONS),
                TopicSpec(f"{APP}.settings"),
            ]
        )
    return plan_of(APP, SOURCE, TOPIC, PARTITIONS, time.time_ns() // 1_000 - 10_000_000)


def copied(bootstrap: str, plan: IngressPlan) -> tuple[list[int], list[str]]:
    """The numbers of all rows that count, and the reasons of all dead letters, as readers of the source see them."""
    numbers: list[int] = []
    letters: list[str] = []
    with closing(KafkaLog(bootstrap).lookup()) as lookup:
        for target in plan.targets:
            codec, state = ArrowSourceCodec(target.source, COLUMNS), SourceFold(target.buckets.start(target.origin))
            for record in lookup.read(target.feed, *lookup.bounds(target.feed)):
                said = decode_source(record, codec, target.source, Life("a1"))
                state, accepted = fold(state, said, target.buckets, ArrowRows(), target.source, AHEAD_US)
                numbers += [n for _, rows, _ in accepted.rows for n in rows.column("n").to_pylist()]
                letters += [reject.reason for reject in accepted.rejects]
    return numbers, letters


def test_transactions_are_copied_exactly_once_although_ingresses_are_killed(bootstrap: str, plan: IngressPlan) -> None:
    origin_us = plan.targets[0].buckets.start(plan.targets[0].origin)
    producer = Transactions(bootstrap)
    ingresses = {index: Ingress(bootstrap, origin_us, index) for index in (0, 1)}
    try:
        until(lambda: any(one.owner for one in ingresses.values()), "an ingress owns the inputs")
        producer.start()
        for _ in range(3):
            before = len(producer.committed)
            until(lambda before=before: len(producer.committed) > before + 10 * EACH, "rows")  # type: ignore[misc]
            index, owner = next((i, one) for i, one in ingresses.items() if one.owner)
            owner.kill()
            until(lambda index=index: ingresses[1 - index].owner, "the other took over")  # type: ignore[misc]
            ingresses[index] = Ingress(bootstrap, origin_us, index)
        producer.enough.set()
        producer.join(PATIENCE_S)
        until(lambda: sum(map(len, copied(bootstrap, plan))) >= len(producer.committed), "all rows are copied")
    finally:
        producer.enough.set()
        for one in ingresses.values():
            one.kill()
    numbers, letters = copied(bootstrap, plan)
    assert len(producer.committed) > 30 * EACH
    assert sorted(numbers) == producer.committed
    assert letters == []
