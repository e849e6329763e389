"""How long a publisher takes to start on a long log: `python -m benchmarks.load.starting 3000000`.

A separate local broker, a source with this many idle boundaries (three and a half days at 100 ms are 3 000 000), and
publishers that take it one after the other: with or without first watching whether the previous one still writes (1.5
s).
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from borealis_py.client.publisher import Publisher, wall_us
from borealis_py.client.writer import SourceWriter
from borealis_py.kafka.broker import LocalBroker
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import NewRecord
from borealis_py.log.records import ClaimHeader, pack
from borealis_py.protocol.settings import Timing
from sunion.bucket import Buckets

APP, SOURCE, UID = "starting", "s", "u"
WIDTH_US = 100_000
PORT = 9393
FILL = {"linger.ms": "50"}
AT_ONCE = 20_000
RUNS = 3


def main() -> None:
    """Prints a line a start."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 3_000_000
    with tempfile.TemporaryDirectory() as directory:
        broker = LocalBroker(Path(directory) / "broker", PORT)
        broker.up()
        try:
            _run(KafkaLog.of(broker.bootstrap), count)
        finally:
            broker.down()


def _run(log: KafkaLog, count: int) -> None:
    buckets = Buckets(WIDTH_US)
    origin = buckets.of(wall_us()) - count - 1_000
    admin = log.admin()
    admin.create([spec for spec in topics.of_app(APP, [SOURCE], {}) if spec.name == topics.stream(APP, SOURCE)])
    admin.close()
    _fill(KafkaLog.of(log.bootstrap, FILL), origin, count)
    print(f"{count:,} boundaries")
    for _ in range(RUNS):
        for take_over in (False, True):
            began = time.monotonic()
            where = log, APP, UID, SOURCE, {"n": "int64"}, WIDTH_US, origin
            publisher = Publisher(*where, take_over=take_over, ahead_max_us=Timing().ahead_max_us).start()
            print(f"{'take over' if take_over else 'watch first'}: {time.monotonic() - began:.2f} s", flush=True)
            publisher.send({"n": 1})
            publisher.close()


def _fill(log: KafkaLog, origin: int, count: int) -> None:
    appender = log.appender(lambda: None)
    for n, record in enumerate(_boundaries(origin, count)):
        appender.append(record)
        if n % AT_ONCE == 0:
            appender.flush(60.0)
    appender.flush(60.0)
    appender.close()


def _boundaries(origin: int, count: int) -> Iterator[NewRecord]:
    """What an idle publisher has written, each as soon as it had read the one before."""
    feed, buckets = topics.source(APP, SOURCE), Buckets(WIDTH_US)
    yield NewRecord(feed, pack(ClaimHeader(UID, 1, "before")), timestamp_ms=buckets.timestamp_ms(origin))
    writer = SourceWriter(feed, UID, 1, "before", buckets, buckets.start(origin), -1)
    for n in range(1, count + 1):
        writer.read_to = n
        writer.advance(buckets.start(origin + n))
        yield from writer.drain()


if __name__ == "__main__":
    main()
