"""Whoever subscribes, publishes or follows statuses may be refused at any call: no client stays open then."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from borealis_py import api
from borealis_py.app.state import AppState, StatusReader
from borealis_py.app.topics import create_topics, topics_of
from borealis_py.client.sourcelog import SourceLog
from borealis_py.client.target import Target
from borealis_py.log.base import TopicSpec
from borealis_py.log.messages import Description
from borealis_py.query import App
from reconcile import replay_context
from tests.support.instant_log import InstantBroker, InstantLog
from tests.support.refusing_log import Closable, RefusingLog, open_after_refusals

STOPPED = threading.Event()
STOPPED.set()
Begin = Callable[[RefusingLog, AppState], Closable | None]


def described() -> AppState:
    """A query of two partitions."""
    app = App("a", bucket="100ms")
    stream = app.source("s", schema={"x": "int64"})
    app.query("q", stream, "3s", partitions=2, by="x")
    spec = app.describe()
    return AppState("a", spec, Description(spec.to_json(), spec.hash, 17_000_000, "", "a1"))


STATE = described()


@pytest.fixture
def log() -> RefusingLog:
    broker = InstantBroker()
    writer = InstantLog(broker)
    writer.admin().create(topics_of(STATE.spec))
    return RefusingLog(broker)


def corrected(log: RefusingLog, state: AppState) -> None:
    list(api.corrected(log, state, "q", True, STOPPED))


def live(log: RefusingLog, state: AppState) -> None:
    list(api.live(log, state, "q", True, STOPPED))


def raw(log: RefusingLog, state: AppState) -> None:
    list(api.raw(log, state, "q.0", 0, STOPPED))


def publishing(log: RefusingLog, state: AppState) -> SourceLog:
    target = Target("a", "a1", "s", state.spec.bucket_us, state.origin, ahead_max_us=60_000_000)
    return SourceLog(log, target, "u", lambda: None, False, 0)


def following(log: RefusingLog, state: AppState) -> StatusReader:
    return StatusReader(log, state.name, 0)


def creating(log: RefusingLog, state: AppState) -> None:
    create_topics(log, [TopicSpec("new")])


@pytest.mark.parametrize("begin", [corrected, live, raw, publishing, following, creating])
def test_whatever_call_is_refused_no_client_is_left(log: RefusingLog, begin: Begin) -> None:
    left = open_after_refusals(log, lambda: begin(log, STATE))
    assert len(left) > 3
    assert not any(left)


def test_where_the_query_does_not_compile_no_subscription_is_left(
    log: RefusingLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(replay_context, "make_kernel", fails)
    for _ in range(3):
        with pytest.raises(RuntimeError, match="out of memory"):
            live(log, STATE)
        assert log.unclosed == 0
