"""Writes rows into a foreign topic, evenly, as any program would; and at the same moments the same rows into source s0
of an app, by our publisher.

    python -m benchmarks.ingress.writing BOOTSTRAP TOPIC ROWS APP RATE OUT

ROWS: "events", or "numbered" ({"n": 0, "feed": "t0"}). APP "-": into the topic alone. Once everything is open it
creates OUT, empty. It goes on until SIGTERM; then OUT holds the number of rows that the log acknowledged, as JSON, and
s0 has ended.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from confluent_kafka import KafkaError, Message, Producer

from borealis_py.api import publisher
from borealis_py.bench import events
from borealis_py.client.publisher import wall_us
from borealis_py.config.signals import set_by

PLAIN = {"linger.ms": 0, "enable.idempotence": True}
FLUSH_S = 30.0


class RowRefused(Exception):
    """The log did not take a row; the message says why."""


def write(send: Callable[[int, int], None], rate: int, stop: threading.Event, now: Callable[[], int] = wall_us) -> int:
    """Call `send` with (number, time) for each row, `rate` times a second, late ones at once. Returns their number."""
    started, n = now(), 0
    while not stop.is_set():
        left_us = started + n * 1_000_000 // rate - now()
        if left_us > 0:
            stop.wait(left_us / 1e6)
            continue
        send(n, now())
        n += 1
    return n


def main() -> None:
    """Raises RowRefused."""
    bootstrap, topic, rows, app, rate, out = sys.argv[1:]
    stop, refused = threading.Event(), list[str]()
    set_by([signal.SIGTERM], stop)
    producer = Producer({"bootstrap.servers": bootstrap, **PLAIN})
    producer.list_topics(topic, timeout=5)

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            refused.append(str(error))

    def plain(value: bytes) -> None:
        producer.produce(topic, value, on_delivery=delivered)
        producer.poll(0)
        if refused:
            raise RowRefused(f"{topic}: {refused[0]}")

    def numbered(n: int, _: int) -> None:
        plain(b'{"n":%d,"feed":"t0"}' % n)

    def event(n: int, at_us: int) -> None:
        if ours is not None:
            ours.send(events.row(n, at_us))
        plain(events.event_json(n, at_us))

    with ExitStack() as stack:
        ours = None if app == "-" else stack.enter_context(publisher("s0", app=app, bootstrap=bootstrap))
        Path(out).touch()
        sent = write(numbered if rows == "numbered" else event, int(rate), stop)
        if ours is not None:
            ours.close(end=True)
        if producer.flush(FLUSH_S) or refused:
            raise RowRefused(f"{topic}: {refused[0] if refused else 'no answer'}")
    Path(out).write_text(str(sent))


if __name__ == "__main__":
    main()
