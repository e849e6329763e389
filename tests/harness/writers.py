"""A plain program that writes JSON into a topic, a row for each tick of the wall clock, until SIGTERM; its process, and
what lies in its topic, read by a client that the product does not use.

    python -m tests.harness.writers BOOTSTRAP TOPIC PARTITIONS KIND

KIND is `orders`, or `payments`: of two of three orders, `LATER_MS` after them. Row `id` lies in partition `id` modulo
their number. Each row that the broker has acknowledged is printed as its id. A partition that cannot be written does
not hold up the others, and no row of it is given up: rows keep the times at which they were made.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from itertools import count
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

from tests.harness.processes import ROOT
from tests.harness.waiting import PATIENCE_S


class Writer:
    """A process of this program. `acknowledged`: the ids that the broker has, as far as it was told."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, kind: str) -> None:
        self.acknowledged: list[int] = []
        what = [bootstrap, topic, str(partitions), kind]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.writers", *what],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # one that was killed may have printed half of it
                self.acknowledged.append(int(line))

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._ended()

    def close(self) -> None:
        """Write what there is, and no more. Raises AssertionError: the broker did not take it."""
        self._process.send_signal(signal.SIGTERM)
        code = self._ended()
        assert code == 0, f"the writer ended with {code}"

    def _ended(self) -> int:
        code = self._process.wait(PATIENCE_S)
        self._thread.join()
        return code


def lying_in(bootstrap: str, topic: str, partitions: int) -> list[dict[str, Any]]:
    """All rows of a topic, partition by partition."""
    from kafka import KafkaConsumer, TopicPartition  # warns, and a conftest is loaded before pytest knows of that

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, consumer_timeout_ms=int(1000 * PATIENCE_S)
    )
    try:
        all_of = [TopicPartition(topic, p) for p in range(partitions)]
        ends = {tp: end for tp, end in consumer.end_offsets(all_of).items() if end > 0}
        consumer.assign(list(ends))
        consumer.seek_to_beginning()
        rows = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            rows += [json.loads(r.value) for records in consumer.poll(1_000).values() for r in records]
        return rows
    finally:
        consumer.close()


TICK_MS, LATER_MS = 50, 200


def order(n: int) -> dict[str, Any]:
    return {"id": n, "euros": n % 97, "at": n * TICK_MS}


def payment(n: int) -> dict[str, Any] | None:
    return None if n % 3 == 0 else {"id": n, "amount": n % 89, "paid_at": n * TICK_MS + LATER_MS}


def main() -> None:
    bootstrap, topic, partitions, kind = sys.argv[1:]
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0, "enable.idempotence": True})

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        print(int(message.key() or b""), flush=True)

    make, later_ms = (order, 0) if kind == "orders" else (payment, LATER_MS)
    now = (time.time_ns() // 1_000_000 - later_ms) // TICK_MS + 1
    for n in count(now):
        while not over.is_set() and (wait_ms := n * TICK_MS + later_ms - time.time_ns() // 1_000_000) > 0:
            producer.poll(wait_ms / 1_000)
        if over.is_set():
            break
        if (row := make(n)) is not None:
            producer.produce(topic, json.dumps(row), str(n), n % int(partitions), on_delivery=delivered)
    left = producer.flush(60)
    assert not left, f"{left} rows were not taken"


if __name__ == "__main__":
    main()
