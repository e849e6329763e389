"""Compares this machine's clock with the broker's, by a record of the status topic, whose times the broker sets."""

from __future__ import annotations

from contextlib import closing

from borealis_py.log import topics
from borealis_py.log.base import Appender, Feed, Log, NewRecord

ANSWER_S = 5.0


def ahead_of_broker_us(log: Log, app: str) -> int | None:
    """By how much this machine's clock is ahead of the broker's at least, in microseconds; negative: behind; None: the
    broker did not answer in time, or the topic does not have its times."""
    with closing(log.appender(lambda: None)) as appender:
        ask_for_time(appender, app)
        return appender.clock_ahead_us


def ask_for_time(appender: Appender, app: str) -> None:
    """Wait until this appender knows the broker's clock, at most for `ANSWER_S`."""
    appender.append(NewRecord(Feed(topics.status(app)), None, b"clock"))  # without a value it is no status
    appender.flush(ANSWER_S)
