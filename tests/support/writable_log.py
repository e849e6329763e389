"""A log by hand to which settings can be written."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from borealis_py.log import topics
from borealis_py.log.base import NewRecord
from borealis_py.protocol.settings import DelayPolicy
from tests.support.list_log import NAME, ListLog

SECOND, DELAY = 1_000_000, DelayPolicy.DELAY


class WritableLog(ListLog):
    """What is appended is there at once. `told`: keys of settings in the order they were written."""

    def appender(self, wake: Callable[[], None]) -> Any:
        return self

    def append(self, record: NewRecord, token: object = None) -> None:
        self.put(record.feed.topic, (record.key or b"").decode(), record.value or b"")

    def deliveries(self) -> list[Any]:
        return []

    def flush(self, timeout_s: float) -> bool:
        return True

    @property
    def told(self) -> list[str]:
        return [(r.key or b"").decode() for r in self.lists[topics.settings(NAME)]]

    def obey(self, threshold_us: int = 3 * SECOND, failure: str = "process") -> None:
        """A status of the one replica that runs."""
        wall_us = time.time_ns() // 1000
        self.say(at_wall_us=wall_us, threshold_us=threshold_us, failure_policy=failure)
