"""The consumer's view: UNDO before the first correction, REC_DONE after the last, nothing stable changed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sunion.errors import IllegalTransition
from sunion.model import Kind, Output, TentativeBucket
from sunion.view import Change, View

ROWS = Output(((1, 1),))


def kinds(changes: list[Change]) -> list[tuple[Kind, int, int]]:
    return [(c.kind, c.bucket, c.end) for c in changes]


def said(bucket: int, completeness: float = 1.0, missing_sources: tuple[str, ...] = ()) -> TentativeBucket:
    return TentativeBucket(
        inc=1,
        bucket=bucket,
        output=ROWS,
        missing_sources=missing_sources,
        missing=missing_sources[-1:],
        waited_us=0,
        completeness=completeness,
        diverged_from=1,
    )


def test_without_tentative_buckets_there_are_no_marks() -> None:
    view = View(3)
    assert kinds(view.stable_run(3, 4, ROWS)) == [(Kind.STABLE, 3, 4)]
    assert kinds(view.stable_run(4, 9, Output())) == [(Kind.BOUNDARY, 4, 9)]
    assert (view.stable, view.live) == (9, 9)


def test_undo_precedes_the_first_correction_and_rec_done_follows_the_last() -> None:
    view = View(0)
    view.stable_run(0, 1, ROWS)
    shown = view.tentative_bucket(said(1, 0.5, ("ewr", "lga"))) + view.tentative_bucket(said(2, 0.5, ("lga",)))
    assert kinds(shown) == [(Kind.TENTATIVE, 1, 2), (Kind.TENTATIVE, 2, 3)]
    assert (shown[0].completeness, shown[0].missing_sources, shown[0].missing) == (0.5, ("ewr", "lga"), ("lga",))
    assert shown[0].diverged_from == 1
    assert kinds(view.stable_run(1, 2, ROWS)) == [(Kind.UNDO, 1, 1), (Kind.STABLE, 1, 2)]
    assert kinds(view.tentative_bucket(said(3))) == [(Kind.TENTATIVE, 3, 4)]
    assert kinds(view.stable_run(2, 4, Output())) == [(Kind.BOUNDARY, 2, 4), (Kind.REC_DONE, 4, 4)]


def test_one_run_may_correct_everything() -> None:
    view = View(0)
    view.tentative_bucket(said(0))
    assert kinds(view.stable_run(0, 5, Output())) == [(Kind.UNDO, 0, 0), (Kind.BOUNDARY, 0, 5), (Kind.REC_DONE, 5, 5)]


def test_a_bucket_passed_over_is_stable_later_without_marks() -> None:
    view = View(0)
    view.pass_over(0)
    assert kinds(view.stable_run(0, 1, ROWS)) == [(Kind.STABLE, 0, 1)]


def test_undo_names_the_first_bucket_that_was_shown() -> None:
    view = View(0)
    for bucket in range(5):
        view.pass_over(bucket)
    view.tentative_bucket(said(5))
    assert kinds(view.stable_run(0, 4, Output())) == [(Kind.BOUNDARY, 0, 4)]
    assert kinds(view.stable_run(4, 9, Output())) == [(Kind.UNDO, 5, 5), (Kind.BOUNDARY, 4, 9), (Kind.REC_DONE, 9, 9)]


def test_stable_buckets_come_in_order_and_once() -> None:
    view = View(3)
    for bucket, end in [(4, 5), (2, 3), (3, 3)]:
        with pytest.raises(IllegalTransition):
            view.stable_run(bucket, end, ROWS)
    assert (view.stable, view.live) == (3, 3)


def test_a_bucket_is_shown_once() -> None:
    view = View(0)
    view.tentative_bucket(said(0))
    for bucket in (0, 2):
        with pytest.raises(IllegalTransition):
            view.tentative_bucket(said(bucket))


@given(st.lists(st.tuples(st.sampled_from(["stable", "tentative", "pass"]), st.integers(1, 3)), max_size=40))
def test_marks_bracket_corrections_and_the_picture_ends_stable(steps: list[tuple[str, int]]) -> None:
    view, changes = View(0), []
    for what, width in steps:
        if what == "stable":
            changes += view.stable_run(view.stable, view.stable + width, ROWS if width == 1 else Output())
        elif what == "tentative":
            changes += view.tentative_bucket(said(view.live))
        else:
            view.pass_over(view.live)
    changes += view.stable_run(view.stable, view.live + 1, Output())
    undone, tentative, stable = False, set(), 0
    for change in changes:
        if change.kind is Kind.UNDO:
            assert not undone
            assert change.bucket == min(tentative), "what was never shown is not undone"
            undone = True
        elif change.kind is Kind.REC_DONE:
            assert undone
            assert not tentative
            assert change.bucket == stable
            undone = False
        elif change.kind is Kind.TENTATIVE:
            assert change.bucket >= stable
            tentative.add(change.bucket)
        else:
            assert change.bucket == stable
            assert undone or not {b for b in tentative if b < change.end}
            stable = change.end
            tentative = {b for b in tentative if b >= stable}
    assert not undone
    assert not tentative
