"""What a publisher refuses travels in its batches: in the dead letters exactly once (A2.1)."""

from __future__ import annotations

import pytest

from borealis_py.client.ingest import BadLine, InputRow
from borealis_py.log.records import BatchHeader, unpack_source
from tests.client.folded import T0, PublishedSource, W, row

BAD = "malformed: no row"


def line(n: int, bad: bool = False) -> InputRow | BadLine:
    return BadLine(n, n + 1, BAD, b"bad %d" % n) if bad else InputRow(n, n + 1, row(n), None, b"")


def told(n: int) -> tuple[int, str, bytes]:
    return n, f"line {n + 1}: {BAD}", b"bad %d" % n


def crash(world: PublishedSource, publisher: object) -> None:
    world.memory.kill("p")
    publisher.stop()  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(40))
def test_a_dead_letter_is_there_once_wherever_its_publisher_dies(seed: int) -> None:
    """It went to a topic of its own, past the source's log: lost in 38 of 200 worlds, or there twice."""
    world = PublishedSource(seed)
    items = [line(0, True), line(1), line(2), line(3, True), line(4, True)]
    first = world.ready("p", rows=items)
    world.run(0.0005 * seed)
    crash(world, first)
    world.run(2)
    second = world.publisher("q", rows=items)
    world.run(6)
    assert second.error is None
    folded = world.folded()
    assert folded.letters == [told(0), told(3), told(4)]
    assert [r[3]["n"] for r in folded.rows] == [1, 2]
    assert folded.duplicates == 0


def test_a_bad_line_at_the_end_of_the_input_is_not_sent_again() -> None:
    world = PublishedSource()
    items = [line(0), line(1, True)]
    first = world.ready("p", rows=items)
    world.run(2)
    crash(world, first)
    second = world.publisher("q", rows=items)
    world.run(6)
    assert world.folded().letters == [told(1)]
    assert (second.counts.skipped, second.counts.rejected) == (2, 0)


def test_rejects_share_the_record_of_the_rows_around_them() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    world.scheduler.run_until(T0 + 5 * W + 1)
    for n in range(6):
        if n % 2:
            publisher.reject(b"bad", "why", None)
        else:
            publisher.send(row(n))
    world.run(1)
    batches = [unpack_source(r.value)[0] for r in world.memory.committed(world.target.feed)]
    (batch,) = [b for b in batches if isinstance(b, BatchHeader) and b.positions]
    assert (batch.first_seq, batch.positions, [r.seq for r in batch.rejects]) == (0, 6, [1, 3, 5])
    assert [seq for _, seq, _, _ in world.folded().rows] == [0, 2, 4]


def test_rejects_alone_leave_within_a_bucket() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    publisher.reject(b"bad", "why", None)
    world.run(2 * W / 1e6)
    assert world.folded().letters == [(0, "why", b"bad")]


def test_rejects_go_before_the_end() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    publisher.reject(b"bad", "why", None)
    publisher.close(end=True)
    world.run(1)
    assert world.folded().letters == [(0, "why", b"bad")]
    assert world.folded().state.ended


def test_a_burst_of_large_rejects_is_split() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    for n in range(40):
        publisher.reject(b"x" * 60_000, f"why {n}", None)
    world.run(1)
    assert max(len(r.value or b"") for r in world.memory.committed(world.target.feed)) < 1_000_000
    assert [seq for seq, _, _ in world.folded().letters] == list(range(40))


def test_a_reject_keeps_no_more_than_a_dead_letter_may() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    publisher.reject(b"x" * 70_000, "\udc80" + "y" * 5_000, None)
    world.run(1)
    ((_, reason, raw),) = world.folded().letters
    assert len(raw) == 65_536
    assert reason.startswith("?y")
    assert len(reason) == 2_000
