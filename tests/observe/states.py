"""An app of two nodes and its statuses, made by hand."""

from __future__ import annotations

import pytest

from borealis_py.app.state import AppState
from borealis_py.log.messages import Description
from borealis_py.observe.status_registry import StatusRegistry
from borealis_py.query import App
from tests.support.statuses import snapshot

Q0, CUT1 = ("q", 0), ("cut", 1)


def app_state() -> AppState:
    """s -> cut -> q, p."""
    app = App("a", bucket="100ms")
    cut = app.source("s", schema={"x": "int"}).filter("x > 0").node("cut")
    app.query("q", cut, "3s")
    app.query("p", cut.filter("x > 1"), "2s")
    return AppState("a", app.describe(), Description("", "", 0, "", "a1"))


class Now:
    """A clock that is set."""

    def __init__(self) -> None:
        self.s = 100.0

    def __call__(self) -> float:
        return self.s


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def board(now: Now) -> StatusRegistry:
    return StatusRegistry(app_state(), [Q0, CUT1], clock=now)


def both(board: StatusRegistry, **changes: object) -> None:
    for query, replica in (Q0, CUT1):
        board.tell(snapshot(node=query, replica=replica, **changes))
