"""What a publisher refused, in the fold: once, at its position, in a bucket of its own (A2.2)."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sunion.bucket import Buckets
from sunion.model import FOREVER, Reject, SourceRecord
from sunion.source import SourceFold, fold
from tests.sunion.lists import ListOps

BUCKETS = Buckets(1_000)
START = SourceFold(5_000, 1, "u", last_seq=3)


def reject(seq: int) -> Reject:
    return Reject("s", 0, f"bad {seq}", b"", seq)


def said(seqs: tuple[int, ...], refused: tuple[int, ...], **more: object) -> SourceRecord:
    rows = [(5_000 + seq, seq) for seq in seqs] or None
    stimes = tuple(5_000 + seq for seq in seqs)
    rejects = tuple(reject(seq) for seq in refused)
    record = SourceRecord(0, 1, "u", False, seqs, stimes, rows, rejects=rejects)
    return replace(record, **more)  # type: ignore[arg-type]


def judge(state: SourceFold, record: SourceRecord) -> tuple[SourceFold, list[int], list[int], int]:
    """The fold after it, seqs of rows, of rejects, number of duplicates."""
    after, accepted = fold(state, record, BUCKETS, ListOps(), "s", 60_000_000)
    assert accepted.reject_bucket in (0, 5)
    rows = [seq for _, part, _ in accepted.rows for _, seq in part]
    return after, rows, [r.seq for r in accepted.rejects], accepted.duplicates


def test_rejects_and_tuples_advance_the_last_seq_alike() -> None:
    after, rows, refused, _ = judge(START, said((4, 6), (5, 7)))
    assert (after.last_seq, rows, refused) == (7, [4, 6], [5, 7])
    assert judge(after, said((4, 6), (5, 7))) == (after, [], [], 4)


def test_what_is_known_of_a_batch_is_dropped_and_the_rest_counts() -> None:
    state = replace(START, last_seq=5)
    after, rows, refused, duplicates = judge(state, said((4, 6), (5, 7)))
    assert (after.last_seq, rows, refused, duplicates) == (7, [6], [7], 2)


def test_the_first_row_of_a_source_may_be_refused() -> None:
    fresh = SourceFold(5_000, 1, "u")
    after, rows, refused, _ = judge(fresh, said((1, 2, 3), (0,)))
    assert (after.last_seq, rows, refused) == (3, [1, 2, 3], [0])
    late = replace(said((1, 2), (0,)), stimes=(4_000, 5_002))
    assert judge(fresh, late)[2] == [0, -1], "one by one, in their order"


def test_rejects_alone_count() -> None:
    after, rows, refused, _ = judge(START, said((), (4, 5)))
    assert (after.last_seq, rows, refused) == (5, [], [4, 5])
    assert judge(after, said((), (4, 5)))[2] == []


def test_a_zombies_rejects_do_not_count_nor_what_follows_the_end() -> None:
    assert fold(START, said((), (4,), uid="other"), BUCKETS, ListOps(), "s", 1)[1].fenced == 1
    ended = replace(START, boundary=FOREVER)
    assert fold(ended, said((), (4,)), BUCKETS, ListOps(), "s", 1)[1].after_end == 1


def test_the_lateness_of_the_owner_moves_the_limit_for_rows_in_the_future() -> None:
    claim = SourceRecord(1, 9, "v", claim=True, lateness_us=2_000_000)
    owned, _ = fold(START, claim, BUCKETS, ListOps(), "s", 1_000)
    assert owned.lateness_us == 2_000_000
    row = SourceRecord(2, 9, "v", False, (4,), (5_000 + 2_000_000 + 999,), [(0, 4)])
    _, accepted = fold(owned, row, BUCKETS, ListOps(), "s", 1_000)
    assert len(accepted.rows) == 1
    _, accepted = fold(owned, replace(row, stimes=(row.stimes[0] + 1,)), BUCKETS, ListOps(), "s", 1_000)
    assert accepted.rejects[0].reason.startswith("future")


@given(
    st.lists(st.tuples(st.sampled_from(["row", "reject"]), st.integers(3_000, 8_000)), max_size=8),
    st.integers(-1, 6),
    st.integers(0, 2),
)
def test_a_batch_that_is_not_the_usual_one_counts_position_by_position(
    items: list[tuple[str, int]], last: int, foreign: int
) -> None:
    """Positions from 0 up, each a row (of any time) or a reject; besides, rejects without a position."""
    state, horizon = replace(START, last_seq=last), 5_000 + 2_500
    rows = [(stime, seq) for seq, (kind, stime) in enumerate(items) if kind == "row"]
    refused = [seq for seq, (kind, _) in enumerate(items) if kind == "reject"]
    record = SourceRecord(
        7, 1, "u", False, tuple(seq for _, seq in rows), tuple(stime for stime, _ in rows), rows or None,
        rejects=tuple(reject(seq) for seq in [*[-1] * foreign, *refused]),
    )  # fmt: skip
    after, accepted = fold(state, record, BUCKETS, ListOps(), "s", 2_500)
    taken, letters, late, expected_last = [], [-1] * foreign, 0, last
    for seq, (kind, stime) in enumerate(items):
        if seq <= expected_last:
            continue
        if kind == "reject":
            letters.append(seq)
        elif stime < 5_000:
            late += 1
            letters.append(-1)
            continue
        elif stime >= horizon:
            letters.append(-1)
        else:
            taken.append((stime // 1_000, (stime, seq)))
        expected_last = seq
    assert after.last_seq == expected_last
    assert [(b, row) for b, part, _ in accepted.rows for row in part] == sorted(taken, key=lambda one: one[0])
    assert [r.seq for r in accepted.rejects] == letters
    assert accepted.late == late
