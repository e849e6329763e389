"""A publisher at work, on the simulated log (A2, B5, B6, B9)."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.client.pump import ReplayPace
from borealis_py.client.stimes import Boundaries
from borealis_py.client.target import (
    PublisherError,
    PublishFailed,
    StreamEnded,
    StreamFenced,
    StreamForgotten,
    StreamTaken,
)
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, TopicSpec
from borealis_py.log.messages import Description, encode
from borealis_py.log.records import BatchHeader, ClaimHeader, pack, unpack_source, unpack_stimes
from borealis_py.simulation.latency import Latencies, between
from sunion.model import FOREVER
from tests.client.folded import AHEAD_MAX_US, T0, PublishedSource, W, inputs, row
from tests.examples import examples


def headers(world: PublishedSource) -> list[tuple[int, ClaimHeader | BatchHeader]]:
    return [(r.timestamp_ms, unpack_source(r.value)[0]) for r in world.memory.committed(world.target.feed)]


def test_live_rows_come_back_from_the_log_with_the_times_at_which_they_were_sent() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    sent = []
    for n in range(50):
        world.run(0.037)
        assert publisher.send(row(n))
        sent.append((world.now // W, n, world.now, row(n)))
    publisher.close(end=True)
    world.run(1)
    folded = world.folded()
    assert folded.rows == sent
    assert (folded.rejects, folded.duplicates, folded.late, folded.fenced) == ([], 0, 0, 0)
    assert folded.state.ended
    assert publisher.session.settled
    assert publisher.counts.sent == 50
    assert {h.encoding for _, h in headers(world) if isinstance(h, BatchHeader)} == {"json"}


def test_a_boundary_lies_in_the_log_for_every_bucket_end_of_the_clock_also_when_idle() -> None:
    world = PublishedSource()
    world.ready("p")
    world.run(1.05)
    expected = list(range(T0 + W, world.now // W * W + 1, W))
    assert len(expected) >= 10
    assert world.folded().boundaries == expected


def test_a_boundary_rides_on_the_last_rows_of_its_bucket() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    world.scheduler.run_until(T0 + 5 * W + 10)
    for n in range(3):
        publisher.send(row(n))
    world.scheduler.run_until(T0 + 7 * W + 50_000)
    stamped = [(ms, h) for ms, h in headers(world) if isinstance(h, BatchHeader)][-2:]
    carrying, idle = stamped
    assert carrying[0] == (T0 + 5 * W) // 1000
    assert (len(unpack_stimes(carrying[1].stimes)), carrying[1].boundary) == (3, T0 + 6 * W)
    assert (len(idle[1].stimes), idle[1].boundary, idle[1].first_seq) == (0, T0 + 7 * W, 3)
    assert unpack_source(world.memory.committed(world.target.feed)[-1].value)[1] == b"", "no rows, no bytes of them"
    assert idle[0] == (T0 + 6 * W) // 1000


LARGE = {**row(0), "carrier": "x" * 1_000}


@pytest.mark.parametrize(("rows", "paced", "early"), [(40, False, True), (40, True, True), (20, False, False)])
def test_a_large_batch_leaves_ahead_of_its_buckets_end_and_a_small_one_does_not(
    rows: int, paced: bool, early: bool
) -> None:
    """Rows that come in its last third only are still to be read when it ends."""
    world = PublishedSource()
    publisher = world.ready("p", boundaries=Boundaries.PACED if paced else Boundaries.CLOCK)
    begin = T0 + 5 * W

    def send(at: int) -> None:
        world.scheduler.run_until(at)
        if paced:
            publisher.hold(at)
        publisher.send(LARGE, at if paced else None)

    def told() -> list[tuple[int, int | None]]:
        batches = [h for _, h in headers(world) if isinstance(h, BatchHeader) and h.stimes]
        return [(len(unpack_stimes(h.stimes)), h.boundary) for h in batches]

    for n in range(rows):
        send(begin + 10 + n * 1_000)
    assert told() == []
    send(begin + 75_000)
    send(begin + 80_000)
    world.scheduler.run_until(begin + 90_000)
    assert told() == ([(rows + 1, begin)] if early else [])
    send(begin + W + 1)
    world.scheduler.run_until(begin + W + 50_000)
    assert sum(n for n, _ in told()) == rows + 2
    assert told()[-1] == ((1 if early else rows + 2), begin + W)


def test_the_boundary_leaves_when_the_clock_passes_it_and_not_before() -> None:
    world = PublishedSource()
    world.ready("p")
    world.scheduler.run_until(T0 + 5 * W - 1)
    assert not [h for _, h in headers(world) if isinstance(h, BatchHeader) and h.boundary == T0 + 5 * W]
    world.scheduler.run_until(T0 + 5 * W + 2_000)  # the longest that an append takes
    assert [h for _, h in headers(world) if isinstance(h, BatchHeader) and h.boundary == T0 + 5 * W]


def test_after_a_pause_one_boundary_covers_it_and_rows_are_still_taken() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    world.run(0.25)
    publisher.pause()
    world.run(3)
    publisher.resume()
    assert publisher.send(row(0))
    world.run(0.5)
    folded = world.folded()
    assert [r[3] for r in folded.rows] == [row(0)]
    steps = [b - a for a, b in zip(folded.boundaries, folded.boundaries[1:], strict=False)]
    assert max(steps) > 20 * W
    assert sum(s > W for s in steps) == 1


def test_the_first_boundary_is_the_start_of_the_origin_and_a_clock_before_it_counts_as_it() -> None:
    world = PublishedSource(origin=T0 // W + 20)
    publisher = world.ready("p", lateness_us=0)
    assert publisher.session.boundary == T0 + 20 * W
    assert publisher.send(row(0))
    assert not publisher.send(row(1), T0 + 20 * W - 1)
    world.run(3)
    assert world.folded().rows == [(T0 // W + 20, 0, T0 + 20 * W, row(0))]
    assert "late" in world.dead_letters()[0][0]


def test_a_clock_that_is_set_back_breaks_no_promise() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    session = publisher.session
    session.send(row(0), None, None, T0 + 10 * W)
    session.send(row(1), None, None, T0 + 3 * W)
    world.run(3)
    assert [r[2] for r in world.folded().rows] == [T0 + 10 * W, T0 + 10 * W]
    assert world.folded().late == 0


def test_stamps_do_not_go_back_with_the_clock() -> None:
    world = PublishedSource()
    session = world.ready("p").session
    session.send(row(0), None, None, T0 + 10 * W + 500)
    session.send(row(1), None, None, T0 + 10 * W + 100)
    session.send_many([row(2)], None, None, T0 + 10 * W + 200)
    world.run(3)
    assert [r[2] for r in world.folded().rows] == [T0 + 10 * W + 500] * 3


def test_a_row_that_was_held_for_moves_the_boundary_before_it_is_judged() -> None:
    world = PublishedSource()
    publisher = world.ready("p", boundaries=Boundaries.PACED)
    world.scheduler.run_until(T0 + 10 * W)
    session = publisher.session
    session.hold(T0 + 3 * W)
    assert session.send(row(0), T0 + 3 * W, None, world.now)
    session.hold(T0 + 7 * W + 5)
    assert not session.send(row(1), T0 + 4 * W, None, world.now)
    assert session.boundary == T0 + 7 * W


def test_a_row_before_a_boundary_that_is_ahead_of_the_clock_is_not_told_to_be_late_by_less_than_nothing() -> None:
    world = PublishedSource(origin=T0 // W + 2_000)
    publisher = world.ready("p", lateness_us=0)
    assert not publisher.send(row(0), world.now + W)
    publisher.close(end=False)
    world.run(1)
    ((refused,),) = [h.rejects for _, h in headers(world) if isinstance(h, BatchHeader) and h.rejects]
    assert (refused.reason.split(":")[0], refused.late_us) == ("late", 0)
    assert publisher.counts.lateness.max_us == 0


def test_a_row_that_is_late_tells_every_reader_by_how_much() -> None:
    world = PublishedSource()
    publisher = world.ready("p", lateness_us=W)
    world.scheduler.run_until(T0 + 10 * W + 7)
    assert not publisher.send(row(0), T0 + 4 * W)
    assert not publisher.send({"bad": 1}, world.now)
    publisher.close(end=False)
    world.run(1)
    (refused,) = [h.rejects for _, h in headers(world) if isinstance(h, BatchHeader) and h.rejects]
    assert [reject.late_us for reject in refused] == [6 * W + 7, 0]


def test_paced_replay_gives_each_row_its_stime_when_the_clock_gets_there() -> None:
    world = PublishedSource()
    base, start, speed = 5_000_000_000, T0 + 1_000_000, 60
    at = [base + i * 1_234_567 for i in range(100)]
    publisher = world.ready("p", rows=inputs(at), pace=ReplayPace(base, start, speed), boundaries=Boundaries.PACED)
    expected = [start + (t - base) // speed for t in at]
    world.scheduler.run_until(expected[40])
    assert publisher.last_seq == 40
    world.scheduler.run_until(expected[41] - 1)
    assert publisher.last_seq == 40
    world.run(5)
    folded = world.folded()
    assert [(s, r) for _, _, s, r in folded.rows] == [(s, row(i)) for i, s in enumerate(expected)]
    assert folded.boundaries[-1] == world.now // W * W, "after its last row it goes on with the clock"


def test_rows_that_were_due_while_no_publisher_ran_are_not_late() -> None:
    world = PublishedSource()
    at = [T0 + i * 70_000 for i in range(40)]
    paced = {"rows": inputs(at), "pace": ReplayPace(T0, T0, 1), "boundaries": Boundaries.PACED}
    first = world.ready("p", **paced)
    world.run(0.5)
    world.memory.kill("p")
    first.stop()
    world.run(1)
    second = world.ready("q", **paced)
    world.run(3)
    folded = world.folded()
    assert [(seq, stime) for _, seq, stime, _ in folded.rows] == list(enumerate(at))
    assert (folded.late, second.counts.rejected) == (0, 0)
    assert folded.boundaries[-1] == world.now // W * W


def test_history_as_fast_as_possible_closes_buckets_as_rows_of_later_ones_appear() -> None:
    world = PublishedSource(origin=1_000)
    at = [1_000 * W + offset for offset in (0, 5, W, W + 1, 90 * W, 10**12)]
    publisher = world.ready("p", rows=inputs(at), boundaries=Boundaries.DATA)
    world.run(1)
    folded = world.folded()
    assert [s for _, _, s, _ in folded.rows] == at
    assert folded.boundaries == [s // W * W for s in at[2:3] + at[4:]]
    assert publisher.counts.rejected == 0
    publisher.close(end=True)
    world.run(1)
    assert world.folded().state.boundary == FOREVER


def test_end_rides_on_the_last_row_and_keeps_a_timestamp_that_the_log_takes() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    publisher.send(row(0))
    publisher.close(end=True)
    world.run(1)
    stamp, last = headers(world)[-1]
    assert isinstance(last, BatchHeader)
    assert (last.boundary, len(last.stimes), stamp) == (FOREVER, 8, world.folded().rows[0][2] // W * W // 1000)
    with pytest.raises(PublisherError, match="closed"):
        publisher.send(row(1))


def test_an_ended_source_cannot_be_published_again() -> None:
    world = PublishedSource()
    world.ready("p").close(end=True)
    world.run(1)
    before = len(headers(world))
    second = world.publisher("q", take_over=True)
    world.run(3)
    assert isinstance(second.error, StreamEnded)
    assert "'ewr'" in str(second.error)
    assert "--reset" in str(second.error)
    assert len(headers(world)) == before


@pytest.mark.parametrize("take_over", [False, True], ids=["watched", "taken over"])
def test_a_source_that_ends_while_it_is_claimed_is_not_taken(take_over: bool) -> None:
    """END lies behind what the newcomer had read when it began to watch, and before its claim: nobody would ever read
    the rows that it sent."""
    world = PublishedSource()
    first = world.ready("p")
    first.send(row(0))
    world.run(0.3)
    world.memory.set_delays("q", Latencies(append=between(400_000, 410_000)))
    second = world.publisher("q", take_over=take_over)
    world.run(0.2)
    first.close(end=True)
    world.run(3)
    assert isinstance(second.error, StreamEnded)
    found = [one for _, one in headers(world)]
    assert isinstance(found[-1], ClaimHeader) is take_over, "it was too late to take it back"
    last = found[-2] if take_over else found[-1]
    assert isinstance(last, BatchHeader)
    assert last.boundary == FOREVER


def test_a_second_publisher_is_refused_while_the_first_writes_and_the_first_goes_on() -> None:
    world = PublishedSource()
    first = world.ready("p")
    second = world.publisher("q")
    world.run(3)
    assert isinstance(second.error, StreamTaken)
    assert "'ewr'" in str(second.error)
    assert "--take-over" in str(second.error)
    first.send(row(0))
    world.run(0.5)
    assert len(world.folded().rows) == 1
    assert first.error is None


def test_take_over_replaces_a_publisher_that_writes_which_then_stops_with_an_error() -> None:
    world = PublishedSource()
    first = world.ready("p")
    first.send(row(0))
    world.run(0.3)
    second = world.ready("q", take_over=True)
    assert second.last_seq == 0
    second.send(row(1))
    world.run(0.5)
    assert isinstance(first.error, StreamFenced)
    assert "'ewr'" in str(first.error)
    assert [r[3] for r in world.folded().rows] == [row(0), row(1)]
    assert second.error is None


def test_a_dead_publisher_is_replaced_after_watching_although_its_last_records_still_land() -> None:
    for seed in range(20):
        world = PublishedSource(seed)
        first = world.ready("p")
        world.run(0.299)
        first.send(row(0))
        first.session.flush()
        world.memory.kill("p")
        first.stop()
        began = world.now
        second = world.ready("q")
        assert 1_500_000 <= world.now - began < 1_600_000
        assert second.last_seq in (-1, 0)


@pytest.mark.parametrize("after_us", [0, 20_000, 1_000_000])
def test_a_source_that_is_trimmed_while_a_publisher_looks_for_its_end_is_taken_all_the_same(after_us: int) -> None:
    """It had found from where to read; then replicas deleted the records there (R16.6)."""
    world = PublishedSource()
    first = world.ready("p")
    for n in range(10):
        first.send(row(n))
        world.run(0.1)
    first.stop()
    end = len(world.memory.committed(world.target.feed))
    second = world.publisher("q")
    world.scheduler.run_until(world.now + after_us)
    world.memory.delete_before(world.target.feed, end - 3)
    world.run(3)
    assert second.error is None
    assert second.ready
    assert second.last_seq == 9
    second.send(row(10))
    world.run(0.5)
    assert [seq for _, seq, *_ in world.folded().rows] == list(range(11))


def test_nobody_before_means_nothing_to_watch() -> None:
    world = PublishedSource()
    world.ready("p")
    assert world.now - T0 < 20_000


def test_of_two_publishers_that_start_at_once_one_wins_and_the_other_is_told() -> None:
    for seed in range(30):
        world = PublishedSource(seed)
        both = [world.publisher("p"), world.publisher("q")]
        world.run(5)
        lost = [p for p in both if p.error]
        won = [p for p in both if p.ready and not p.error]
        assert (len(lost), len(won)) == (1, 1)
        assert isinstance(lost[0].error, StreamTaken | StreamFenced)
        won[0].send(row(0))
        world.run(0.5)
        assert len(world.folded().rows) == 1


def test_two_take_overs_at_once_leave_one_owner() -> None:
    for seed in range(30):
        world = PublishedSource(seed)
        world.ready("o")
        both = [world.publisher("p", take_over=True), world.publisher("q", take_over=True)]
        world.run(5)
        assert sum(p.ready and p.error is None for p in both) == 1


def test_records_of_strangers_in_the_source_do_not_matter_to_a_publisher() -> None:
    world = PublishedSource()
    alien = world.memory.client("alien").appender(lambda: None)
    for value in (None, b"", b"{}", b"BZ\x01\x00\x00\x00\x01\xc1", b"BZ\x02"):
        alien.append(NewRecord(world.target.feed, value))
    world.run(0.1)
    assert world.ready("p").send(row(0))


def test_another_life_in_the_source_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    world = PublishedSource()
    settings = Feed(topics.settings("flights"))
    world.memory.client("admin").admin().create([TopicSpec(settings.topic)])
    world.memory.broker.append(NewRecord(settings, encode(Description("{}", "h", T0 // W, "f", "a1")), b"app"))
    publisher, client, looks = world.ready("p"), world.memory.client("p"), []
    lookup = client.lookup
    monkeypatch.setattr(client, "lookup", lambda: looks.append(world.now) or lookup())
    for _ in range(2):
        world.memory.broker.append(NewRecord(world.target.feed, pack(ClaimHeader("b2", 9, "zombie"))))
        world.run(1)
    assert len(looks) == 1
    assert publisher.send(row(0))


def test_after_retention_took_the_epoch_record_the_rest_is_still_understood() -> None:
    world = PublishedSource()
    first = world.ready("p")
    for n in range(5):
        first.send(row(n))
        world.run(0.2)
    world.memory.kill("p")
    first.stop()
    world.memory.delete_before(world.target.feed, 4)
    assert world.ready("q").last_seq == 4


def test_after_retention_left_nothing_but_boundaries_the_rows_before_them_still_count() -> None:
    """A live publisher that numbered its rows from 0 again would have them dropped as repeated ones."""
    world = PublishedSource()
    first = world.ready("p")
    for n in range(5):
        assert first.send(row(n))
    world.run(2)
    first.pause()
    before = world.folded().state
    world.memory.delete_before(world.target.feed, world.memory.broker.partition(world.target.feed).stable_end - 1)
    second = world.ready("q")
    assert second.last_seq == 4
    assert second.session.source.claim.epoch > before.epoch


def test_after_retention_took_all_the_source_is_refused_by_name() -> None:
    """Simulator, seed 610902: claims were numbered from 1 again, and replicas passed them over for ever."""
    world = PublishedSource()
    first = world.ready("p")
    first.send(row(0))
    world.run(2)
    first.pause()
    world.run(1)
    world.memory.delete_before(world.target.feed, world.memory.broker.partition(world.target.feed).stable_end)
    second = world.publisher("q")
    world.run(3)
    assert isinstance(second.error, StreamForgotten)
    assert "borealis up --reset" in str(second.error)


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"n": 1, "delay": 1.0, "late": True}, "missing required field `carrier`"),
        ({**row(1), "n": "one"}, "$.n"),
        ({**row(1), "n": 1.5}, "$.n"),
        ({**row(1), "n": True}, "$.n"),
        ({**row(1), "n": 2**63}, "$.n"),
        ({**row(1), "late": 1}, "$.late"),
        ({**row(1), "carrier": 7}, "$.carrier"),
        ({**row(1), "carrier": "\ud800"}, "not valid Unicode"),
        ({**row(1), "delay": float("nan")}, "field `delay` is nan"),
        ({**row(1), "delay": float("-inf")}, "field `delay` is -inf"),
        ({**row(1), "delay": object()}, "$.delay"),
        ({**row(1), "carrier": "x" * 1_000_000}, "bytes, row_max is 1000000"),
    ],
)
def test_a_row_that_does_not_fit_the_schema_is_a_dead_letter_and_the_next_one_is_fine(bad: dict, reason: str) -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    assert publisher.send(row(0))
    assert not publisher.send(bad)
    assert publisher.send(row(2))
    world.run(1)
    ((why, raw),) = world.dead_letters()
    assert why.startswith("malformed: ")
    assert reason in why
    assert raw.startswith((b"{", b'"{')), "the row as it was"
    assert len(raw) <= 65_536
    assert [r[3]["n"] for r in world.folded().rows] == [0, 2]
    assert (publisher.counts.sent, publisher.counts.rejected) == (2, 1)


def test_a_dead_letter_holds_the_row() -> None:
    world = PublishedSource()
    world.ready("p").send({"carrier": "UA", "n": "x"})
    world.run(1)
    ((_, raw),) = world.dead_letters()
    assert json.loads(raw) == {"carrier": "UA", "n": "x"}


@pytest.mark.parametrize(
    ("stime", "reason"),
    [(-W, "late"), (AHEAD_MAX_US, "future"), (2.5, "whole number"), (True, "whole number"), ("1", "whole number")],
)
def test_an_stime_that_is_late_or_far_ahead_or_no_time_is_a_dead_letter(stime: object, reason: str) -> None:
    world = PublishedSource()
    publisher = world.ready("p", lateness_us=0)
    world.scheduler.run_until(T0 + 5 * W)
    bad = world.now + stime if type(stime) is int else stime
    assert not publisher.send(row(0), bad)  # type: ignore[arg-type]
    assert publisher.send(row(1), world.now + AHEAD_MAX_US - 1_000_000)
    assert publisher.send(row(2), world.now)
    world.run(1)
    ((why, _),) = world.dead_letters()
    assert reason in why
    assert [r[3]["n"] for r in world.folded().rows] == [1, 2], "a far stime holds nobody back"


def test_history_needs_an_stime_and_a_wrong_one_in_the_future_does_not_close_the_source() -> None:
    world = PublishedSource(origin=0)
    publisher = world.ready("p", boundaries=Boundaries.DATA)
    assert not publisher.send(row(0), None)
    assert not publisher.send(row(1), T0 + 10**12)
    assert not publisher.send(row(2), -1)
    assert publisher.send(row(3), 5)
    publisher.close(end=True)
    world.run(1)
    assert [why.split()[0] for why, _ in world.dead_letters()] == ["stime", "future:", "the"]
    assert world.dead_letters()[2][0].startswith(
        "the row's time is 1969-12-31T23:59:59.999999Z, and times of rows begin"
    )
    assert len(world.folded().rows) == 1


def test_batches_stay_below_the_envelope_limit_and_a_large_row_goes_alone() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    wide = {**row(0), "carrier": "x" * 300_000}
    huge = {**row(0), "carrier": "y" * 950_000}
    for r in (row(0), huge, wide, wide, wide, row(5)):
        assert publisher.send(r)
    world.run(1)
    batches = [unpack_source(r.value) for r in world.memory.committed(world.target.feed)]
    sizes = [len(h.stimes) // 8 for h, _ in batches if isinstance(h, BatchHeader) and h.stimes]
    assert sizes == [1, 1, 2, 2]
    small = [len(r.value or b"") for r in world.memory.committed(world.target.feed) if len(r.value or b"") < 950_000]
    assert max(small) <= 900_000
    assert len(world.folded().rows) == 6


def test_an_append_that_the_log_refuses_stops_the_publisher_with_an_error() -> None:
    world = PublishedSource()
    publisher = world.ready("p")
    world.memory.client("admin").admin().delete([world.target.feed.topic])
    publisher.send({"bad": 1})
    world.run(31)  # a client waits for a topic that nobody knows
    assert isinstance(publisher.error, PublishFailed)
    assert world.target.feed.topic in str(publisher.error)


def test_rows_before_the_source_is_claimed_are_an_error() -> None:
    publisher = PublishedSource().publisher("p")
    with pytest.raises(PublisherError, match="not ready"):
        publisher.send(row(0))


def test_positions_of_an_input_skip_what_is_published_and_leave_gaps_for_what_is_bad() -> None:
    world = PublishedSource()
    first = world.ready("p")
    first.send(row(0), seq=0)
    first.send({"bad": 1}, seq=1)
    first.send(row(2), seq=2)
    first.close(end=False)
    world.run(1)
    second = world.ready("q")
    assert [second.send(row(n), seq=n) for n in range(4)] == [False, False, False, True]
    assert second.counts.skipped == 3
    world.run(1)
    assert [r[1] for r in world.folded().rows] == [0, 2, 3]


events = st.lists(st.tuples(st.sampled_from(["kill", "cut", "pause"]), st.integers(1, 60)), max_size=4)


@settings(deadline=None, max_examples=examples(60))
@given(
    seed=st.integers(0, 1000),
    gaps=st.lists(st.integers(0, 3 * W), min_size=1, max_size=40),
    failures=events,
    paced=st.booleans(),
    end=st.booleans(),
)
def test_whatever_happens_to_publishers_each_input_row_is_in_the_source_exactly_once(
    seed: int, gaps: list[int], failures: list[tuple[str, int]], paced: bool, end: bool
) -> None:
    """B5, B6: a crash, a cut or a pause after any event; the successor starts its input from the beginning."""
    world = PublishedSource(seed)
    at = [T0 + sum(gaps[: i + 1]) for i in range(len(gaps))]
    mode = {"pace": ReplayPace(T0, T0, 1), "boundaries": Boundaries.PACED} if paced else {"boundaries": Boundaries.DATA}
    old = []
    for i, (failure, steps) in enumerate(failures):
        publisher = world.publisher(f"p{i}", rows=inputs(at), take_over=True, **mode)
        for _ in range(steps):
            world.scheduler.step()
        if failure == "kill":
            world.memory.kill(f"p{i}")
            publisher.stop()
        elif failure == "cut":
            world.memory.cut(f"p{i}")
        else:
            publisher.pause()
        old.append((failure, i, publisher))
    last = world.ready("last", rows=inputs(at), take_over=True, end=end, **mode)
    for failure, i, publisher in old:
        if failure == "cut":
            world.memory.heal(f"p{i}")
        publisher.resume()
    world.run(60)
    folded = world.folded()
    assert [(seq, stime, r) for _, seq, stime, r in folded.rows] == [(i, t, row(i)) for i, t in enumerate(at)]
    assert folded.late == 0
    everybody = [p for _, _, p in old] + [last]  # one that was held up before its claim may take over after the last
    assert {type(p.error) for p in everybody} <= {type(None), StreamFenced, StreamTaken, StreamEnded, PublishFailed}
    assert any(p.ready and p.error is None for p in everybody)
    assert folded.state.ended == end or last.error is not None


@settings(deadline=None, max_examples=examples(100))
@given(
    st.lists(st.tuples(st.integers(0, 250_000), st.one_of(st.none(), st.integers(-3 * W, 5 * W))), max_size=60),
    st.sampled_from(list(Boundaries)),
    st.sampled_from((0, 1, W, 2 * W + 7)),
)
def test_after_boundary_t_there_is_no_row_below_t(
    steps: list[tuple[int, int | None]], boundaries: Boundaries, lateness_us: int
) -> None:
    """The promise of A2, for every publisher record as it lies in the log, not only for what a fold lets through."""
    world = PublishedSource()
    late = None if boundaries is Boundaries.PACED else lateness_us
    publisher = world.ready("p", boundaries=boundaries, lateness_us=late)
    accepted = 0
    for n, (wait_us, offset) in enumerate(steps):
        world.scheduler.run_until(world.now + wait_us)
        accepted += publisher.send(row(n), None if offset is None else world.now + offset)
    publisher.close(end=False)
    world.run(1)
    promised, last_seq = 0, -1
    for _, header in headers(world):
        if isinstance(header, BatchHeader):
            stimes = unpack_stimes(header.stimes)
            assert all(s >= promised for s in stimes)
            assert len({s // W for s in stimes}) <= 1, "a batch never crosses a bucket"
            assert header.first_seq > last_seq
            last_seq = max(last_seq, header.first_seq + header.positions - 1)
            promised = max(promised, header.boundary or 0)
    folded = world.folded()
    assert len(folded.rows) == accepted
    assert (folded.late, folded.duplicates, folded.rejects) == (0, 0, [])
    assert len(world.dead_letters()) == len(steps) - accepted


def test_what_a_replaced_publisher_still_had_on_its_way_does_not_count() -> None:
    world = PublishedSource()
    first = world.ready("p")
    first.send(row(0), seq=0)
    world.run(0.3)
    world.memory.cut("p")
    first.send({**row(1), "carrier": "zombie"}, seq=1)
    world.run(0.3)
    second = world.ready("q")
    assert second.last_seq == 0
    second.send(row(1), seq=1)
    world.run(0.3)
    world.memory.heal("p")
    world.run(0.5)
    folded = world.folded()
    assert [r[3] for r in folded.rows] == [row(0), row(1)]
    assert folded.fenced == 1
    assert isinstance(first.error, StreamFenced)
