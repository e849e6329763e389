"""From an input to a publisher: what is waited for, and how often somebody hears of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import cast

import pytest

from borealis_py.client import pump
from borealis_py.client.items import Items, RowRun
from borealis_py.client.publisher import Publisher
from borealis_py.client.pump import PROGRESS_ROWS, Pump, PumpProgress, ReplayPace, publish_rows
from borealis_py.client.session import PublishCounts
from tests.client.folded import PublishedSource, inputs, row


class Sink:
    """What a publisher is to a pump. `last_seq`: of a run before; each row takes 0.6 ms."""

    paced = False

    def __init__(self, last_seq: int = -1) -> None:
        self.last_seq = last_seq
        self.counts = PublishCounts()
        self.held: list[int | None] = []

    def send(self, row: Mapping[str, object], stime: int | None, seq: int | None) -> bool:
        new = seq is None or seq > self.last_seq
        self.counts.sent += new
        self.counts.skipped += not new
        return new

    def reject(self, raw: bytes, reason: str, seq: int | None) -> None:
        self.counts.rejected += 1

    def hold(self, stime: int | None) -> None:
        self.held.append(stime)

    def flush(self) -> None:
        pass

    def monotonic(self) -> float:
        return self.counts.sent * 0.0006


def test_rows_that_are_in_the_log_already_are_not_waited_for() -> None:
    sink = Sink(last_seq=1)
    moved = Pump(sink, inputs([100, 200, 300]), ReplayPace(base_us=0, start_us=5_000, speed=1))
    assert moved.turn(now_us=0) == 5_300, "only the third row is to come"
    assert (sink.held, sink.counts.skipped) == ([5_300], 2)
    assert moved.progress().read == 3


def test_progress_is_told_about_every_second_and_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    sink, told = Sink(), list[PumpProgress]()
    monkeypatch.setattr(pump, "time", SimpleNamespace(monotonic=sink.monotonic))
    rows = inputs([None] * (4 * PROGRESS_ROWS + 500))
    publish_rows(cast(Publisher, sink), rows, on_progress=told.append)
    assert [progress.sent for progress in told] == [2_000, 4_000, 4_500]


def lines(*rows: dict[str, object]) -> Items:
    """An input of one row in each line."""
    return Items([RowRun(0, 1, rows, None, [b""] * len(rows))])


def test_a_refused_row_is_named_by_its_line_also_where_others_before_it_are_in_the_log_already() -> None:
    publisher = (world := PublishedSource()).ready("p")
    Pump(publisher, lines(row(0), row(1))).turn(world.now)
    again = Pump(publisher, lines(row(0), row(1), {"bad": 1}))
    again.turn(world.now)
    assert again.progress().skipped == 2
    assert [reason.partition(": ")[0] for reason in again.progress().reasons] == ["line 3"]


def test_no_row_of_an_input_that_never_repeats_is_in_the_log_already() -> None:
    publisher = (world := PublishedSource()).ready("p")
    for _ in range(2):
        Pump(publisher, lines(row(0), row(1)), positions=False).turn(world.now)
    assert (publisher.counts.sent, publisher.counts.skipped, publisher.last_seq) == (4, 0, 3)
