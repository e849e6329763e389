"""What the tests of the log on Kafka share."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, TopicSpec
from tests.harness.waiting import PATIENCE_S
from tests.kafka.waiter import Waiter
from tests.support.answers import wait_for_answers, wait_led

_numbers = itertools.count(1)


@pytest.fixture(autouse=True)
def answers(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is a broker, it answers, be it late."""
    if "bootstrap" in request.fixturenames:
        wait_for_answers(monkeypatch)


@pytest.fixture
def waiter() -> Waiter:
    return Waiter()


@pytest.fixture
def log(bootstrap: str) -> KafkaLog:
    return KafkaLog(bootstrap)


@pytest.fixture
def new_feed(log: KafkaLog) -> Callable[..., Feed]:
    """Makes a topic that no test has used, and gives its first partition."""

    def make(*config: tuple[str, str]) -> Feed:
        name = f"kafka.t{next(_numbers)}"
        log.admin().create([TopicSpec(name, config=topics.EVENT_TIME + config)])
        wait_led(log.bootstrap, Feed(name))
        return Feed(name)

    return make


@pytest.fixture
def fill(log: KafkaLog) -> Callable[[Feed, list[bytes]], None]:
    """Appends values, stamped 1000, 1001, ..."""

    def run(feed: Feed, values: list[bytes]) -> None:
        appender = log.appender(lambda: None)
        for i, value in enumerate(values):
            appender.append(NewRecord(feed, value, timestamp_ms=1000 + i))
        assert appender.flush(PATIENCE_S)
        appender.close()

    return run
