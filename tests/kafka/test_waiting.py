"""What an appender keeps while no broker answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from borealis_py.kafka.appender import KafkaAppender
from borealis_py.log.base import Feed, NewRecord

ROOM = 5
"""Records for which the producer has room."""
CONTROL, OWN = Feed("a.control"), Feed("a.q.r0")


@pytest.fixture
def appender(monkeypatch: pytest.MonkeyPatch) -> Iterator[KafkaAppender]:
    """To a broker that is not there."""
    monkeypatch.setattr("borealis_py.kafka.appender._CLOSE_S", 0.0)
    made = KafkaAppender("127.0.0.1:1", {"queue.buffering.max.messages": str(ROOM)}, lambda: None)
    yield made
    made.close()


def test_of_what_only_the_last_one_counts_only_the_newest_waits(appender: KafkaAppender) -> None:
    """Heartbeats of hours: a broker that is away for long must not fill memory."""
    for n in range(1_000):
        for key in (b"q/0", b"q/1"):
            appender.append(NewRecord(CONTROL, b"%d" % n, key, conflatable=True))
    assert appender.waiting == 2


def test_every_other_record_waits(appender: KafkaAppender) -> None:
    for n in range(20):
        appender.append(NewRecord(OWN, b"row"), n)
        appender.append(NewRecord(OWN, b"keyed row", b"k"), n)
        appender.append(NewRecord(OWN, b"dead letter"))
        appender.append(NewRecord(CONTROL, b"heartbeat with digests", b"q/0"))
    assert appender.waiting == 80 - ROOM
