"""The log of an app whose replicas do not run: tests write what they would, and read what a command wrote."""

from __future__ import annotations

import time

from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.messages import Description, Status, encode
from borealis_py.protocol.settings import DelayPolicy
from borealis_py.query import App
from tests.support.instant_log import InstantLog
from tests.support.statuses import status

NAME = "a"
SECOND, DELAY = 1_000_000, DelayPolicy.DELAY


class AppLog(InstantLog):
    """As a command sees it; `say` and `describe` are others, whom no cut concerns."""

    def put_value(self, topic: str, key: str, value: bytes) -> None:
        self.put(NewRecord(Feed(topic), value, key.encode()))

    def values(self, topic: str) -> list[bytes]:
        return [r.value or b"" for r in self.committed(Feed(topic))]

    def describe(self, origin: int = 0) -> None:
        """An app of one query in two replicas, begun anew."""
        app = App(NAME, bucket="100ms")
        app.query("q", app.source("s", schema={"x": "int"}), "3s")
        spec = app.describe()
        self.create((topics.settings(NAME), topics.control(NAME), topics.status(NAME)))
        description = Description(spec.to_json(), spec.hash, origin, "", "a1")
        self.put_value(topics.settings(NAME), "app", encode(description))

    def say(self, **changes: object) -> Status:
        said = status(**changes)
        self.put_value(topics.status(NAME), f"{said.node}/{said.replica}", encode(said))
        return said

    def obey(self, threshold_us: int = 3 * SECOND, failure: str = "process") -> None:
        """Write a status of the only running replica."""
        wall_us = time.time_ns() // 1000
        self.say(at_wall_us=wall_us, threshold_us=threshold_us, failure_policy=failure)

    @property
    def told(self) -> list[str]:
        """Keys of settings in the order they were written."""
        return [(r.key or b"").decode() for r in self.committed(Feed(topics.settings(NAME)))]
