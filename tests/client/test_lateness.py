"""Rows that bear times of their own: how late they may come, by the clock and by the data (A2.5)."""

from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from borealis_py.client.ingest import InputRow
from borealis_py.client.stimes import Boundaries
from borealis_py.client.target import PublisherError
from tests.client.folded import AHEAD_MAX_US, T0, PublishedSource, W, row
from tests.support.simulated_publisher import SimPublisher


def sent(world: PublishedSource) -> list[int]:
    return [r["n"] for _, _, _, r in world.folded().rows]


def test_rows_within_the_lateness_are_in_the_source_and_later_ones_are_dead_letters() -> None:
    """Without a lateness a fifth of rows that were 20 ms old was lost, and all that were 100 ms old."""
    world = PublishedSource()
    publisher = world.ready("p", lateness_us=500_000)
    world.run(1)
    for n in range(50):
        world.run(0.033)
        assert publisher.send(row(n), world.now - 500_000)
    assert not publisher.send(row(50), world.now - 500_000 - 2 * W)
    publisher.close(end=True)
    world.run(1)
    assert sent(world) == list(range(50))
    assert [seq for seq, _, _ in world.folded().letters] == [50]
    assert world.folded().late == 0


def test_the_boundary_of_the_clock_is_behind_it_by_the_lateness() -> None:
    world = PublishedSource()
    world.ready("p", lateness_us=3 * W + 1)
    world.scheduler.run_until(T0 + 10 * W)
    assert world.folded().boundaries[-1] == T0 + 6 * W
    world.scheduler.run_until(T0 + 10 * W + 5_000)
    assert world.folded().boundaries[-1] == T0 + 7 * W, "it leaves when the clock says so, not at the next bucket's end"


@pytest.mark.parametrize("lateness_us", [0, 7 * W])
def test_a_row_may_lie_as_far_ahead_of_the_clock_with_any_lateness(lateness_us: int) -> None:
    world = PublishedSource()
    publisher = world.ready("p", lateness_us=lateness_us)
    world.scheduler.run_until(T0 + 10 * W)
    assert publisher.send(row(0), world.now + AHEAD_MAX_US - 1)
    assert not publisher.send(row(1), world.now + AHEAD_MAX_US)
    world.run(1)
    assert sent(world) == [0]
    assert world.folded().rejects == []


def test_a_time_of_ones_own_needs_a_lateness_or_the_boundary_of_the_data() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    with pytest.raises(PublisherError, match=r'lateness="2s".*boundary="data"'):
        publisher.send(row(0), world.now)
    assert publisher.send(row(0))


@pytest.mark.parametrize("lateness_us", [-1, 366 * 86_400_000_000 + 1])
def test_a_lateness_that_cannot_be_is_named(lateness_us: int) -> None:
    with pytest.raises(PublisherError, match="lateness"):
        PublishedSource().publisher("p", lateness_us=lateness_us)


def test_a_replay_has_no_lateness() -> None:
    with pytest.raises(PublisherError, match="replay"):
        PublishedSource().publisher("p", lateness_us=0, boundaries=Boundaries.PACED)


def test_by_the_data_nothing_is_promised_before_the_first_row_nor_while_nobody_sends() -> None:
    """A boundary that follows the clock would promise that nothing older comes, of an upstream that is only silent."""
    world = PublishedSource(origin=0)
    publisher = world.ready("p", boundaries=Boundaries.DATA, lateness_us=2 * W)
    world.run(3)
    assert world.folded().boundaries == []
    assert publisher.send(row(0), T0 + 5 * W + 7)
    world.run(60)
    assert world.folded().boundaries == [T0 + 3 * W]
    assert publisher.send(row(1), T0 + 3 * W)
    assert publisher.send(row(2), T0 + 8 * W)
    assert publisher.send(row(3), T0 + 6 * W)
    assert not publisher.send(row(4), T0 + 6 * W - 1)
    publisher.close(end=False)
    world.run(1)
    assert world.folded().boundaries == [T0 + 3 * W, T0 + 6 * W], "close leaves the last lateness open"
    assert sent(world) == [0, 1, 2, 3]


def succeeded() -> tuple[PublishedSource, SimPublisher]:
    """A publisher by the data whose predecessor has sent a row of the tenth bucket, with a lateness of one."""
    world = PublishedSource(origin=0)
    first = world.ready("p", boundaries=Boundaries.DATA, lateness_us=W)
    first.send(row(0), T0 + 9 * W)
    first.close(end=False)
    world.run(1)
    first.stop()
    second = world.ready("q", boundaries=Boundaries.DATA, lateness_us=W)
    return world, second


def test_by_the_data_a_successor_goes_on_from_the_logs_boundary_and_end_closes_it() -> None:
    world, second = succeeded()
    assert second.session.boundary == T0 + 8 * W
    assert second.send(row(1), T0 + 8 * W)
    assert world.folded().boundaries == [T0 + 8 * W]
    second.close(end=True)
    world.run(1)
    assert world.folded().state.ended
    assert sent(world) == [0, 1]


@pytest.mark.parametrize("many", [False, True])
def test_by_the_data_a_successor_knows_how_late_rows_are_though_it_has_sent_none(many: bool) -> None:
    """They were dead letters, but their publisher said nothing of them, and no one could tell how late they were."""
    world, second = succeeded()
    with capture_logs() as logs:
        if many:
            second.session.send_many([row(1), row(2)], [T0 + 3 * W, T0 + 2 * W], None, world.now)
        else:
            second.send(row(1), T0 + 3 * W)
            second.send(row(2), T0 + 2 * W)
    assert "lateness of 600ms would have sufficed, it is 100ms" in str([entry["event"] for entry in logs])
    assert (second.counts.late, second.counts.lateness.max_us) == (2, 7 * W)
    assert second.send(row(3), T0 + 8 * W), "one that is not late is sent"
    world.run(1)
    assert sent(world) == [0, 3]


@pytest.mark.parametrize(
    ("boundaries", "lateness_us"), [(Boundaries.DATA, None), (Boundaries.CLOCK, None), (Boundaries.CLOCK, 5_000_000)]
)
def test_what_was_sent_is_in_the_log_within_a_bucket_though_nothing_follows(
    boundaries: Boundaries, lateness_us: int | None
) -> None:
    world = PublishedSource()
    publisher = world.ready("p", boundaries=boundaries, lateness_us=lateness_us)
    world.run(0.042)
    publisher.send(row(0), None if lateness_us is None and boundaries is Boundaries.CLOCK else world.now)
    world.run((W + 5_000) / 1e6)
    assert sent(world) == [0]


def test_a_clock_that_is_set_back_keeps_no_row_waiting() -> None:
    world = PublishedSource()
    session = world.ready("p", boundaries=Boundaries.DATA).session
    now = world.now
    session.send(row(0), now, None, now)
    session.turn(now - 3_600_000_000)
    world.run(0.01)
    assert sent(world) == [0]


def test_late_rows_are_warned_of_once_a_minute_with_the_lateness_that_would_have_done() -> None:
    world = PublishedSource(origin=T0 // W - 100)  # no row lies before it
    publisher = world.ready("p", lateness_us=0)
    with capture_logs() as logs:
        for late_us in (200_000, 3_000_000, 250_000):
            world.run(1)
            publisher.send(row(0), world.now - late_us)
        world.run(61)
        publisher.send(row(0), world.now - 220_000)
    said = [entry["event"] for entry in logs if entry["log_level"] == "warning"]
    assert len(said) == 2
    assert "lateness of 200ms would have sufficed, it is 0us" in said[0]
    assert "lateness of 3s would have sufficed" in said[1]
    assert [entry["rows"] for entry in logs] == [1, 3]
    assert publisher.counts.late == 4


def test_counts_tell_how_late_rows_came() -> None:
    world = PublishedSource(origin=T0 // W - 100)
    publisher = world.ready("p", lateness_us=1_000_000)
    world.run(2)
    for ms in range(100):
        publisher.send(row(ms), world.now - ms * 1_000)
    publisher.send(row(100), world.now - 5_000_000)
    counts = publisher.counts
    assert (counts.sent, counts.late, counts.lateness.rows) == (100, 1, 101)
    assert counts.lateness.max_us == 5_000_000
    assert counts.lateness.percentile(0.005) == 0, "the first came at once"
    assert 50_000 <= counts.lateness.percentile(0.5) <= 54_000
    assert 99_000 <= counts.lateness.percentile(0.99) <= 106_000


def test_a_row_without_its_time_is_a_dead_letter_where_rows_bear_theirs() -> None:
    world = PublishedSource()
    items = [InputRow(0, 1, row(0), None, b"x"), InputRow(1, 2, row(1), T0 + 10 * W, b"y")]
    world.publisher("p", rows=items, timed=True, lateness_us=60_000_000)
    world.run(2)
    assert sent(world) == [1]
    assert world.folded().letters == [(0, "line 1: stime missing", b"x")]
