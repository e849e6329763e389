"""`python -m tests.harness.producer`: a plain Kafka producer of made rows, at a fixed rate until SIGTERM.

Row n is record n of the topic's one partition, so a successor goes on where the topic ends. A record's timestamp is
when its row was given to the client; what is overdue goes at once. What the broker has acknowledged goes into a file,
as the feeder's does.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
import time

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from borealis_py.config.signals import set_by
from borealis_py.log.topics import RECORD_BYTES_MAX
from tests.harness.network import row_of
from tests.harness.pacing import FLUSH_ROWS, OUTAGE_S, due, note, options
from tests.harness.poison import Plan, line_of


def end_of(bootstrap: str, topic: str) -> int:
    """How many records its partition has had."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "drill"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), OUTAGE_S)[1])
    finally:
        consumer.close()


def produce(args: argparse.Namespace, stop: threading.Event) -> None:
    """Write row n when it is due. Raises AssertionError: a record was not taken, or not as the n-th."""
    poison = Plan(args.poison)
    n = end_of(args.bootstrap, args.topic)
    producer = Producer({
        "bootstrap.servers": args.bootstrap,
        "enable.idempotence": True,
        "linger.ms": 5,
        "message.timeout.ms": int(OUTAGE_S * 1000),
        "message.max.bytes": RECORD_BYTES_MAX,  # poison rows are larger than a client lets through by default
    })  # fmt: skip
    wrong: list[str] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        at = message.offset()
        if error is not None or at != int(message.key() or -1):
            wrong.append(f"row {message.key()!r} at {at}: {error}")

    with args.acks.open("a", encoding="utf-8") as file:
        while due(args, n, stop):
            what = poison.of(args.source, n)
            row = json.dumps(row_of(args.source, n)).encode() if what is None else line_of(what, args.source, n)
            at_ms = time.time_ns() // 1_000_000
            producer.produce(args.topic, row, str(n).encode(), 0, on_delivery=delivered, timestamp=at_ms)
            n += 1
            if n % FLUSH_ROWS == 0:
                assert not producer.flush(OUTAGE_S), "the broker is away for too long"
                assert not wrong, wrong[:3]
                note(file, args.source, n)
            producer.poll(0)
        assert not producer.flush(OUTAGE_S), "the broker is away for too long"
        note(file, args.source, n)
    assert not wrong, wrong[:3]


def main() -> None:
    """An error ends the process with a traceback."""
    parser = options(__doc__)
    parser.add_argument("--topic", required=True)
    parser.add_argument("--source", required=True, help="the app's name of what is made of its rows")
    stop = threading.Event()
    set_by([signal.SIGTERM], stop)
    produce(parser.parse_args(), stop)


if __name__ == "__main__":
    main()
