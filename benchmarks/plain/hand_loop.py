"""The loop that one writes by hand for the same results: read plain topics, count and sum per second and customer,
write a window's results 200 ms after its end. Nothing survives a crash, and a silent topic is not noticed. It uses
nothing of borealis.

    python -m benchmarks.plain.hand_loop BOOTSTRAP LATENESS_MS RESULTS OUT TOPIC...

It creates OUT when it reads, and goes on until SIGTERM.
"""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import orjson
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

SECOND_US = 1_000_000
BATCH = 1_000
WAIT_S = 0.02


class OpenWindows:
    """Windows of one second that are open: second -> customer -> count and sum."""

    def __init__(self, producer: Producer, results: str, lateness_us: int) -> None:
        self._producer = producer
        self._results = results
        self._lateness_us = lateness_us
        self._open: dict[int, dict[str, list[float]]] = {}
        self._closed = 0

    def add(self, value: bytes) -> None:
        event = orjson.loads(value)
        second = event["at"] // SECOND_US
        if second < self._closed:
            return  # too late
        totals = self._open.setdefault(second, {})
        total = totals.get(event["customer"])
        if total is None:
            totals[event["customer"]] = [1, event["amount"]]
        else:
            total[0] += 1
            total[1] += event["amount"]

    def close_until(self, now_us: int) -> None:
        """Write the results of windows whose end lies the lateness back."""
        self._closed = max(self._closed, (now_us - self._lateness_us) // SECOND_US)
        for second in sorted(second for second in self._open if second < self._closed):
            for customer, (count, amount) in self._open.pop(second).items():
                result = {"window_start": second * SECOND_US, "customer": customer, "n": count, "total": amount}
                self._producer.produce(self._results, orjson.dumps(result))
        self._producer.poll(0)

    def due_s(self, now_us: int) -> float:
        """Seconds until the next window is to be closed."""
        return (SECOND_US - (now_us - self._lateness_us) % SECOND_US) / SECOND_US


def main() -> None:
    bootstrap, lateness_ms, results, out, *topics = sys.argv[1:]
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda *_: ended.append(1))
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "hand-loop", "enable.auto.commit": False})
    ends = []
    for topic in topics:
        consumer.list_topics(topic, timeout=5)  # else the first assign waits a second
        ends.append(TopicPartition(topic, 0, consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=5)[1]))
    consumer.assign(ends)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 0})
    loop = OpenWindows(producer, results, int(lateness_ms) * 1_000)
    Path(out).touch()
    while not ended:
        for message in consumer.consume(BATCH, min(WAIT_S, loop.due_s(time.time_ns() // 1_000))):
            if message.error() is not None:
                raise KafkaException(message.error())
            loop.add(message.value() or b"")
        loop.close_until(time.time_ns() // 1_000)
    producer.flush(10)
    consumer.close()


if __name__ == "__main__":
    main()
