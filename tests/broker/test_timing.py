"""The timing that an app was described with, in all who work on it, on a real broker."""

from __future__ import annotations

import time
from contextlib import closing
from pathlib import Path

import pytest

from borealis_py.app.errors import LaunchError
from borealis_py.app.state import AppState, read_app
from borealis_py.observe.live_view import open_live
from borealis_py.protocol.settings import Timing
from borealis_py.query import App
from tests.harness.launching import described
from tests.harness.running import RunningApp, running
from tests.harness.waiting import until

pytestmark = pytest.mark.broker
MINUTE_US = 60_000_000
SLOW = Timing(slack_us=1_500_000, ahead_max_us=5 * MINUTE_US)


def make() -> App:
    app = App("timed")
    app.query("q", app.source("s", schema={"v": "double"}), delay_threshold="3s", replicas=1)
    return app


def describe(it: RunningApp, timing: Timing) -> AppState:
    return described(it.log, make(), timing)


def test_replicas_subscribers_and_publishers_go_by_it_until_the_next_run(bootstrap: str, tmp_path: Path) -> None:
    with running(bootstrap, make(), tmp_path, SLOW) as it:
        it.start(0)
        it.wait_ready(0)
        (subscription,) = open_live(it.log, read_app(it.log, it.name), "q", True, lambda: None)
        with closing(subscription):
            assert subscription.stream.wait_us == 1_500_000
        stime = time.time_ns() // 1000 + 2 * MINUTE_US  # too far ahead by the defaults
        with it.publisher("s") as publisher:
            assert publisher.send({"v": 1.0}, stime=stime)
            publisher.close(end=True)
        until(lambda: len(it.corrected("q")) == 1, "the row, which the replica took too")
        assert it.dead_letters() == []

        quick = Timing(ahead_max_us=SLOW.ahead_max_us)
        with pytest.raises(LaunchError, match=r"runs \(q\.r0\) by another `timing:`.* slack 1500ms -> 250ms"):
            describe(it, quick)
        it.stop(0)
        until(lambda: "STOPPED" in it.events(0), "the replica said that it stopped")
        assert describe(it, quick).timing == read_app(it.log, it.name).timing == quick
        with pytest.raises(LaunchError, match="takes tuples up to 5m ahead"):
            describe(it, Timing())
