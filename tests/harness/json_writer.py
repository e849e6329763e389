"""A plain program that writes JSON into a topic, a row for each tick of the wall clock, until SIGTERM. For tests.

python tests/harness/json_writer.py BOOTSTRAP TOPIC PARTITIONS KIND

KIND is `orders`, or `payments`: of two of three orders, `LATER_MS` after them. Row `id` lies in partition `id` modulo
their number. Each row that the broker has acknowledged is printed as its id. A partition that cannot be written does
not hold up the others, and no row of it is given up: rows keep the times at which they were made.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from itertools import count
from typing import Any

from confluent_kafka import KafkaError, Message, Producer

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
