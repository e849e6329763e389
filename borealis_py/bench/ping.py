"""How long a record takes through two topics, with plain Kafka clients and nothing else.

    python -m borealis_py.bench.ping BOOTSTRAP FIRST SECOND UNTIL_US OUT

Ten times a second, when buckets end, a record goes into FIRST; a second client hands it on to SECOND, where a third one
reads it: as many hops as a row takes to a live subscriber. At the wall time UNTIL_US it ends; OUT is then a JSON list
of [sent, delay] in microseconds.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path

import msgspec
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from borealis_py.bench.events import BUCKET_US

WAIT_S = 0.1
STRAGGLERS_S = 2.0
PRODUCER = {"linger.ms": 0}
"""It sends at once, where the default waits 5 ms for more."""


def now_us() -> int:
    return time.time_ns() // 1000


class Ping:
    """Three clients, each in a thread of its own. Raises KafkaException: no broker, or no such topic."""

    def __init__(self, bootstrap: str, first: str, second: str, until_us: int) -> None:
        self.delays: list[tuple[int, int]] = []
        self._until_us = until_us
        self._over_us = until_us + round(STRAGGLERS_S * 1e6)
        self._first, self._second = first, second
        self._sender, self._hander = (Producer({"bootstrap.servers": bootstrap, **PRODUCER}) for _ in range(2))
        self._between, self._last = _reading(bootstrap, first), _reading(bootstrap, second)
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
        while (now := now_us()) < self._until_us:
            time.sleep((BUCKET_US - now % BUCKET_US) / 1e6)
            self._sender.produce(self._first, b"%d" % now_us())
            self._sender.poll(0)
        self._sender.flush(STRAGGLERS_S)

    def _hand_on(self) -> None:
        while now_us() < self._over_us:
            value = _taken(self._between)
            if value is not None:
                self._hander.produce(self._second, value)
            self._hander.poll(0)
        self._hander.flush(STRAGGLERS_S)


def _reading(bootstrap: str, topic: str) -> Consumer:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "ping", "enable.auto.commit": False})
    consumer.list_topics(topic, timeout=5)  # else the first assign waits a second
    consumer.assign([TopicPartition(topic, 0, 0)])
    return consumer


def _taken(consumer: Consumer) -> bytes | None:
    message = consumer.poll(WAIT_S)
    if message is None:
        return None
    if message.error() is not None:
        raise KafkaException(message.error())
    return message.value() or b"0"


def main() -> None:
    bootstrap, first, second, until_us, out = sys.argv[1:]
    ping = Ping(bootstrap, first, second, int(until_us))
    ping.run()
    Path(out).write_bytes(msgspec.json.encode(ping.delays))


if __name__ == "__main__":
    main()
