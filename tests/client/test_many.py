"""Rows that are sent together: the log is to hold what it holds of rows that are sent one by one, byte for byte."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.client import sourcelog, writer
from borealis_py.client.rows import BadRow, RowSchema
from borealis_py.client.stimes import Boundaries
from borealis_py.log.base import NewRecord
from sunion.model import FOREVER
from tests.client.folded import AHEAD_MAX_US, SCHEMA, T0, PublishedSource, W, row
from tests.examples import examples
from tests.support.simulated_publisher import SimPublisher

ROW_MAX = 200
ENVELOPE = 1_200


class Evil(dict):  # type: ignore[type-arg]
    """A row that fits, of a class of its own."""


BAD: list[Any] = [
    {"carrier": "UA"},
    {**row(1), "n": "one"},
    {**row(1), "n": 2**63},
    {**row(1), "late": 1},
    {**row(1), "carrier": "\ud800"},
    {**row(1), "delay": "\ud800"},
    {**row(1), "delay": float("nan")},
    {**row(1), "delay": -float("inf")},
    {**row(1), "carrier": "x" * ROW_MAX},
    "no row",
    None,
]
fine = st.builds(
    lambda n, text, delay: {**row(n), "carrier": text, "delay": delay, "more": object()},
    st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(max_size=30).filter(lambda t: not any("\ud800" <= c <= "\udfff" for c in t)),
    st.none() | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**60), 2**60),
)
rows_of = st.one_of(fine, fine, fine, fine, fine.map(Evil), st.sampled_from(BAD))
own = st.integers(-4 * W, 4 * W)
odd = st.none() | st.booleans() | st.floats(allow_nan=False) | st.just(10**14) | st.just(-(10**16))
offsets = (
    st.lists(own)
    | st.lists(st.integers(0, 3 * W)).map(sorted)
    | st.lists(st.integers(0, W // 3)).map(sorted)
    | st.lists(own | odd)
)


@dataclass(frozen=True)
class Step:
    """Rows that come together, `wait_us` after those before; positions begin `skip` ahead of the last (None: none)."""

    wait_us: int
    rows: Sequence[Any]
    offsets: Sequence[Any] | None
    skip: int | None
    hold: int
    aligned: bool = False


steps_of = st.lists(
    st.builds(
        Step,
        st.integers(0, 3 * W),
        st.lists(rows_of, max_size=30),
        st.none() | offsets,
        st.none() | st.integers(-8, 3),
        st.integers(-W, W),
    ),
    min_size=1,
    max_size=6,
)


class Watched:
    """A publisher in a world of its own, and what it appends."""

    def __init__(self, boundaries: Boundaries, lateness_us: int | None, row_max: int = ROW_MAX) -> None:
        self.paced = boundaries is Boundaries.PACED
        self.world = PublishedSource(origin=T0 // W - 10, row_max_bytes=row_max)
        self.publisher: SimPublisher = self.world.ready("p", boundaries=boundaries, lateness_us=lateness_us)
        self.appended: list[NewRecord] = []
        source = self.publisher.session.source
        append = source.append
        source.append = lambda record: (self.appended.append(record), append(record))[1]  # type: ignore[method-assign]

    def step(self, step: Step, together: bool, position: int) -> int:
        self.world.scheduler.run_until(self.world.now + step.wait_us)
        session, now = self.publisher.session, self.world.now
        base = now // W * W if step.aligned else now
        rows, stimes = list(step.rows), None
        if step.offsets is not None:
            rows = rows[: len(step.offsets)]
            stimes = [base + o if type(o) is int else o for o in step.offsets[: len(rows)]]
        if self.paced:
            session.hold(now + step.hold)
        seq = None if step.skip is None else max(0, position + step.skip)
        if together:
            done, sent = session.send_many(rows, stimes, seq, now)
            assert done == len(rows)
        else:
            sent = 0
            for n, one in enumerate(rows):
                stime = None if stimes is None else stimes[n]
                sent += session.send(one, stime, None if seq is None else seq + n, now)
        self.publisher._wake()
        return sent


def same_records(steps: list[Step], boundaries: Boundaries, lateness_us: int | None) -> None:
    """What is sent together and what is sent one by one: the same bytes, counts and wake-ups."""
    if boundaries is Boundaries.PACED:
        lateness_us = None
    if boundaries is Boundaries.CLOCK and lateness_us is None:
        steps = [Step(s.wait_us, s.rows, None, s.skip, s.hold) for s in steps]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(writer, "ENVELOPE_BYTES_MAX", ENVELOPE)
        each, many = Watched(boundaries, lateness_us), Watched(boundaries, lateness_us)
        for step in steps:
            position = each.publisher.last_seq + 1
            assert many.step(step, True, position) == each.step(step, False, position)
            assert many.publisher.counts == each.publisher.counts
            assert many.publisher.session.next_wakeup() == each.publisher.session.next_wakeup()
            assert many.appended == each.appended
        for one in (each, many):
            one.publisher.close(end=True)
        assert many.appended == each.appended


any_boundaries, any_lateness = st.sampled_from(list(Boundaries)), st.sampled_from((None, 0, W // 2, 2 * W + 7))


@settings(deadline=None, max_examples=examples(200))
@given(steps_of, any_boundaries, any_lateness)
def test_rows_sent_together_make_the_records_of_rows_sent_one_by_one(
    steps: list[Step], boundaries: Boundaries, lateness_us: int | None
) -> None:
    same_records(steps, boundaries, lateness_us)


edges = st.builds(lambda quarter, apart: quarter * W // 4 + apart, st.integers(-9, 9), st.sampled_from((-1, 0, 1, 7)))
near = st.lists(edges, min_size=3, max_size=30)
times = st.builds(
    lambda at, ahead, in_order: [one + ahead for one in (sorted(at) if in_order else at)],
    near,
    st.sampled_from((0, AHEAD_MAX_US)),
    st.booleans(),
)


@settings(deadline=None, max_examples=examples(200))
@given(
    st.lists(st.tuples(st.integers(0, W), times), min_size=1, max_size=4),
    any_boundaries,
    any_lateness,
)
def test_times_around_the_edges_of_buckets_make_the_same_records_together(
    steps: list[tuple[int, list[int]]], boundaries: Boundaries, lateness_us: int | None
) -> None:
    sent = [Step(wait, [row(n) for n in range(len(at))], at, None, at[0], True) for wait, at in steps]
    same_records(sent, boundaries, lateness_us)


@pytest.mark.parametrize(
    ("boundaries", "lateness_us", "timed"),
    [
        (Boundaries.CLOCK, None, False),
        (Boundaries.CLOCK, W, True),
        (Boundaries.DATA, None, True),
        (Boundaries.DATA, W, True),
    ],
)
def test_rows_that_are_alike_are_sent_together(
    boundaries: Boundaries, lateness_us: int | None, timed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the tests above would compare one path with itself, and publishing be slow for nothing."""
    session = (world := PublishedSource()).ready("p", boundaries=boundaries, lateness_us=lateness_us).session
    world.scheduler.run_until(T0 + 10 * W)
    monkeypatch.setattr(session, "send", None)
    stimes = [world.now + n for n in range(100)] if timed else None
    assert session.send_many([row(n) for n in range(100)], stimes, 0, world.now) == (100, 100)


def test_a_time_of_ones_own_ends_rows_that_are_sent_together_where_none_is_allowed() -> None:
    world = PublishedSource()
    session = world.ready("p").session
    with pytest.raises(Exception, match="how late rows may come"):
        session.send_many([row(0), row(1), row(2)], [None, world.now, None], None, world.now)
    world.run(1)
    assert [r["n"] for _, _, _, r in world.folded().rows] == [0]


def test_rows_wait_where_the_log_is_behind_and_are_sent_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sourcelog, "OUTSTANDING_MAX", 3)
    world = PublishedSource(origin=0)
    publisher = world.ready("p", boundaries=Boundaries.DATA)
    rows, stimes = [row(n) for n in range(20)], [T0 + n * W for n in range(20)]
    at, rounds = 0, 0
    while at < len(rows):
        done, sent = publisher.session.send_many(rows[at:], stimes[at:], at, world.now)
        assert done == sent <= 3, "as many records are on their way as may be"
        at, rounds = at + done, rounds + 1
        publisher._wake()
        world.run(0.01)
        assert not publisher.session.full, "they have arrived"
    publisher.close(end=True)
    world.run(1)
    assert [(seq, stime) for _, seq, stime, _ in world.folded().rows] == list(enumerate(stimes))
    assert rounds >= 5
    assert world.folded().state.boundary == FOREVER


@pytest.mark.parametrize("boundaries", [Boundaries.CLOCK, Boundaries.DATA])
def test_of_rows_sent_together_those_that_lie_too_far_ahead_are_dead_letters(boundaries: Boundaries) -> None:
    world = PublishedSource()
    publisher = world.ready("p", boundaries=boundaries, lateness_us=W // 2)
    world.scheduler.run_until(T0 + 10 * W + W // 4)
    limit = T0 + 9 * W + W // 2 if boundaries is Boundaries.CLOCK else world.now
    stimes = [limit + AHEAD_MAX_US + apart for apart in (-2, -1, 0, 1)]
    assert publisher.session.send_many([row(n) for n in range(4)], stimes, 0, world.now) == (4, 2)
    publisher.close(end=True)
    world.run(1)
    assert [seq for _, seq, _, _ in world.folded().rows] == [0, 1]
    assert [why.split(":")[0] for why, _ in world.dead_letters()] == ["future", "future"]


def test_a_record_is_full_with_the_row_with_which_it_is_full_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "ENVELOPE_BYTES_MAX", ENVELOPE)
    each, many = (Watched(Boundaries.DATA, None) for _ in range(2))
    for n in range(200):
        step = Step(0, [{**row(n), "carrier": "x" * (n * 7 % 31)}] * 3, [0] * 3, None, 0)
        assert many.step(step, True, 0) == each.step(step, False, 0) == 3
    assert many.appended == each.appended
    assert len(many.appended) > 30


def test_large_batches_are_split_where_one_row_after_the_other_would_split_them() -> None:
    each, many = (Watched(Boundaries.DATA, None, 1_000_000) for _ in range(2))
    wide = [{**row(n), "carrier": "x" * (n % 7) * 1_000} for n in range(900)]
    step = Step(0, wide, [0] * len(wide), None, 0)
    assert many.step(step, True, 0) == each.step(step, False, 0) == 900
    for one in (each, many):
        one.publisher.close(end=True)
    assert many.appended == each.appended
    assert len(many.appended) >= 4
    assert max(len(r.value or b"") for r in many.appended) <= 900_000


@given(st.lists(rows_of, max_size=20))
def test_rows_are_checked_together_as_they_are_one_by_one(rows: list[Any]) -> None:
    schema = RowSchema(SCHEMA, ROW_MAX)
    expected: list[bytes] = []
    for one in rows:
        try:
            expected.append(schema.encode(one))
        except BadRow:
            break
    encoded = schema.encoded(schema.checked(rows))
    assert encoded == expected
    joined = schema.joined(schema.checked(rows)[: len(expected)])
    assert joined in (None, b",".join(expected))
    assert joined is not None or len(b",".join(expected)) > ROW_MAX
