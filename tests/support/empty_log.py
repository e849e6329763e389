"""A log with nothing in it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import cast

import msgspec

from borealis_py.app import launch
from borealis_py.app.state import AppState, read_settings
from borealis_py.log import topics
from borealis_py.log.base import Log, TopicSpec
from borealis_py.log.description import APP_KEY
from borealis_py.protocol.settings import Timing
from borealis_py.query import App
from tests.support.list_log import NAME
from tests.support.writable_log import WritableLog


class EmptyLog(WritableLog):
    """One on which topics can be made."""

    def create(self, specs: Sequence[TopicSpec]) -> None:
        for spec in specs:
            self.lists.setdefault(spec.name, [])

    def up(self, timing: Timing) -> AppState:
        app = App(NAME, bucket="100ms")
        app.query("q", app.source("s", schema={"x": "int64"}), "3s")
        spec = app.describe()
        now_us = time.time_ns() // 1000
        return launch.describe(cast(Log, self), spec, launch.check(spec, timing), "now", now_us, timing)

    def read(self) -> AppState:
        state = read_settings(cast(Log, self), NAME)
        assert state is not None
        return state

    def without_timing(self) -> None:
        """As versions before wrote it."""
        old = msgspec.json.decode(self.lists[topics.settings(NAME)][-1].value or b"")
        del old["timing"]
        self.put(topics.settings(NAME), APP_KEY, msgspec.json.encode(old))

    def runs(self, age_s: float = 0.0, event: str = "") -> None:
        self.say(at_wall_us=time.time_ns() // 1000 - int(age_s * 1e6), event=event)
