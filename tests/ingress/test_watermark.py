"""What an ingress promises holds, whatever is written, hidden by a transaction, or read late; and it is enough."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.ingress.watermark import NEVER, TOLD_MAX, Watermarks
from sunion.model import FOREVER

LATENESS = 20
T0 = 1_000


@dataclass
class Row:
    index: int
    stime: int
    seen_from: int = 0  # it can be read from then on


@dataclass
class Written:
    """One partition of the foreign topic, as its broker has it; and how far it was read."""

    rows: list[Row] = field(default_factory=list)
    read: int = 0

    def visible(self, now: int) -> int:
        """A reader stops at the first row of an open transaction."""
        return next((i for i, row in enumerate(self.rows) if row.seen_from > now), len(self.rows))


STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("write"),
            st.integers(0, 2),  # partition
            st.integers(0, 1),  # input, where values decide
            st.integers(0, LATENESS),  # how late, at most the lateness
            st.sampled_from([0, 0, 0, 5, 60]),  # how long its transaction stays open
        ),
        st.tuples(st.just("ask"), st.integers(0, 7)),  # a bit for each partition that answers
        st.tuples(st.just("read"), st.integers(0, 2), st.integers(1, 4)),
        st.tuples(st.just("wait"), st.integers(1, 80)),
    ),
    max_size=60,
)


class WatermarkModel:
    """Producers, a broker and a reader, against the rule. `by_value`: every input takes from every partition."""

    def __init__(self, by_value: bool, expect: int | None, by_data: bool = False) -> None:
        self.now, self.by_value, self.expect = T0, by_value, expect
        self.parts = [Written() for _ in range(3)]
        self.rule = Watermarks(LATENESS, by_data, expect)
        for i in range(2):
            self.rule.feed(i, [p for p in range(3) if by_value or p % 2 == i], NEVER)
        self.promised = [NEVER, NEVER]
        self.last_append = [T0, T0]
        self.largest = [T0, T0]

    def write(self, partition: int, index: int, late: int, hidden: int) -> None:
        index = index if self.by_value else partition % 2
        # By the clock a row is as late as it comes. Where silence means missing, its producer may have kept it, and
        # others after it.
        kept = min(max(self.last_append[index], self.largest[index]), self.largest[index] + LATENESS)
        base = self.now if self.expect is None else kept
        stime = base - late
        self.parts[partition].rows.append(Row(index, stime, self.now + hidden))
        self.last_append[index] = self.now
        self.largest[index] = max(self.largest[index], stime)

    def ask(self, answering: int) -> None:
        self.rule.counted(self.now)
        for p, part in enumerate(self.parts):
            if answering >> p & 1:
                self.rule.told(p, self.now, len(part.rows))

    def read(self, partition: int, count: int) -> None:
        part = self.parts[partition]
        end = min(part.visible(self.now), part.read + count)
        for offset in range(part.read, end):
            row = part.rows[offset]
            assert row.stime >= self.promised[row.index], f"late by the promise for input {row.index}"
            self.rule.arrived(row.index, partition, offset, self.now, row.stime)
            self.rule.saw(row.index, partition, row.stime)
        part.read = end
        self.rule.read_to(partition, end)

    def wait(self, time: int) -> None:
        self.now += time

    def promise(self) -> None:
        for i in range(2):
            self.promised[i] = max(self.promised[i], self.rule.boundary(i))


@settings(max_examples=400, deadline=None)
@given(STEPS, st.booleans(), st.sampled_from([None, 15, 40]))
def test_no_row_that_is_in_time_is_ever_below_what_was_promised(
    steps: list, by_value: bool, expect: int | None
) -> None:
    world = WatermarkModel(by_value, expect)
    for name, *args in [*steps, ("wait", 100), *(("read", p, 1_000) for p in range(3))]:
        getattr(world, name)(*args)
        world.promise()


@given(STEPS, st.booleans())
def test_once_all_is_read_the_promise_is_the_time_of_asking(steps: list, by_value: bool) -> None:
    world = WatermarkModel(by_value, None)
    for name, *args in [*steps, ("wait", 100)]:
        getattr(world, name)(*args)
    asked = world.now
    world.ask(7)
    for p in range(3):
        world.read(p, 1_000)
    assert all(world.rule.boundary(i) >= asked - LATENESS for i in range(2))


def counted(*args: int, **more: Any) -> Watermarks:
    """A rule for a topic that has no other partitions, ever."""
    rule = Watermarks(*args, **more)
    rule.counted(FOREVER)
    return rule


def test_an_open_transaction_holds_the_boundary() -> None:
    world = WatermarkModel(False, None)
    world.write(0, 0, 0, 60)
    world.wait(10)
    world.ask(7)
    assert world.rule.boundary(1) == world.now - LATENESS
    assert world.rule.boundary(0) == NEVER
    world.wait(60)
    world.read(0, 1)
    assert world.rule.boundary(0) == T0 + 10 - LATENESS


def test_a_partition_that_tells_no_end_holds_its_input_only() -> None:
    world = WatermarkModel(False, None)
    world.ask(7)
    world.wait(50)
    world.ask(0b110)  # partition 0 has no leader
    assert [world.rule.boundary(i) for i in (0, 1)] == [T0 - LATENESS, T0 + 50 - LATENESS]


def test_by_the_data_silence_holds_and_the_clock_moves_nothing() -> None:
    world = WatermarkModel(False, None, by_data=True)
    world.ask(7)
    assert world.rule.boundary(1) == NEVER
    world.write(1, 1, 5, 0)
    world.read(1, 1)
    world.wait(500)
    world.ask(7)
    assert world.rule.boundary(1) == T0 - 5 - LATENESS


def test_by_the_data_a_successor_goes_on_from_what_was_promised() -> None:
    rule = counted(LATENESS, by_data=True)
    rule.feed(0, [0, 1], 700)
    rule.saw(0, 0, 900)
    assert rule.boundary(0) == 700
    rule.saw(0, 1, 800)
    assert rule.boundary(0) == 780


def test_with_expect_a_silent_input_stays_where_its_last_record_came() -> None:
    world = WatermarkModel(False, 40)
    world.ask(7)  # its record comes after this
    world.wait(3)
    world.write(1, 1, 0, 0)
    world.read(1, 1)
    world.ask(7)
    assert world.rule.boundary(1) == T0 - LATENESS  # its row, of T0
    for _ in range(10):
        world.wait(30)
        world.ask(7)
    assert world.rule.boundary(1) == T0 - LATENESS  # the record came after that asking


def test_with_expect_rows_that_their_producer_kept_come_in_any_number_of_records() -> None:
    rule = counted(LATENESS, expect_us=40)
    rule.feed(0, [0], NEVER)
    for n in range(10):
        rule.told(0, T0 + n, n)  # each kept row is a record that comes after an asking of its own
        rule.arrived(0, 0, n, T0 + n, T0 - 500 + n)
        rule.saw(0, 0, T0 - 500 + n)
        rule.read_to(0, n + 1)
        assert rule.boundary(0) <= T0 - 500 + n
    rule.told(0, T0 + 100, 10)
    rule.arrived(0, 0, 10, T0 + 100, T0 + 100)
    rule.saw(0, 0, T0 + 100)
    assert rule.boundary(0) == T0 + 100 - LATENESS


def test_with_expect_a_heartbeat_moves_the_boundary_though_it_is_no_row() -> None:
    rule = counted(LATENESS, expect_us=40)
    rule.feed(0, [0], NEVER)
    for n in range(10):
        rule.told(0, T0 + 10 * n, n)  # a record has come by each asking
        rule.arrived(0, 0, n, T0 + 10 * n)
        rule.read_to(0, n + 1)
    rule.told(0, T0 + 100, 10)
    assert rule.boundary(0) == T0 + 100 - 40 - LATENESS


def test_rows_of_one_value_do_not_move_the_input_of_another_that_is_expected() -> None:
    world = WatermarkModel(True, 40)
    world.ask(7)
    world.write(0, 0, 0, 0)
    world.read(0, 1)
    for _ in range(20):
        world.wait(10)
        world.ask(7)
        for p in range(3):
            world.write(p, 1, 0, 0)
            world.read(p, 1)
    assert world.rule.boundary(0) <= T0 - LATENESS
    assert world.rule.boundary(1) >= world.now - 10 - LATENESS


def test_an_input_without_partitions_promises_nothing() -> None:
    rule = counted(LATENESS)
    rule.feed(0, [], T0)
    assert rule.boundary(0) == NEVER


def test_a_reader_far_behind_remembers_few_ends_and_still_gets_the_last() -> None:
    rule = counted(LATENESS)
    rule.feed(0, [0], NEVER)
    for n in range(10 * TOLD_MAX):
        rule.told(0, T0 + n, n + 1)
    rule.read_to(0, 10 * TOLD_MAX)
    assert rule.boundary(0) == T0 + 10 * TOLD_MAX - 1 - LATENESS


def test_a_row_ahead_of_the_clock_promises_nothing_for_others() -> None:
    world = WatermarkModel(False, None)
    world.ask(7)
    world.rule.saw(0, 0, T0 + 500)
    world.rule.saw(0, 2, T0 + 700)
    assert world.rule.boundary(0) == T0 - LATENESS
    world.wait(50)
    world.rule.counted(world.now)
    assert world.rule.boundary(0) == T0 + 50 - LATENESS


@pytest.mark.parametrize("expect", [None, 40])
def test_a_topic_made_again_keeps_what_is_sure_and_forgets_its_ends(expect: int | None) -> None:
    rule = counted(LATENESS, expect_us=expect)
    rule.feed(0, [0], NEVER)
    rule.told(0, T0, 0)
    before = rule.boundary(0)
    rule.told(0, T0 + 5, 100)
    rule.open(0, 0)
    rule.read_to(0, 100)
    assert rule.boundary(0) == before


def test_what_is_given_up_holds_up_nobody_and_an_input_of_nothing_else_follows_the_count() -> None:
    rule = Watermarks(10)
    rule.feed(0, [0, 1], 0)
    rule.feed(1, [1], 0)
    rule.counted(500)
    rule.told(0, 400, 0)
    assert rule.boundary(0) == NEVER
    rule.give_up(frozenset([1]))
    assert [rule.boundary(i) for i in (0, 1)] == [390, 490]
    rule.give_up(frozenset())
    assert [rule.boundary(i) for i in (0, 1)] == [NEVER, NEVER]


def test_by_the_data_an_input_without_partitions_that_count_goes_with_those_that_have_some() -> None:
    rule = counted(10, by_data=True)
    for i in range(3):
        rule.feed(i, [i], 0)
    rule.saw(0, 0, 300)
    rule.saw(1, 1, 200)
    rule.give_up(frozenset([2]))
    assert [rule.boundary(i) for i in range(3)] == [290, 190, 190]
    rule.give_up(frozenset([0, 1, 2]))
    assert [rule.boundary(i) for i in range(3)] == [NEVER] * 3


def test_by_the_data_nothing_is_expected() -> None:
    rule = counted(10, by_data=True)
    rule.feed(0, [0], 0)
    rule.expect(40)
    rule.saw(0, 0, 300)
    assert rule.boundary(0) == 290


class ChangingWorld(WatermarkModel):
    """The same while users change what is set. `waived`: by partition, the time below which rows may be late now."""

    def __init__(self, by_value: bool, expect: int | None) -> None:
        super().__init__(by_value, expect)
        self.given_up: frozenset[int] = frozenset()
        self.waived = [NEVER] * 3

    def set_expect(self, expect: int | None) -> None:
        self.expect = expect
        self.rule.expect(expect)

    def give_up(self, bits: int) -> None:
        self.given_up = frozenset(p for p in range(3) if bits >> p & 1)
        self.rule.give_up(self.given_up)

    def promise(self) -> None:
        super().promise()
        for p in range(3):
            if self.expect is None or p in self.given_up:  # promised by the clock, whatever its producer keeps
                self.waived[p] = self.now - LATENESS

    def read(self, partition: int, count: int) -> None:
        part = self.parts[partition]
        end = min(part.visible(self.now), part.read + count)
        for offset in range(part.read, end):
            row = part.rows[offset]
            in_time = row.stime >= self.promised[row.index]
            given_up = partition in self.given_up or row.stime < self.waived[partition]
            assert in_time or given_up, f"late by the promise for input {row.index}"
            self.rule.arrived(row.index, partition, offset, self.now, row.stime)
            self.rule.saw(row.index, partition, row.stime)
        part.read = end
        self.rule.read_to(partition, end)


CHANGES = st.one_of(
    st.tuples(st.just("set_expect"), st.sampled_from([None, 15, 40])),
    st.tuples(st.just("give_up"), st.integers(0, 7)),
)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.one_of(STEPS.map(lambda steps: steps[:8]), CHANGES.map(lambda change: [change])), max_size=12),
    st.booleans(),
    st.sampled_from([None, 15, 40]),
)
def test_whatever_users_change_only_rows_that_they_gave_up_are_late(
    runs: list, by_value: bool, expect: int | None
) -> None:
    world = ChangingWorld(by_value, expect)
    steps = [step for run in runs for step in run]
    for name, *args in [*steps, ("wait", 100), *(("read", p, 1_000) for p in range(3))]:
        getattr(world, name)(*args)
        world.promise()


@given(STEPS, st.booleans(), st.integers(0, 7))
def test_all_that_was_there_then_has_been_read_only_if_it_has(steps: list, by_value: bool, given_up: int) -> None:
    world = ChangingWorld(by_value, None)
    world.give_up(given_up)
    since, there = None, [0, 0, 0]
    for name, *args in [*steps, ("ask", 7), *(("read", p, 1_000) for p in range(3)), ("ask", 7)]:
        if since is None and name == "ask":
            since, there = world.now, [len(part.rows) for part in world.parts]
        getattr(world, name)(*args)
        for i in range(2):
            read = all(
                part.read >= count
                for p, (part, count) in enumerate(zip(world.parts, there, strict=True))
                if p not in world.given_up and (by_value or p % 2 == i)
            )
            if since is not None and world.rule.read_since(i, since):
                assert read
    world.wait(100)
    for p in range(3):
        world.read(p, 1_000)
    assert since is not None
    assert all(world.rule.read_since(i, since) for i in range(2))
