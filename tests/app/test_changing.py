"""Changing a query's settings while somebody else does: twice the same, against each other, beside each other; an app
or a query that goes meanwhile. On the simulated log.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import typer

from borealis_py.app import settings
from borealis_py.app.settings import Changed, SettingChange, change
from borealis_py.app.state import NoSuchApp, read_settings
from borealis_py.cli.shared import changing
from borealis_py.log import topics
from borealis_py.log.messages import Description, Policy, Threshold, encode
from borealis_py.protocol.settings import Delays
from borealis_py.query import App, QueryError
from tests.support.app_log import DELAY, NAME, SECOND, AppLog


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> AppLog:
    monkeypatch.setattr(settings, "REREAD_S", 0.0)
    monkeypatch.setattr(settings, "LOOK_S", 0.0)
    log = AppLog()
    log.describe()
    log.obey()
    return log


def changed(log: AppLog, asked: SettingChange, then: Callable[[Changed], None], query: str = "q") -> Changed:
    """`then` is called at every look."""
    state = read_settings(log, NAME)
    assert state is not None
    return change(log, state, query, asked, 20.0, then)


def once(act: Callable[[], None]) -> Callable[[Changed], None]:
    acts = iter([act])

    def then(found: Changed) -> None:
        next(acts, lambda: None)()

    return then


def test_a_change_sent_twice_is_written_once(log: AppLog) -> None:
    first = changed(log, SettingChange(2 * SECOND), once(lambda: log.obey(2 * SECOND)))
    assert (first.written, first.pending, first.overtaken) == (True, (), None)
    log.obey(2 * SECOND)
    again = changed(log, SettingChange(2 * SECOND), once(lambda: None))
    assert (again.written, again.before, again.pending) == (False, again.after, ())
    assert log.told == ["app", "threshold/q"]


def test_the_same_change_from_two_sides_at_once_is_in_force_for_both(log: AppLog) -> None:
    def same() -> None:
        log.put_value(topics.settings(NAME), "threshold/q", encode(Threshold(2 * SECOND)))
        log.obey(2 * SECOND)

    found = changed(log, SettingChange(2 * SECOND), once(same))
    assert (found.written, found.pending, found.overtaken) == (True, (), None)


def test_who_is_contradicted_meanwhile_is_told_what_the_query_has(
    log: AppLog, capsys: pytest.CaptureFixture[str]
) -> None:
    def contradict() -> None:
        log.put_value(topics.settings(NAME), "threshold/q", encode(Threshold(5 * SECOND)))
        log.obey(5 * SECOND)

    found = changed(log, SettingChange(2 * SECOND), once(contradict))
    assert found.overtaken == Delays(5 * SECOND)
    assert [r.since_wall_us for r in found.pending] == [None]
    with pytest.raises(typer.Exit) as ended:
        changing._tell(found, "10s", json=True)
    assert ended.value.exit_code == 1
    assert "changed meanwhile by someone else: q now has threshold 5s, failure process" in capsys.readouterr().err
    assert changing.as_json(NAME, found)["overtaken"]["threshold_us"] == 5 * SECOND


def test_a_change_of_something_else_meanwhile_is_waited_for_too(log: AppLog) -> None:
    looks = 0

    def then(found: Changed) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            log.put_value(topics.settings(NAME), "policy/q", encode(Policy("delay", "process")))
        if looks == 3:
            log.obey(2 * SECOND, "delay")

    found = changed(log, SettingChange(2 * SECOND), then)
    assert (found.after, found.overtaken, found.pending) == (Delays(2 * SECOND, DELAY), None, ())
    assert looks > 3


def test_an_app_that_goes_meanwhile_is_named(log: AppLog) -> None:
    def go() -> None:
        log.create([topics.settings(NAME)])

    with pytest.raises(NoSuchApp, match="app 'a' is gone from the broker"):
        changed(log, SettingChange(2 * SECOND), once(go))


def test_a_query_that_goes_meanwhile_is_named(log: AppLog) -> None:
    def without() -> None:
        app = App(NAME, bucket="100ms")
        app.query("other", app.source("s", schema={"x": "int"}), "3s")
        spec = app.describe()
        log.put_value(topics.settings(NAME), "app", encode(Description(spec.to_json(), spec.hash, 0, "", "a1")))

    with pytest.raises((NoSuchApp, QueryError), match="has no query 'q' any more; queries: other"):
        changed(log, SettingChange(2 * SECOND), once(without))


def test_a_stopped_app_takes_a_change_and_nobody_is_waited_for(log: AppLog) -> None:
    log.say(at_wall_us=time.time_ns() // 1000, event="STOPPED")
    found = changed(log, SettingChange(failure=DELAY), once(lambda: None))
    assert found.written
    assert [(r.replica, r.running) for r in found.replicas] == [(0, False), (1, False)]
    again = changed(log, SettingChange(failure=DELAY), once(lambda: None))
    assert not again.written
    assert log.told == ["app", "policy/q"]
