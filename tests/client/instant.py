"""The simulated log for threads: every call first lets all happen that is on its way. No time passes by itself."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from borealis_py.log.base import Wake
from tests.client.folded import World


class _Guarded:
    """Any part of a log, behind the world's lock."""

    def __init__(self, world: InstantWorld, inner: Any) -> None:
        self._world = world
        self._inner = inner

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._inner, name)

        def call(*args: Any) -> Any:
            with self._world.lock:
                result = method(*args)
                self._world.run(0.01)
                return result

        return call


class InstantLog:
    """Implements what a publisher needs of `log.base.Log`."""

    def __init__(self, world: InstantWorld, client: str) -> None:
        self._world = world
        self._client = world.memory.client(client)

    def reader(self, wake: Wake) -> Any:
        return _Guarded(self._world, self._client.reader(wake))

    def appender(self, wake: Wake) -> Any:
        return _Guarded(self._world, self._client.appender(wake))

    def lookup(self) -> Any:
        return _Guarded(self._world, self._client.lookup())


class InstantWorld(World):
    """A world whose publishers run in threads."""

    def __init__(self, **target: Any) -> None:
        super().__init__(**target)
        self.lock = threading.RLock()

    def log(self, client: str) -> Any:
        return InstantLog(self, client)
