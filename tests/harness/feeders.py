"""Feeders of an app: processes that write made rows at a fixed rate until SIGTERM, by a publisher or a plain producer.

    python -m tests.harness.feeders publish --app APP --sources a,b ...     some sources, by publishers; then END
    python -m tests.harness.feeders produce --topic T --source c.0 ...      a foreign topic of one partition

Rows are numbered from 0 and row n is always the same, so a successor goes on where its predecessor's log, or the topic,
ends. What the log has acknowledged goes into a file, one line a flush: that much must never be lost.
"""

from __future__ import annotations

import argparse
import json
import signal
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from borealis_py.api import publisher
from borealis_py.client.ingest import InputRow, read_jsonl
from borealis_py.client.publisher import Publisher
from borealis_py.config.signals import set_by
from borealis_py.log.topics import RECORD_BYTES_MAX
from tests.harness.network import row_of
from tests.harness.poison import PoisonPlan, line_of

MODULE = "tests.harness.feeders"
FLUSH_ROWS = 20
OUTAGE_S = 120.0
"""A broker may be away for so long."""
PERIOD_US = 50_000


@dataclass(frozen=True, slots=True)
class Feeding:
    """What the feeders of one app share.

    Attributes:
        period_us: between two rows of a source. start_us: when row 0 is due, wall microseconds.
        acks: the file of what was acknowledged. poison: which rows are replaced (`PoisonPlan`).
    """

    app: str
    start_us: int
    acks: Path
    poison: Path
    period_us: int = PERIOD_US

    def publish(self, bootstrap: str, sources: Sequence[str], take_over: bool = False) -> list[str]:
        """Arguments of a publisher of these sources."""
        also = ["--take-over"] if take_over else []
        return ["publish", *self._shared(bootstrap), "--app", self.app, "--sources", ",".join(sources), *also]

    def produce(self, bootstrap: str, topic: str, source: str) -> list[str]:
        """Arguments of a producer. `source`: the app's name of what is made of the topic's rows."""
        return ["produce", *self._shared(bootstrap), "--topic", topic, "--source", source]

    def _shared(self, bootstrap: str) -> list[str]:
        times = ["--period-us", str(self.period_us), "--start-us", str(self.start_us)]
        return ["--bootstrap", bootstrap, *times, "--acks", str(self.acks), "--poison", str(self.poison)]


def acknowledged(acks: Path) -> dict[str, int]:
    """By source, the last row that its feeder was told is in the log."""
    out: dict[str, int] = {}
    whole = acks.read_text().rpartition("\n")[0] if acks.exists() else ""  # they may be writing
    for line in map(json.loads, whole.splitlines()):
        out[line["source"]] = max(out.get(line["source"], -1), line["acknowledged"])
    return out


# The processes --------------------------------------------------------------------------------------------------------


def due(args: argparse.Namespace, n: int, stop: threading.Event) -> bool:
    """Wait until row n is due: at start + n * period, at once if that is past. False: it is over."""
    stop.wait(max(0.0, (args.start_us + n * args.period_us - time.time_ns() // 1000) / 1e6))
    return not stop.is_set()


def note(file: IO[str], source: str, n: int) -> None:
    """The log has acknowledged the rows before row n."""
    file.write(json.dumps({"source": source, "acknowledged": n - 1}) + "\n")
    file.flush()


def feed(publisher_: Publisher, source: str, args: argparse.Namespace, stop: threading.Event) -> None:
    """Publish row n when it is due."""
    poison = PoisonPlan(args.poison)
    with publisher_, args.acks.open("a", encoding="utf-8") as file:
        n = publisher_.last_seq + 1
        while due(args, n, stop):
            what = poison.of(source, n)
            if what is None:
                publisher_.send(row_of(source, n), seq=n)
            else:
                give(publisher_, line_of(what, source, n), n)
            n += 1
            if n % FLUSH_ROWS == 0:
                publisher_.flush(OUTAGE_S)
                note(file, source, n)
        publisher_.close(end=True)


def give(publisher_: Publisher, line: bytes, n: int) -> None:
    """A line of input as `borealis publish` takes it."""
    for one in read_jsonl([line]):
        if isinstance(one, InputRow):
            publisher_.send(one.values, seq=n)
        else:
            publisher_.reject(one.raw, one.reason, n)


def publish(args: argparse.Namespace, stop: threading.Event) -> None:
    """One thread a source; an error of any ends them all, and is raised."""

    def run(source: str) -> None:
        try:
            it = publisher(source, app=args.app, bootstrap=args.bootstrap, take_over=args.take_over)
            feed(it, source, args, stop)
        finally:
            stop.set()  # one that failed ends the others

    sources = args.sources.split(",")
    with ThreadPoolExecutor(len(sources)) as pool:
        list(pool.map(run, sources))


def end_of(bootstrap: str, topic: str) -> int:
    """How many records its partition has had."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "drill"})
    try:
        return int(consumer.get_watermark_offsets(TopicPartition(topic, 0), OUTAGE_S)[1])
    finally:
        consumer.close()


def produce(args: argparse.Namespace, stop: threading.Event) -> None:
    """Write row n when it is due, with the time at which the client got it; what is overdue goes at once.

    Raises:
        AssertionError: a record was not taken, or not as the n-th.
    """
    poison = PoisonPlan(args.poison)
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
    parser = argparse.ArgumentParser(description=__doc__)
    ways = parser.add_subparsers(required=True)
    publishes, produces = ways.add_parser("publish"), ways.add_parser("produce")
    publishes.set_defaults(run=publish)
    publishes.add_argument("--app", required=True)
    publishes.add_argument("--sources", required=True, help="comma separated")
    publishes.add_argument("--take-over", action="store_true")
    produces.set_defaults(run=produce)
    produces.add_argument("--topic", required=True)
    produces.add_argument("--source", required=True, help="the app's name of what is made of its rows")
    for way in (publishes, produces):
        way.add_argument("--bootstrap", required=True)
        way.add_argument("--period-us", type=int, required=True)
        way.add_argument("--start-us", type=int, required=True)
        way.add_argument("--acks", type=Path, required=True)
        way.add_argument("--poison", type=Path, required=True, help="which tuples to replace by what nobody can use")
    args, stop = parser.parse_args(), threading.Event()
    set_by([signal.SIGTERM], stop)
    args.run(args, stop)


if __name__ == "__main__":
    main()
