"""A log of settings and statuses, made by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, LogUnreachable, Record
from borealis_py.log.messages import Description, Status, encode
from borealis_py.observe import follower
from borealis_py.query import App
from tests.support.statuses import status

NAME = "a"


class ListLog:
    """Topics as lists; `down`: nobody answers."""

    def __init__(self) -> None:
        self.lists: dict[str, list[Record]] = {}
        self.first: dict[str, int] = {}
        self.down = False
        self.open = 0

    def put(self, topic: str, key: str, value: bytes) -> None:
        records = self.lists.setdefault(topic, [])
        feed, offset = Feed(topic), self.first.get(topic, 0) + len(records)
        records.append(Record(feed, offset, time.time_ns() // 1_000_000, key.encode(), value, ()))

    def describe(self, origin: int = 0) -> None:
        """An app of one query in two replicas."""
        app = App(NAME, bucket="100ms")
        app.query("q", app.source("s", schema={"x": "int"}), "3s")
        spec = app.describe()
        for topic in (topics.settings(NAME), topics.control(NAME), topics.status(NAME)):
            self.lists[topic] = []
        self.put(topics.settings(NAME), "app", encode(Description(spec.to_json(), spec.hash, origin, "", "a1")))

    def say(self, **changes: object) -> Status:
        said = status(**changes)
        self.put(topics.status(NAME), f"{said.node}/{said.replica}", encode(said))
        return said

    def admin(self) -> Any:
        return self

    def topics(self) -> list[str]:
        return list(self.lists)

    def lookup(self) -> Any:
        self.open += 1
        return _Lookup(self)

    def close(self) -> None: ...


class _Lookup:
    def __init__(self, log: ListLog) -> None:
        self.log = log

    def bounds(self, feed: Feed) -> tuple[int, int]:
        if self.log.down:
            raise LogUnreachable("no Kafka broker answers")
        if feed.topic not in self.log.lists:
            raise LogError(f"no topic {feed.topic}")
        first = self.log.first.get(feed.topic, 0)
        return first, first + len(self.log.lists[feed.topic])

    def find(self, feed: Feed, timestamp_ms: int) -> int:
        first, end = self.bounds(feed)
        records = self.log.lists[feed.topic]
        return next((first + i for i, r in enumerate(records) if r.timestamp_ms >= timestamp_ms), end)

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        start = self.bounds(feed)[0]
        yield from self.log.lists[feed.topic][first - start : end - start]

    def close(self) -> None:
        self.log.open -= 1


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> ListLog:
    monkeypatch.setattr(follower, "SETTINGS_S", 0.0)
    log = ListLog()
    log.describe()
    return log
