"""Gaps as readers of a stream take them: the stable bucket counts wherever it is there (R18.5)."""

from __future__ import annotations

import pytest

from sunion.errors import IllegalTransition
from sunion.model import GapRange, Kind, Output, StableBucket, StableRange, StreamRecord, TentativeBucket
from sunion.output import SOutput
from sunion.stream_fold import Lost, Stable, StreamFold
from sunion.view import View
from tests.sunion.lists import OPS


def tentative(bucket: int, rows: str = "t") -> TentativeBucket:
    return TentativeBucket(
        inc=1, bucket=bucket, output=Output([rows]), missing_sources=("s",), missing=(), waited_us=0, completeness=0.0,
        diverged_from=2,
    )  # fmt: skip


def read(fold: StreamFold, *records: tuple[int, StreamRecord]) -> list[tuple[str, int, int]]:
    found = fold.read(records)
    return [(type(one).__name__, one.first, one.end) for one in found if isinstance(one, Stable | Lost)]


def test_a_gap_moves_the_frontier_like_stable_buckets() -> None:
    fold = StreamFold("q", 2, 0)
    assert read(fold, (0, StableRange(1, 0, 2)), (1, GapRange(1, 2, 5)), (1, StableRange(1, 5, 7))) == [
        ("Stable", 0, 2), ("Lost", 2, 5), ("Stable", 5, 7),
    ]  # fmt: skip
    assert read(fold, (0, StableBucket(1, 3, Output(["late"])))) == [], "it was told that this one is lost"


def test_what_another_topic_has_as_stable_is_not_lost() -> None:
    fold = StreamFold("q", 3, 2)
    a, b = (StableBucket(1, bucket, Output(["row"])) for bucket in (2, 6))
    assert read(fold, (1, GapRange(1, 2, 9)), (0, a), (2, b)) == [
        ("Stable", 2, 3), ("Lost", 3, 6), ("Stable", 6, 7), ("Lost", 7, 9),
    ]  # fmt: skip


def test_a_gap_beyond_the_next_bucket_waits_like_a_stable_one() -> None:
    fold = StreamFold("q", 2, 2)
    assert read(fold, (1, GapRange(1, 4, 6))) == []
    assert fold.waits(1)
    assert read(fold, (0, StableRange(1, 2, 4))) == [("Stable", 2, 4), ("Lost", 4, 6)]


def test_where_gaps_do_not_pass_a_cursor_waits() -> None:
    fold = StreamFold("q", 2, 2, gaps=False)
    assert read(fold, (1, GapRange(1, 2, 6)), (1, StableRange(1, 6, 8))) == []
    assert fold.waits(1)


def test_the_last_words_of_lost_buckets_come_with_the_gap() -> None:
    fold = StreamFold("q", 2, 2)
    (lost,) = [
        one
        for one in fold.read([(0, tentative(3)), (0, tentative(4)), (0, GapRange(1, 2, 4))])
        if isinstance(one, Lost)
    ]
    assert lost.last_words == {3: tentative(3)}
    assert fold.tentative == {4: {0: tentative(4)}}


def test_what_another_topic_holds_in_the_same_form_need_not_be_said() -> None:
    out = SOutput(1, 2, OPS, unpublished_rows_max=9, unpublished_bytes_max=999)
    for bucket in (2, 3):
        out.tentative(tentative(bucket))
    out.lost(4)
    out.stable_run(4, 6, {})
    out.said_elsewhere(stable=2, live=3)
    assert [token for token, _ in out.unsaid()] == [2, 3, 4]
    out.said_elsewhere(stable=3, live=9)
    assert [token for token, _ in out.unsaid()] == [3, 4], "tentative is not lost"
    out.tentative(tentative(7))
    out.said_elsewhere(stable=3, live=8)
    assert [token for token, _ in out.unsaid()] == [3, 4], "be it behind a gap that the other one has not said"
    assert (out.ack_s, out.ack_l) == (2, 8)
    out.said_elsewhere(stable=6, live=9)
    assert out.unsaid() == []


def test_a_view_shows_the_last_words_and_then_the_gap() -> None:
    view = View(2)
    view.tentative_bucket(tentative(2, "shown"))
    changes = view.lost_run(2, 5, {2: tentative(2), 4: tentative(4)})
    assert [(c.kind, c.bucket, c.end) for c in changes] == [(Kind.TENTATIVE, 4, 5), (Kind.GAP, 2, 5)]
    assert (view.stable, view.live) == (5, 5)
    assert [c.kind for c in view.stable_run(5, 6, Output())] == [Kind.BOUNDARY], "nothing is to be undone"
    with pytest.raises(IllegalTransition, match="gap"):
        view.lost_run(4, 8, {})


def test_what_is_lost_is_acknowledged_and_read_back_to_publish() -> None:
    output = SOutput(1, 3, OPS, unpublished_rows_max=9, unpublished_bytes_max=999)
    token, record = output.lost(7)
    assert record == GapRange(1, 3, 7)
    output.stable_run(7, 8, {7: Output([(1, 2)])})
    output.acknowledged(token)
    assert (output.stable, output.ack_s, output.ack_l, output.kept_from) == (8, 7, 7, 7)
    assert output.unpublished(3, 8, OPS) is None  # type: ignore[arg-type]  # not looked at
    with pytest.raises(IllegalTransition, match="gap up to 8 at stable frontier 8"):
        output.lost(8)
