"""What a standby says while its replica starts (R17.10)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from borealis_py.node import standby
from borealis_py.node.standby import CALM, Standing
from borealis_py.protocol.settings import Timing


def test_from_the_take_over_on_its_heart_beats_as_a_replica_s(monkeypatch: pytest.MonkeyPatch) -> None:
    began: list[str] = []
    stop = threading.Event()
    beats: list[tuple[int, bool]] = []

    @contextmanager
    def repeating(do: Callable[[], None], every_us: int, name: str) -> Iterator[None]:
        beats.append((every_us, True))
        yield
        beats.append((every_us, False))

    nothing: Any = SimpleNamespace(close=lambda *why: None, pulse=lambda: None, begins=lambda: began.append("begins"))
    monkeypatch.setattr(standby, "repeating", repeating)
    monkeypatch.setattr(standby, "Standby", lambda *args: nothing)
    spec: Any = SimpleNamespace(timing=Timing(), log=SimpleNamespace(appender=lambda wake: nothing))
    it = Standing(spec, nothing, "uid", lambda: None, lambda status: None)
    slow, quick = CALM * Timing().heartbeat_us, Timing().heartbeat_us
    it.begins(stop)
    it.leave()
    it.close()
    assert beats == [(slow, True), (slow, False), (quick, True), (quick, False)]
    assert began == ["begins"]
