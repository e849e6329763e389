"""The checker on histories made by hand: a good one gives no anomaly, each fault its own kind and no other."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from borealis_py.verify import AnomalyKind, subscribers
from borealis_py.verify.evidence import Blackout, DeadLetterRecord, ProgressRecord, Saw
from borealis_py.verify.history import HistoryRecord
from borealis_py.verify.network import Truth
from borealis_py.verify.partitions import Piece
from borealis_py.verify.report import show
from borealis_py.verify.subscribers import TURN_US, allowed
from tests.harness.network import BUCKET_US, CHAIN, SINGLE, WINDOW_US
from tests.verify.handmade import B0, BACK, HEALED, LAST, LOST, T0, USUAL_US, X_US, HandmadeTopics, good, moved

Fault = Callable[[HandmadeTopics], None]
RESULT = Piece(1)


def test_a_good_history_gives_no_anomaly() -> None:
    verdict = good().judge()
    assert verdict.anomalies == []
    assert verdict.looked_at["source tuples"] == 120
    assert verdict.looked_at["tentative statements"] == 4 * (HEALED - LOST)
    assert verdict.looked_at["corrected rows"] == len(good().corrected) > 20
    assert verdict.looked_at["dead letters"] == 3
    assert verdict.looked_at["buckets timed"] == LAST - B0
    assert max(verdict.delays_ms) == pytest.approx((X_US / 2 - USUAL_US) / 1000)


def test_the_network_says_what_a_plain_loop_computes() -> None:
    logs = good().sources
    found = Truth(CHAIN, {s: log.rows for s, log in logs.items()}).stable(RESULT)
    at = WINDOW_US * (T0 // WINDOW_US + 1)
    for row in found[(at + WINDOW_US) // BUCKET_US - 1]:
        start, end, origin, k, n, total, latest, stime = row
        mine = [r for r in logs[str(origin)].rows if start <= r[-1] < end and r[1] == k and r[2] is not None]  # type: ignore[operator]
        assert (n, total, latest) == (len(mine), sum(r[2] for r in mine), mine[-1][2])  # type: ignore[misc]
        assert (start, end, stime) == (at, at + WINDOW_US, at + WINDOW_US - 1)
    assert Truth(SINGLE, {s: log.rows for s, log in logs.items()}).stable(Piece(0)) == found


# One fault each ------------------------------------------------------------------------------------------------------


def first_stable(world: HandmadeTopics, stage: int, k: int) -> int:
    return next(i for i, r in enumerate(world.replicas[stage][k]) if r.kind == "STABLE")


def tentative_with_rows(world: HandmadeTopics, stage: int = 1, below: int = BACK) -> int:
    records = world.replicas[stage][0]
    return next(i for i, r in enumerate(records) if r.kind == "TENTATIVE" and r.rows and r.bucket < below)


def seen(world: HandmadeTopics, kind: str, rows: bool = True) -> int:
    return next(i for i, s in enumerate(world.live) if s.kind == kind and bool(s.rows) is rows)


def altered(record: HistoryRecord) -> HistoryRecord:
    """One row fewer."""
    return replace(record, rows=record.rows[:-1])


def repeats_a_row(w: HandmadeTopics) -> None:
    w.corrected.append(replace(w.corrected[0], offset=len(w.corrected)))


def delivers_a_row_again(w: HandmadeTopics) -> None:
    w.polled.append(w.polled[-1])


def delivers_a_bucket_again(w: HandmadeTopics) -> None:
    w.live.insert(3, w.live[2])


def repeats_a_dead_letter(w: HandmadeTopics) -> None:
    w.dead.append(w.dead[0])


def loses_a_row(w: HandmadeTopics) -> None:
    row = w.corrected.pop(4)
    w.polled = [s for s in w.polled if (s.bucket, s.index) != row.id]


def loses_an_acknowledged_tuple(w: HandmadeTopics) -> None:
    w.acknowledged["a"] += 1


def loses_a_numbered_tuple(w: HandmadeTopics) -> None:
    w.sources["b"].seqs = [n + (n > 5) for n in w.sources["b"].seqs]


def loses_a_dead_letter(w: HandmadeTopics) -> None:
    w.dead.pop()


def refuses_a_tuple_of_its_publisher(w: HandmadeTopics) -> None:
    """It is a dead letter, as every late tuple; but a publisher that owns its source sends none."""
    w.sources["a"].gone.add(len(w.sources["a"].seqs))
    w.sources["a"].dead[50] += 1
    w.dead.append(DeadLetterRecord("a", 50, "late"))


def never_says_the_end(w: HandmadeTopics) -> None:
    for records in w.replicas[0]:
        assert (records.pop().kind, records.pop().kind) == ("BOUNDARY", "REC_DONE")


def never_publishes_the_end(w: HandmadeTopics) -> None:
    w.corrected = [r for r in w.corrected if r.id is not None and r.id[0] < LAST - 2]
    w.polled = [s for s in w.polled if s.bucket < LAST - 2]


def lets_progress_fall(w: HandmadeTopics) -> None:
    w.progress[0].insert(1, ProgressRecord(9, B0 + 1))


def says_less_than_is_published(w: HandmadeTopics) -> None:
    w.progress[1][-1] = ProgressRecord(2, B0 + 10)
    w.healed = False


def says_more_than_was_closed(w: HandmadeTopics) -> None:
    for log in w.sources.values():
        log.boundary = (LAST + 1) * BUCKET_US
    w.healed = False


def leaves_a_hole_in_a_replicas_stream(w: HandmadeTopics) -> None:
    records = w.replicas[0][1]
    records[:] = [r for r in records if r.bucket != B0 + 3]


def begins_after_the_origin(w: HandmadeTopics) -> None:
    records = w.replicas[0][1]
    records[:] = [r for r in records if r.bucket != B0]


def passes_a_tentative_bucket_over(w: HandmadeTopics) -> None:
    records = w.replicas[0][1]
    records[:] = [r for r in records if (r.kind, r.bucket) != ("TENTATIVE", LOST + 2)]


def passes_over_what_it_is_to_say_first(w: HandmadeTopics) -> None:
    records = w.replicas[0][1]
    records[:] = [r for r in records if (r.kind, r.bucket) != ("TENTATIVE", LOST)]
    w.replicas[0][1] = [replace(r, diverged_from=LOST + 1) if r.kind == "TENTATIVE" else r for r in records]


def writes_what_nobody_can_read(w: HandmadeTopics) -> None:
    w.unreadable.append("offset 3: header is no array")


def delivers_an_aborted_row(w: HandmadeTopics) -> None:
    extra = replace(w.corrected[-1], offset=10_000, id=(LAST + 1, 0))
    w.aborted.append(extra)
    w.polled.append(replace(w.polled[-1], bucket=LAST + 1, index=0))


def delivers_a_stable_bucket_nobody_said(w: HandmadeTopics) -> None:
    w.live.insert(0, Saw(T0, "STABLE", B0 - 1, B0, ({"n": 1},)))


def delivers_tentative_rows_nobody_said(w: HandmadeTopics) -> None:
    i = seen(w, "TENTATIVE")
    w.live[i] = replace(w.live[i], rows=w.live[i].rows[1:])


def delivers_rows_backwards(w: HandmadeTopics) -> None:
    w.polled[2], w.polled[3] = w.polled[3], w.polled[2]


def commits_rows_backwards(w: HandmadeTopics) -> None:
    w.corrected[2], w.corrected[3] = w.corrected[3], w.corrected[2]


def delivers_buckets_backwards(w: HandmadeTopics) -> None:
    w.live[2], w.live[3] = w.live[3], w.live[2]


def shows_tentative_below_stable(w: HandmadeTopics) -> None:
    w.live.append(next(s for s in w.live if s.kind == "TENTATIVE"))
    w.complete = False


def never_delivers_a_row(w: HandmadeTopics) -> None:
    w.polled.pop()


def never_shows_a_bucket_as_stable(w: HandmadeTopics) -> None:
    w.live = [s for s in w.live if not (s.kind == "STABLE" and s.bucket >= LAST - 1)]


def never_shows_an_empty_bucket(w: HandmadeTopics) -> None:
    w.live.remove(next(s for s in w.live if s.kind == "BOUNDARY" and s.bucket > B0))


def a_killed_one_passes_a_bucket_over(w: HandmadeTopics) -> None:
    never_shows_an_empty_bucket(w)
    w.complete = False


def leaves_a_bucket_tentative(w: HandmadeTopics) -> None:
    empty = next(s for s in w.live if s.kind == "TENTATIVE" and not s.rows)
    w.live = [s for s in w.live if not (s.kind == "BOUNDARY" and s.bucket == empty.bucket) and s.kind != "REC_DONE"]


def calls_partial_rows_stable(w: HandmadeTopics) -> None:
    for records in w.replicas[0]:
        i = first_stable(w, 0, 0)
        records[i] = altered(records[i])


def publishes_partial_rows(w: HandmadeTopics) -> None:
    values = {**(w.corrected[0].row or {}), "n": 77}
    w.corrected[0] = replace(w.corrected[0], row=values)
    w.polled[0] = replace(w.polled[0], rows=(values,))


def publishes_what_there_is_not(w: HandmadeTopics) -> None:
    w.corrected.append(replace(w.corrected[-1], offset=900, id=(LAST - 1, 99)))
    w.polled.append(replace(w.polled[-1], index=99))


def hides_what_it_lacked(w: HandmadeTopics) -> None:
    """The first bucket that lacked c says that it lacked nothing; so does every later one of its window."""
    for records in w.replicas[0]:
        i = tentative_with_rows(w, 0)
        records[i] = replace(records[i], missing_sources=(), missing=(), completeness=1.0)


def drops_rows_that_it_does_not_lack(w: HandmadeTopics) -> None:
    i = tentative_with_rows(w)
    for records in w.replicas[1]:
        records[i] = altered(records[i])
    j = seen(w, "TENTATIVE")
    w.live[j] = replace(w.live[j], rows=w.live[j].rows[:-1])


def claims_to_be_complete(w: HandmadeTopics) -> None:
    records = w.replicas[0][0]
    i = tentative_with_rows(w, 0)
    records[i] = replace(records[i], completeness=1.0)


def calls_a_window_complete_that_is_not(w: HandmadeTopics) -> None:
    """Its last bucket has all sources, those before it lacked one, and it says nothing of that."""
    for records in w.replicas[1]:
        i = next(i for i, r in enumerate(records) if r.kind == "TENTATIVE" and r.rows and r.bucket >= BACK)
        assert (records[i].missing, records[i].missing_sources) == ((), ("c",))
        records[i] = replace(records[i], missing_sources=(), completeness=1.0)
    show_lacked(w, records[i].bucket, ())


def is_partial_and_names_nobody(w: HandmadeTopics) -> None:
    for records in w.replicas[1]:
        i = next(i for i, r in enumerate(records) if r.kind == "TENTATIVE" and r.rows and r.bucket >= BACK)
        records[i] = replace(records[i], missing_sources=())
    show_lacked(w, records[i].bucket, ())


def show_lacked(w: HandmadeTopics, bucket: int, missing_sources: tuple[str, ...]) -> None:
    """The live view passes on what the replicas said."""
    w.live = [
        replace(s, missing_sources=missing_sources) if (s.kind, s.bucket) == ("TENTATIVE", bucket) else s
        for s in w.live
    ]


def names_a_source_that_was_there(w: HandmadeTopics) -> None:
    """All of its window had b."""
    i = tentative_with_rows(w, 0)
    w.replicas[0][0][i] = replace(w.replicas[0][0][i], missing_sources=("b", "c"))


def lacks_what_there_is_not(w: HandmadeTopics) -> None:
    records = w.replicas[0][0]
    i = tentative_with_rows(w, 0)
    records[i] = replace(records[i], missing_sources=("c", "d"))


def diverges_before_it_did(w: HandmadeTopics) -> None:
    records = w.replicas[0][0]
    i = tentative_with_rows(w, 0)
    records[i] = replace(records[i], diverged_from=LOST - 1)


def diverges_after_it_did(w: HandmadeTopics) -> None:
    records = w.replicas[0][0]
    i = tentative_with_rows(w, 0)
    records[i] = replace(records[i], diverged_from=records[i].bucket + 1)


def says_rec_done_too_early(w: HandmadeTopics) -> None:
    i = seen(w, "TENTATIVE")
    w.live.insert(i + 1, Saw(w.live[i].at_us, "REC_DONE", LAST, LAST))


def changes_a_stable_bucket(w: HandmadeTopics) -> None:
    records = w.replicas[1][0]
    records.append(altered(records[first_stable(w, 1, 0)]))


def disagrees_with_the_other_replica(w: HandmadeTopics) -> None:
    records = w.replicas[0][1]
    i = first_stable(w, 0, 1)
    records[i] = altered(records[i])


def shows_other_stable_rows(w: HandmadeTopics) -> None:
    i = seen(w, "STABLE")
    w.live[i] = replace(w.live[i], rows=w.live[i].rows[1:])


def delivers_other_rows_than_committed(w: HandmadeTopics) -> None:
    w.polled[0] = replace(w.polled[0], rows=({**w.polled[0].rows[0], "n": 77},))


def is_late(w: HandmadeTopics) -> None:
    i = next(i for i, s in enumerate(w.live) if s.bucket == LOST)
    w.live[i:] = [moved(s, X_US // 2 + TURN_US + USUAL_US + 1) for s in w.live[i:]]


def was_never_quiet(w: HandmadeTopics) -> None:
    w.live = [moved(s, 10 * X_US) for s in w.live if s.bucket >= LOST]
    w.complete = False


FAULTS: dict[AnomalyKind, tuple[Fault, ...]] = {
    AnomalyKind.DUPLICATE: (repeats_a_row, delivers_a_row_again, delivers_a_bucket_again, repeats_a_dead_letter),
    AnomalyKind.LOST_WRITE: (
        loses_a_row, loses_an_acknowledged_tuple, loses_a_numbered_tuple, refuses_a_tuple_of_its_publisher,
        loses_a_dead_letter, never_says_the_end, never_publishes_the_end,
    ),
    AnomalyKind.INCONSISTENT_OFFSETS: (
        lets_progress_fall, says_less_than_is_published, says_more_than_was_closed, leaves_a_hole_in_a_replicas_stream,
        begins_after_the_origin, passes_a_tentative_bucket_over, passes_over_what_it_is_to_say_first,
        writes_what_nobody_can_read,
    ),
    AnomalyKind.ABORTED_READ: (
        delivers_an_aborted_row, delivers_a_stable_bucket_nobody_said, delivers_tentative_rows_nobody_said,
    ),
    AnomalyKind.NONMONOTONIC_POLL: (
        delivers_rows_backwards, commits_rows_backwards, delivers_buckets_backwards, shows_tentative_below_stable,
    ),
    AnomalyKind.UNSEEN: (
        never_delivers_a_row, never_shows_a_bucket_as_stable, never_shows_an_empty_bucket,
        a_killed_one_passes_a_bucket_over, leaves_a_bucket_tentative,
    ),
    AnomalyKind.UNLABELLED_PARTIAL: (
        calls_partial_rows_stable, publishes_partial_rows, publishes_what_there_is_not, hides_what_it_lacked,
        drops_rows_that_it_does_not_lack, claims_to_be_complete, calls_a_window_complete_that_is_not,
        is_partial_and_names_nobody, names_a_source_that_was_there, lacks_what_there_is_not, diverges_before_it_did,
        diverges_after_it_did, says_rec_done_too_early,
    ),
    AnomalyKind.STABLE_CHANGED: (
        changes_a_stable_bucket, disagrees_with_the_other_replica, shows_other_stable_rows,
        delivers_other_rows_than_committed,
    ),
    AnomalyKind.BOUND_BROKEN: (is_late, was_never_quiet),
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "fault"), [pytest.param(w, f, id=f"{w}: {f.__name__}") for w, fs in FAULTS.items() for f in fs]
)
def test_each_fault_gives_its_kind_and_no_other(kind: AnomalyKind, fault: Fault) -> None:
    world = good()
    fault(world)
    verdict = world.judge()
    assert verdict.kinds == {kind}, verdict.anomalies[:3]


def test_every_word_has_a_fault_and_a_sentence() -> None:
    assert set(FAULTS) == set(AnomalyKind)
    assert all(w.says.endswith(".") for w in AnomalyKind)


# What is no fault ----------------------------------------------------------------------------------------------------


def first_part_of_c(w: HandmadeTopics) -> None:
    """The first of c's two tuples of bucket LOST had arrived at one replica when it ran without c's boundary."""
    part = [
        r for r in Truth(CHAIN, {s: log.rows for s, log in w.sources.items()}).stable(Piece(0))[LOST] if r[0] == "c"
    ][:1]
    assert part
    for records in w.replicas[0][:1]:
        i = next(i for i, r in enumerate(records) if r.kind == "TENTATIVE" and r.bucket == LOST)
        records[i] = replace(records[i], rows=tuple(sorted((*records[i].rows, *part), key=lambda r: (r[3], r[0]))))


def says_a_stable_bucket_again(w: HandmadeTopics) -> None:
    """A replica that restarted says from its checkpoint on again, in a range where that is shorter."""
    w.replicas[1][0] += [replace(r, inc=2) for r in w.replicas[1][0] if r.kind in ("STABLE", "BOUNDARY")]


def aborts_a_transaction(w: HandmadeTopics) -> None:
    w.aborted += [replace(r, offset=r.offset + 5_000) for r in w.corrected[:3]]


def a_subscriber_dies(w: HandmadeTopics) -> None:
    w.live, w.polled, w.complete = w.live[: HEALED - B0], w.polled[:3], False


@pytest.mark.parametrize(
    "what",
    [first_part_of_c, says_a_stable_bucket_again, aborts_a_transaction, a_subscriber_dies],
)
def test_what_may_happen_gives_no_word(what: Fault) -> None:
    world = good()
    what(world)
    assert world.judge().anomalies == []


def test_a_blackout_gives_the_buckets_it_met_a_new_start() -> None:
    evidence = good().evidence()
    end = LOST * BUCKET_US
    assert allowed(end, 0, evidence) == end + X_US + TURN_US
    evidence.blackouts = [Blackout(end + X_US, end + 3 * X_US, "broker")]
    assert allowed(end, 0, evidence) == end + 4 * X_US + TURN_US
    assert allowed(end - X_US, 0, evidence) == end + TURN_US
    evidence.blackouts = [*evidence.blackouts, Blackout(end + 4 * X_US, end + 5 * X_US, "broker again")]
    assert allowed(end, 0, evidence) == end + 6 * X_US + TURN_US
    assert allowed(end + 6 * X_US, 0, evidence) == end + 7 * X_US + TURN_US


def test_a_blackout_of_one_partition_is_no_excuse_for_another() -> None:
    evidence = good().evidence()
    end = LOST * BUCKET_US
    evidence.blackouts = [Blackout(end, end + X_US, "no replica of sums.1", partition=1)]
    assert allowed(end, 0, evidence, partition=1) == end + 2 * X_US + TURN_US
    assert allowed(end, 0, evidence, partition=0) == end + X_US + TURN_US


def test_the_table_names_every_kind_and_shows_what_is_wrong() -> None:
    world = good()
    repeats_a_row(world)
    out = io.StringIO()
    show(world.judge(), "drill", Console(file=out, width=160))
    text = out.getvalue()
    assert all(kind in text for kind in AnomalyKind)
    assert f"id {B0 + 4}:0 again" in text


@pytest.mark.parametrize("deleted", range(1, HEALED - B0))
def test_replicas_topics_may_have_lost_their_beginnings(deleted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that lies below some bucket, before the first record that reaches it."""
    monkeypatch.setattr(subscribers, "KEPT_END", 3)
    world = good()
    world.trimmed = deleted
    verdict = world.judge()
    assert not verdict.kinds, verdict


def test_what_topics_still_have_is_judged_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribers, "KEPT_END", 3)
    world = good()
    world.trimmed = 4
    at = max(i for i, saw in enumerate(world.live) if saw.kind == "STABLE")
    world.live[at] = replace(world.live[at], rows=())
    assert world.judge().kinds == {AnomalyKind.STABLE_CHANGED}


def test_a_live_view_may_begin_at_what_is_kept_and_not_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscribers, "KEPT_END", 1)
    for deleted, unseen in ((8, False), (1, True), (0, True)):
        world = good()
        world.trimmed = deleted
        world.live = [saw for saw in world.live if saw.bucket >= B0 + 8]
        assert (AnomalyKind.UNSEEN in world.judge().kinds) == unseen, deleted


# One replica runs, the other stands by --------------------------------------------------------------------------------


def takes_over(w: HandmadeTopics, until: int = 4, begins: int = 3, back: int = 20, ends: int = 22) -> None:
    """r0 dies after so many records, r1 takes over from a checkpoint, tells of the failure, and dies in the middle of
    the correction; r0 begins again from a checkpoint of r1's."""
    w.one_runs = frozenset({0, 1})
    for records in w.replicas:
        whole = list(records[0])
        records[0][:] = whole[:until] + [replace(r, inc=2) for r in whole[back:]]
        records[1][:] = whole[begins:ends]


def test_a_hole_in_one_topic_lies_in_another_where_one_replica_runs() -> None:
    world = good()
    takes_over(world)
    assert world.judge().anomalies == []
    world.one_runs = frozenset({0})
    found = world.judge().anomalies
    assert {a.kind for a in found} == {AnomalyKind.INCONSISTENT_OFFSETS}
    assert {a.where[:2] for a in found} == {world.network.stages[1].parts[0][:2]}, "the other stage's have no holes"


@pytest.mark.parametrize("gap", [{"until": 2}, {"back": 24}, {"ends": 19}])
def test_a_hole_that_no_other_topic_covers_is_seen(gap: dict[str, int]) -> None:
    world = good()
    takes_over(world, **gap)
    found = world.judge().anomalies
    assert {a.where[-1] for a in found if "no replica says buckets" in a.what} == {"*"}
    assert {a.kind for a in found} <= {AnomalyKind.INCONSISTENT_OFFSETS, AnomalyKind.ABORTED_READ}, "and views had it"


def test_a_hole_that_is_covered_with_other_rows_is_seen() -> None:
    for at, kind in ((6, AnomalyKind.UNLABELLED_PARTIAL), (3, AnomalyKind.STABLE_CHANGED)):
        world = good()
        takes_over(world, until=4, begins=0)
        mine = world.replicas[0][1]
        first = next(i for i, r in enumerate(mine) if r.kind == "STABLE" and r.rows and (i > 3) is (at > 3))
        mine[first] = altered(mine[first])
        assert world.judge().kinds == {kind}


def test_a_replica_that_has_stood_by_meanwhile_begins_anew() -> None:
    """r0 says one tentative bucket, stands by, and begins again behind what r1 has corrected: with a new divergence."""
    world = good()
    world.one_runs = frozenset({0, 1})
    for records in world.replicas:
        whole = list(records[0])
        lost = replace(whole[8], bucket=LAST - 1, end=LAST, diverged_from=LAST - 1, rows=())
        records[0][:] = [*whole[:9], replace(lost, missing=("c",), missing_sources=("c",)), *whole[28:]]
    assert not any("begins anew" in a.what or "diverged from" in a.what for a in world.judge().anomalies)
    for records in world.replicas:
        del records[1][20]
    assert any(f"nobody says buckets {LOST + 3} to {LOST + 3}" in a.what for a in world.judge().anomalies)


def test_an_incarnation_may_have_diverged_before_it_says_anything() -> None:
    """It could not read all of what had been said before its start (R17.15): nobody heard what it ran there."""
    for inc, found in ((2, False), (1, True)):
        world = good()
        for records in world.replicas:
            back = [replace(r, inc=inc, diverged_from=LOST - 3) for r in records[1][8:16]]
            records[1][8:16] = back
            records[1][16:] = [replace(r, inc=inc) for r in records[1][16:]]
        assert any("diverged from" in a.what for a in world.judge().anomalies) is found, inc
    world = good()
    for records in world.replicas:
        records[1][8:16] = [replace(r, inc=2, diverged_from=LOST + 1) for r in records[1][8:16]]
    assert any("diverged from" in a.what for a in world.judge().anomalies)
