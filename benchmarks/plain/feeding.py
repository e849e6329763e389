"""Writes events into plain topics, one JSON record each, evenly over the topics and in time, as services do.

    python -m benchmarks.plain.feeding BOOTSTRAP RATE OUT TOPIC...

RATE: events a second, all topics together. It creates OUT, empty, when it begins, and goes on until SIGTERM; then OUT
holds the number of events that the log acknowledged. Exit code 1: it refused some.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from borealis_py.bench import events
from borealis_py.client.publisher import wall_us
from borealis_py.config.signals import set_by

STEP_S = 0.005
FLUSH_S = 30.0


def main() -> int:
    """Returns the exit code."""
    bootstrap, rate, out, *topics = sys.argv[1:]
    stop, refused = threading.Event(), list[str]()
    set_by([signal.SIGTERM], stop)
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    for topic in topics:
        producer.list_topics(topic, timeout=5)

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    Path(out).touch()
    began, sent = time.monotonic(), 0
    while not stop.wait(STEP_S):
        due = int((time.monotonic() - began) * int(rate))
        for n in range(sent, due):
            producer.produce(topics[n % len(topics)], events.event_json(n, wall_us()), on_delivery=delivered)
        sent = due
        producer.poll(0)
    if producer.flush(FLUSH_S) or refused:
        print(f"{len(refused)} of {sent} events were refused: {refused[:1]}", file=sys.stderr)
        return 1
    Path(out).write_text(str(sent))
    return 0


if __name__ == "__main__":
    sys.exit(main())
