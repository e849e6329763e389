"""Thresholds and policies changed while replicas run, on a real broker."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import msgspec
import pytest

from borealis_py.app.settings import Changed, SettingChange, change
from borealis_py.app.state import put_settings, read_app
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.messages import Status, Threshold, encode
from borealis_py.observe.live_view import open_live
from borealis_py.protocol.settings import DelayPolicy, Delays, SettingsError
from borealis_py.query import App
from borealis_py.query.errors import QueryError
from tests.harness.running import RunningApp, running
from tests.harness.waiting import until

pytestmark = pytest.mark.broker
PROCESS, DELAY, SUSPEND = DelayPolicy.PROCESS, DelayPolicy.DELAY, DelayPolicy.SUSPEND
WAIT_S = 30.0


def make(name: str) -> App:
    app = App(name)
    left, right = (app.source(s, schema={"v": "double"}) for s in ("left", "right"))
    app.query("q", app.union(left, right).filter("v > 0"), delay_threshold="3s", replicas=2)
    return app


def ask(it: RunningApp, wait_s: float = WAIT_S, **asked: object) -> Changed:
    state = read_app(it.log, it.name)
    return change(it.log, state, "q", SettingChange(**asked), wait_s)  # type: ignore[arg-type]


def obeyed(found: Changed) -> dict[int, bool]:
    return {r.replica: r.running and not r.pending for r in found.replicas}


def test_a_change_is_in_force_where_replicas_run_and_where_they_start_later(bootstrap: str, tmp_path: Path) -> None:
    with running(bootstrap, make("set-change"), tmp_path) as it:
        found = ask(it, threshold_us=900_000)
        assert found.written
        assert obeyed(found) == {0: False, 1: False}  # none runs
        assert found.pending == ()
        it.start(0)
        it.start(1)
        it.wait_ready(0, 1)
        found = ask(it, threshold_us=500_000, failure=SUSPEND)
        assert found.before == Delays(900_000, PROCESS, PROCESS)
        assert found.after == Delays(500_000, SUSPEND, PROCESS)
        assert obeyed(found) == {0: True, 1: True}
        for k in (0, 1):
            said = it.newest(k)
            assert said is not None
            assert (said.threshold_us, said.failure_policy, said.stabilization_policy) == (
                500_000,
                "suspend",
                "process",
            )
        # again: nothing is written, and it still says where it is in force
        end = it.lookup.bounds(Feed(f"{it.name}.settings"))[1]
        again = ask(it, threshold_us=500_000, failure=SUSPEND)
        assert not again.written
        assert obeyed(again) == {0: True, 1: True}
        assert it.lookup.bounds(Feed(f"{it.name}.settings"))[1] == end
        # one that restarts comes back with it; one that is stopped is not waited for
        it.stop(1)
        found = ask(it, stabilization=DELAY)
        assert obeyed(found) == {0: True, 1: False}
        it.start(1)
        until(lambda: obeyed(ask(it, stabilization=DELAY)) == {0: True, 1: True}, "replica 1 obeys what it found")


def test_it_is_refused_where_it_cannot_hold_and_nothing_is_written(bootstrap: str, tmp_path: Path) -> None:
    with running(bootstrap, make("set-refuse"), tmp_path) as it:
        with pytest.raises(SettingsError, match="at least 375 ms"):
            ask(it, threshold_us=374_000)
        with pytest.raises(QueryError, match="has no query"):
            change(it.log, it.state, "p", SettingChange(), 1.0)
        assert read_app(it.log, it.name).threshold_us("q") == 3_000_000


def test_one_that_runs_and_does_not_obey_is_named_in_time(bootstrap: str, tmp_path: Path) -> None:
    """As if replica 1 could not read settings: it goes on saying what it said."""
    with running(bootstrap, make("set-deaf"), tmp_path) as it:
        it.start(0)
        it.wait_ready(0)
        said = it.newest(0)
        assert said is not None
        seen: list[Changed] = []
        stop = threading.Event()
        deaf = threading.Thread(target=goes_on_saying, args=(it, said, stop), daemon=True)
        deaf.start()
        try:
            until(lambda: it.newest(1) is not None, "the deaf replica is there")
            state = read_app(it.log, it.name)
            found = change(it.log, state, "q", SettingChange(threshold_us=700_000), 15.0, seen.append)
        finally:
            stop.set()
            deaf.join()
        assert obeyed(found) == {0: True, 1: False}
        assert [(r.node, r.replica) for r in found.pending] == [("q", 1)]
        assert seen[-1] == found


def goes_on_saying(it: RunningApp, said: Status, stop: threading.Event) -> None:
    appender = it.log.appender(lambda: None)
    while not stop.wait(0.2):
        one = msgspec.structs.replace(said, replica=1, at_wall_us=time.time_ns() // 1000)
        appender.append(NewRecord(Feed(f"{it.name}.status"), encode(one), b"q/1"))
    appender.close()


def test_policy_and_threshold_take_effect_on_what_has_not_run_yet(bootstrap: str, tmp_path: Path) -> None:
    """`right` is silent for good. Under suspend nothing comes; with another policy what was held back comes."""
    with running(bootstrap, make("set-effect"), tmp_path) as it:
        it.start(0)
        it.wait_ready(0)
        ask(it, failure=SUSPEND, threshold_us=500_000)
        with it.publisher("left") as left:
            left.send({"v": 1.0})
            beyond = time.monotonic() + 3.0  # far beyond the threshold
            until(lambda: time.monotonic() > beyond, "several thresholds to pass")
            before = it.newest(0)
            assert before is not None
            assert (before.state, before.tentative_buckets) == ("STABLE", 0)
            found = ask(it, failure=PROCESS)
            assert obeyed(found)[0]
            until(lambda: (it.newest(0) or before).tentative_rows > 0, "the row as a tentative result")


def test_a_live_subscriber_follows(bootstrap: str, tmp_path: Path) -> None:
    with running(bootstrap, make("set-live"), tmp_path) as it:
        (subscription,) = open_live(it.log, it.state, "q", False, lambda: None)
        try:
            assert subscription.stream.wait_us == 3_000_000 - it.state.timing.slack_us
            put_settings(it.log, it.name, {"threshold/q": Threshold(600_000)})
            until(lambda: subscription.poll() == [] and subscription.stream.wait_us == 350_000, "the new threshold")
        finally:
            subscription.close()
