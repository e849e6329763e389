"""Fixtures of this folder."""

from __future__ import annotations

import pytest

from borealis_py.observe import follower
from tests.observe.states import board, now  # noqa: F401
from tests.support.app_log import AppLog


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> AppLog:
    monkeypatch.setattr(follower, "SETTINGS_S", 0.0)
    log = AppLog()
    log.describe()
    return log
