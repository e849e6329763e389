"""Durations and names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py import App
from borealis_py.config.config import ConfigError, load, written
from borealis_py.protocol.settings import Timing
from borealis_py.query import QueryError, format_duration, parse_duration
from borealis_py.query.stream import Stream
from borealis_py.query.units import DURATION_MAX_US


@pytest.mark.parametrize(
    ("text", "expected_us"),
    [("100ms", 100_000), ("3s", 3_000_000), ("1.5s", 1_500_000), ("1m", 60_000_000), ("2 h", 7_200_000_000),
     ("1d", 86_400_000_000), ("7us", 7), (" 0.1ms ", 100)],
)  # fmt: skip
def test_durations(text: str, expected_us: int) -> None:
    assert parse_duration(text) == expected_us


@pytest.mark.parametrize(
    ("text", "reason"),
    [("3", "no unit"), ("3 parsecs", "unknown unit"), ("0s", "more than zero"), ("-1s", "more than zero"),
     ("soon", "not a duration"), ("", "not a duration"), ("0.5us", "finer than a microsecond"), (3, "not a duration"),
     ("367d", "is more than 366d, the most that it can be; write 366d or less"), ("8784.001h", "is more than 366d"),
     ("9" * 5_000 + "s", "a number of 5000 digits is more than 366d"), ("٣s", "not a duration")],
)  # fmt: skip
def test_bad_durations_say_why_and_name_the_setting(text: str, reason: str) -> None:
    with pytest.raises(QueryError, match=reason) as caught:
        parse_duration(text, "window size")
    assert str(caught.value).startswith("window size: ")


@given(st.integers(1, DURATION_MAX_US))
def test_what_is_formatted_reads_back(duration_us: int) -> None:
    assert parse_duration(format_duration(duration_us)) == duration_us


TOO_LONG = "40000d"
SETTINGS: dict[str, Callable[[App, Stream], object]] = {
    "bucket": lambda app, s: App("b", bucket=TOO_LONG),
    "retain of an app": lambda app, s: App("b", retain=TOO_LONG),
    "retain of a source": lambda app, s: app.source("b", schema={"k": "string"}, retain=TOO_LONG),
    "retain of a topic": lambda app, s: app.topic("b", topic="b", schema={"k": "string"}, retain=TOO_LONG),
    "retain of a query": lambda app, s: app.query("b", s, retain=TOO_LONG),
    "lateness of a topic": lambda app, s: app.topic("b", topic="b", schema={"k": "string"}, lateness=TOO_LONG),
    "lateness of a table": lambda app, s: app.table(
        "b", key="k", topic="b", schema={"k": "string", "v": "string"}, lateness=TOO_LONG
    ),
    "expect": lambda app, s: app.topic("b", topic="b", schema={"k": "string"}, expect=TOO_LONG),
    "delay_threshold": lambda app, s: app.query("b", s, delay_threshold=TOO_LONG),
    "sync": lambda app, s: app.query("b", s, recovery="passive-standby", sync=TOO_LONG, replicas=2),
    "window": lambda app, s: s.window(TOO_LONG),
    "every": lambda app, s: s.window("1s", every=TOO_LONG),
    "gap": lambda app, s: s.window(gap=TOO_LONG, most=TOO_LONG),
    "most": lambda app, s: s.window(gap="1s", most=TOO_LONG),
    "within of distinct": lambda app, s: s.distinct("k", within=TOO_LONG),
    "within of over": lambda app, s: s.over("k", last=2, within=TOO_LONG),
    "within of join": lambda app, s: s.join(s, on="k", within=(f"-{TOO_LONG}", "0s")),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_duration_of_an_app_has_a_most_that_is_named(setting: str) -> None:
    app = App("a")
    with pytest.raises(QueryError, match=r"is more than 36[0-9]+d|is more than a year|is longer than 1h"):
        SETTINGS[setting](app, app.source("s", schema={"k": "string"}))


def test_every_duration_under_timing_has_a_most_that_is_named() -> None:
    for one in fields(Timing):
        if one.name.endswith("_us"):
            with pytest.raises(ConfigError, match=rf"timing.{written(one.name)}: .* is more than 366d"):
                load(timing={written(one.name): TOO_LONG}).protocol_timing()
