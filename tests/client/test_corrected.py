"""A subscriber of the corrected stream: rows as they were published, and the end; and what a live change decodes to."""

from __future__ import annotations

from contextlib import closing

import pytest

from borealis_py.client.subscriber import Row, live_change, published
from borealis_py.log.base import LogError, NewRecord
from borealis_py.log.corrected import row_headers
from borealis_py.log.description import OtherLife
from borealis_py.simulation.toy_query import ToyKernel
from sunion.model import Kind, Output
from sunion.view import Change
from tests.client.by_hand import BUCKETS, FIRST, ROWS, CorrectedByHand


@pytest.fixture
def world() -> CorrectedByHand:
    return CorrectedByHand()


def test_rows_come_with_id_time_and_value_and_the_end_is_known(world: CorrectedByHand) -> None:
    world.row(FIRST, 0, b'{"n": 1}')
    with closing(world.subscribe(True)) as all_, closing(world.subscribe(False)) as new:
        world.row(FIRST + 1, 0, None)  # no replica writes a row without a value
        world.row(FIRST + 1, 1, b'{"n": 2}')
        world.progress(FIRST + 2)
        later = Row(f"{FIRST + 1}:1", BUCKETS.start(FIRST + 1) + 1, {"n": 2}, 0)
        assert world.poll(all_) == [Row(f"{FIRST}:0", BUCKETS.start(FIRST), {"n": 1}, 0), later]
        assert world.poll(new) == [later]
        assert not all_.ended
        world.progress(BUCKETS.last, "b2")
        assert (world.poll(all_), all_.ended) == ([], False)
        world.progress(BUCKETS.last)
        assert (world.poll(all_), all_.ended) == ([], True)


def test_rows_whose_partition_learns_later_that_they_are_committed_are_waited_for(world: CorrectedByHand) -> None:
    """Of a transaction each partition learns for itself that it has ended: if progress was first, rows were lost."""
    now_us = BUCKETS.start(FIRST)
    with closing(world.subscribe(True)) as subscription:
        rows = world.log.broker.partition(ROWS)
        rows.append(NewRecord(ROWS, b'{"n": 1}', None, now_us // 1000, row_headers(FIRST, 0, now_us)), now_us, "w")
        world.progress(BUCKETS.last)
        assert (world.poll(subscription), subscription.ended) == ([], False)
        rows.finish("w", commit=True, now_us=now_us)
        assert (len(world.poll(subscription)), subscription.ended) == (1, True)


def test_a_subscriber_of_a_life_that_is_over_ends_by_name(world: CorrectedByHand) -> None:
    with closing(world.subscribe(True)) as subscription:
        world.describe("b2", FIRST)
        world.progress(FIRST, "b2")
        assert world.poll(subscription) == []
        with pytest.raises(OtherLife, match=r"'app' was begun anew.*b2"):
            world.poll(subscription)


def test_a_subscriber_that_cannot_learn_whose_life_it_is_goes_on_until_it_can(world: CorrectedByHand) -> None:
    """A record of another life came, and the settings had no leader: its application saw an error."""
    with closing(world.subscribe(True)) as subscription:
        world.progress(FIRST, "b2")
        world.row(FIRST, 0, b"{}")
        world.log.depose(["app.settings"])
        assert len(world.poll(subscription)) == 1
        world.row(FIRST + 1, 1, b"{}")
        assert len(world.poll(subscription)) == 1
        world.describe("b2", FIRST)
        world.log.elect(["app.settings"])
        with pytest.raises(OtherLife):
            world.poll(subscription)


def test_when_topics_were_made_again_the_description_says_why(world: CorrectedByHand) -> None:
    world.row(FIRST, 0, b"{}")
    with closing(world.subscribe(True)) as subscription:
        assert len(world.poll(subscription)) == 1
        world.log.client("admin").admin().delete([ROWS.topic])
        world.create(ROWS.topic)
        with pytest.raises(LogError, match="deleted and created again") as lost:
            world.poll(subscription)
        assert not isinstance(lost.value, OtherLife)
        world.describe("b2", FIRST)
        with pytest.raises(OtherLife):
            world.poll(subscription)


def test_how_far_a_query_was_published(world: CorrectedByHand) -> None:
    with closing(world.client.lookup()) as lookup:
        assert published(lookup, "app", "a1", "q", FIRST) == FIRST
        world.row(FIRST + 3, 0, b"{}")
        assert published(lookup, "app", "a1", "q", FIRST) == FIRST + 4, "its rows tell where no progress does"
        world.progress(FIRST + 7)
        world.progress(FIRST + 9, "b2")
        assert published(lookup, "app", "a1", "q", FIRST) == FIRST + 7


def test_a_live_change_has_its_rows_decoded() -> None:
    kernel = ToyKernel(BUCKETS.width_us, 1)
    rows = [(BUCKETS.start(FIRST), "row", 5, 0)]
    change = Change(Kind.TENTATIVE, FIRST, FIRST + 1, Output(rows), 0.5, ("s", "t"), ("t",), FIRST - 3)
    shown = live_change(change, kernel, True, 2)
    assert shown.rows == kernel.to_dicts(rows) != []
    assert (shown.kind, shown.bucket, shown.end, shown.partition) == ("TENTATIVE", FIRST, FIRST + 1, 2)
    assert (shown.completeness, shown.missing_sources, shown.missing, shown.diverged_from) == (
        0.5,
        ("s", "t"),
        ("t",),
        FIRST - 3,
    )
    assert shown.why == "lacks s, t"
    assert live_change(Change(Kind.BOUNDARY, FIRST, FIRST + 2), kernel, True).rows == []
