"""Measures how long a record takes through two topics, with plain Kafka clients and nothing else.

    python -m benchmarks.load.ping BOOTSTRAP EVERY_US UNTIL_US OUT LAST FIRST...

At all multiples of EVERY_US of the wall clock a record goes into each FIRST, after a stall those that are due at once;
a second client forwards the records to LAST as they come, where a third one reads them: as many hops as a row takes to
a live subscriber, and with several FIRST a union that waits for nothing. It ends at the wall time UNTIL_US; OUT then
holds a JSON list of [sent, delay] in microseconds; `sent` is when it was really sent.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

WAIT_S = 0.1
STRAGGLERS_S = 2.0
PRODUCER = {"linger.ms": 0, "max.in.flight": 5}
"""It sends at once, where the default waits 5 ms for more; where the broker has much to do, more go together."""


def now_us() -> int:
    return time.time_ns() // 1000


class Ping:
    """Three clients, each in a thread of its own. Raises KafkaException: no broker, or no such topic."""

    def __init__(self, bootstrap: str, firsts: Sequence[str], last: str, every_us: int, until_us: int) -> None:
        self.delays: list[tuple[int, int]] = []
        self._every_us = every_us
        self._until_us = until_us
        self._over_us = until_us + round(STRAGGLERS_S * 1e6)
        self._firsts = firsts
        self._last_topic = last
        self._sender, self._hander = (Producer({"bootstrap.servers": bootstrap, **PRODUCER}) for _ in range(2))
        self._between = _reading(bootstrap, *firsts)
        self._last = _reading(bootstrap, last)
        self._threads = [threading.Thread(target=each) for each in (self._send, self._hand_on)]

    def run(self) -> None:
        """Until it is over."""
        for thread in self._threads:
            thread.start()
        while now_us() < self._over_us:
            value = _taken(self._last)
            if value is not None:
                sent = int(value)
                self.delays.append((sent, now_us() - sent))
        for thread in self._threads:
            thread.join()
        for consumer in (self._between, self._last):
            consumer.close()

    def _send(self) -> None:
        due = (now_us() // self._every_us + 1) * self._every_us
        while due < self._until_us:
            while (left_us := due - now_us()) > 0:
                time.sleep(left_us / 1e6)
            for first in self._firsts:
                self._sender.produce(first, b"%d" % now_us())
            self._sender.poll(0)
            due += self._every_us
        self._sender.flush(STRAGGLERS_S)

    def _hand_on(self) -> None:
        while now_us() < self._over_us:
            value = _taken(self._between)
            if value is not None:
                self._hander.produce(self._last_topic, value)
            self._hander.poll(0)
        self._hander.flush(STRAGGLERS_S)


def _reading(bootstrap: str, *topics: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ping", "enable.auto.commit": False})
    for topic in topics:
        consumer.list_topics(topic, timeout=5)  # else the first assign waits a second
    consumer.assign([TopicPartition(topic, 0, 0) for topic in topics])
    return consumer


def _taken(consumer: Consumer) -> bytes | None:
    message = consumer.poll(WAIT_S)
    if message is None:
        return None
    if message.error() is not None:
        raise KafkaException(message.error())
    return message.value() or b"0"


def main() -> None:
    bootstrap, every_us, until_us, out, last, *firsts = sys.argv[1:]
    ping = Ping(bootstrap, firsts, last, int(every_us), int(until_us))
    ping.run()
    Path(out).write_bytes(msgspec.json.encode(ping.delays))


if __name__ == "__main__":
    main()
