"""The programs that write the foreign topic: rows in time and late, garbage, transactions; and what was written."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass

from borealis_py.log.base import Feed, NewRecord
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.ingress.scenario import SHOPS, TOPIC, IngressScenario
from borealis_py.simulation.log.client import MemoryLog

LATE_US = 5_000_000
FUTURE_US = 65_000_000


@dataclass(frozen=True, slots=True)
class Sent:
    """One record as it was written: its bytes, and what it says: number, shop and stime; all None: it is no row."""

    value: bytes
    number: int | None
    shop: str | None
    stime: int | None


class Producers:
    """Write into the topic until `stop`. Every value is unique."""

    def __init__(self, scheduler: Scheduler, memory: MemoryLog, scenario: IngressScenario) -> None:
        self.sent: dict[bytes, Sent] = {}
        """By value."""
        self.partitions = scenario.partitions
        self._scheduler = scheduler
        self._memory = memory
        self._scenario = scenario
        self._rng = random.Random(f"producers {scenario.seed}")
        self._largest = [0] * 16
        self._stopped = False
        self._open: dict[str, int] = {}
        self._next()

    def stop(self) -> None:
        self._stopped = True

    def refill(self, partition: int, records: int) -> None:
        """Write so many at once."""
        for _ in range(records):
            self._append(partition, spoilt=False)

    def begin(self, partition: int) -> None:
        """Write a few records in a transaction that stays open until `end`."""
        if not self._memory.broker.exists(TOPIC):
            return
        name = f"transaction {partition}"
        epoch = self._open[name] = self._memory.broker.init_producer(name)
        records = [NewRecord(Feed(TOPIC, partition), self._value(partition, spoilt=False)) for _ in range(3)]
        self._memory.broker.write(name, epoch, records)

    def end(self, partition: int) -> None:
        """Commit that transaction, or abort it."""
        name = f"transaction {partition}"
        epoch = self._open.pop(name, None)
        if epoch is None:
            return
        if self._rng.random() < 0.7:
            self._memory.broker.commit(name, epoch)
        else:
            self._memory.broker.abort(name, epoch)

    def _next(self) -> None:
        self._scheduler.after(int(self._rng.expovariate(self._scenario.rate) * 1_000_000), self._write)

    def _write(self) -> None:
        if self._stopped:
            return
        partition = self._rng.randrange(self.partitions)
        spoilt = self._rng.random() < self._scenario.spoilt
        if self._memory.broker.exists(TOPIC):
            self._append(partition, spoilt)
        self._next()

    def _append(self, partition: int, spoilt: bool) -> None:
        self._memory.broker.append(NewRecord(Feed(TOPIC, partition), self._value(partition, spoilt)))

    def _value(self, partition: int, spoilt: bool) -> bytes:
        rng, number, now = self._rng, len(self.sent), self._scheduler.now_us
        lateness = self._scenario.spec.lateness_us
        stime = now - rng.choice((0, 0, lateness // 2, lateness))
        if self._scenario.spec.boundary == "data":  # then the rows before decide what is in time
            stime = max(stime, self._largest[partition] - lateness)
        if spoilt:
            kind = rng.randrange(3)
            if kind == 0:
                value = b"garbage %d" % number
                self.sent[value] = Sent(value, None, None, None)
                return value
            stime = now - LATE_US if kind == 1 else now + FUTURE_US
        else:
            self._largest[partition] = max(self._largest[partition], stime)
        shop = rng.choice(SHOPS)
        value = json.dumps({"n": number, "shop": shop, "at": stime, "more": "x"}).encode()
        self.sent[value] = Sent(value, number, shop, stime)
        return value
