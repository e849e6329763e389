"""Which delay a live subscription follows: what the replicas obey, by the same timing: the description's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from borealis_py import api
from borealis_py.app.state import AppState
from borealis_py.client.session import Boundaries
from borealis_py.client.subscriber import LiveSubscription
from borealis_py.engine import OperatorClass
from borealis_py.engine.operators.base import WindowOperator
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, TopicSpec
from borealis_py.log.messages import Description, Threshold, encode
from borealis_py.observe.live_view import forgets, open_live
from borealis_py.protocol.settings import SettingsError, Timing
from borealis_py.query import App
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryLog

SLACK_US = Timing().slack_us
HURRIED = Timing(delta_us=110_000, slack_us=60_000, skew_us=50_000)


class DescribedQuery:
    """An app of one query, described and not running. `thresholds`: settings, in milliseconds, in this order."""

    def __init__(self, threshold: str, *thresholds: int) -> None:
        app = App("a", bucket="100ms")
        app.query("q", app.source("s", schema={"x": "int64"}), threshold)
        spec = app.describe()
        self.scheduler = Scheduler(1_700_000_000_000_000)
        self.log = MemoryLog(self.scheduler, 0)
        names = [topics.settings("a"), topics.progress("a", "q"), *(topics.replica("a", "q", k) for k in range(2))]
        self.log.client("admin").admin().create([TopicSpec(name) for name in names])
        appender = self.log.client("writer").appender(lambda: None)
        for ms in thresholds:
            appender.append(NewRecord(Feed(topics.settings("a")), encode(Threshold(ms * 1_000)), b"threshold/q"))
        self.scheduler.run_until(self.scheduler.now_us + 1_000_000)
        # Whoever folds the settings topic without a timing takes the last threshold for the one in force.
        last = {"q": thresholds[-1] * 1_000} if thresholds else {}
        self.state = AppState("a", spec, Description(spec.to_json(), spec.hash, 17_000_000, "", "a1"), last)

    @contextmanager
    def live(self, timing: Timing | None = None) -> Iterator[LiveSubscription]:
        """`timing`: what the description says; an older one says nothing."""
        client = self.log.client("subscriber")
        state = replace(self.state, description=msgspec.structs.replace(self.state.description, timing=timing))
        (subscription,) = open_live(client, state, "q", True, lambda: None)
        try:
            yield subscription
        finally:
            subscription.close()


def test_it_waits_as_long_as_the_file_says_where_no_setting_does() -> None:
    with DescribedQuery("3s").live() as subscription:
        assert subscription.stream.wait_us == 3_000_000 - SLACK_US


def test_the_last_threshold_that_can_hold_is_in_force() -> None:
    with capture_logs() as lines, DescribedQuery("3s", 2_000, 100).live() as subscription:
        assert subscription.stream.wait_us == 2_000_000 - SLACK_US
    assert ["too small" in line["why"] for line in lines] == [True]


def test_where_none_of_the_settings_can_hold_the_file_counts() -> None:
    with DescribedQuery("3s", 100).live() as subscription:
        assert subscription.stream.wait_us == 3_000_000 - SLACK_US


def test_what_can_hold_depends_on_the_timing() -> None:
    world = DescribedQuery("3s", 290)
    with world.live() as subscription:
        assert subscription.stream.wait_us == 3_000_000 - SLACK_US
    with world.live(HURRIED) as subscription:
        assert subscription.stream.wait_us == 290_000 - HURRIED.slack_of(1)


def test_a_query_that_could_not_run_by_this_timing_is_refused_with_what_to_do() -> None:
    world = DescribedQuery("300ms")
    with pytest.raises(SettingsError, match=r"q: delay threshold 300 ms is too small.*`borealis up`"), world.live():
        raise AssertionError("it opened")
    with world.live(HURRIED) as subscription:
        assert subscription.stream.wait_us == 300_000 - HURRIED.slack_of(1)


class Made(Exception):
    """A publisher was made: with these options."""

    def __init__(self, *_: object, **options: object) -> None:
        self.options = options


def test_an_unknown_view_is_refused_before_anything_is_read() -> None:
    """It was taken for the corrected one."""
    with pytest.raises(ValueError, match="query 'q': view='life'; choose corrected, live or raw"):
        api.subscribe("q", "life", bootstrap="localhost:1")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("told", "lateness_us", "boundaries"),
    [
        ({}, None, Boundaries.CLOCK),
        ({"lateness": "2s"}, 2_000_000, Boundaries.CLOCK),
        ({"lateness": "0s", "boundary": "data"}, 0, Boundaries.DATA),
        ({"boundary": "data"}, None, Boundaries.DATA),
        ({"boundary": "paced"}, None, Boundaries.PACED),
    ],
    ids=str,
)
def test_a_publisher_is_told_what_its_user_says_and_the_app(
    told: dict[str, Any], lateness_us: int | None, boundaries: Boundaries, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = DescribedQuery("3s").state
    timing = Timing(ahead_max_us=7_000_000, row_max_bytes=2_000)
    state = replace(state, description=msgspec.structs.replace(state.description, timing=timing))
    monkeypatch.setattr(api, "read_app", lambda *_: state)
    monkeypatch.setattr(api, "Publisher", refused)
    with pytest.raises(Made) as made:
        api.publisher("s", **told, take_over=True)
    assert made.value.options == {
        "take_over": True,
        "lateness_us": lateness_us,
        "boundaries": boundaries,
        "ahead_max_us": 7_000_000,
        "row_max_bytes": 2_000,
    }


def refused(*positions: object, **options: object) -> None:
    raise Made(*positions, **options)


@pytest.mark.parametrize("told", [{"boundary": "rows"}, {"boundary": "paced", "lateness": "2s"}], ids=str)
def test_what_moves_no_boundary_is_refused_before_anything_is_asked(told: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"source 's': (boundary='rows'; choose clock, data or paced|a replay knows)"):
        api.publisher("s", **told)


@pytest.mark.parametrize(
    ("of", "certain"), [(OperatorClass.CONVERGENT, True), (OperatorClass.DETERMINISTIC, False)], ids=str
)
def test_what_nothing_is_missing_of_is_certain_unless_a_node_on_the_way_never_forgets(
    of: OperatorClass, certain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No operator that can be written today is more general than convergent-capable: the window stands for one."""
    monkeypatch.setattr(WindowOperator, "operator_class", of)
    app = App("a", bucket="100ms")
    s = app.source("s", schema={"x": "int64"})
    app.query("q", s.window("1s").agg(n="count(*)").node("counted").filter("n > 1"))
    app.query("p", s.filter("x > 1"))
    spec = app.describe()
    assert (forgets(spec, "q"), forgets(spec, "p")) == (certain, True)
