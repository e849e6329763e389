"""Gaps as the checker sees them: no hole where they are named, and nothing is published inside (R18.7)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from borealis_py.verify import AnomalyKind
from tests.verify.topics import (
    APP,
    LIFE,
    ORIGIN,
    PUBLISHED,
    HandTopics,
    corrected,
    envelope,
    good,
    progress,
    rows_of,
    stable,
    tentative,
)

K = AnomalyKind
ALONE = replace(APP, nodes=(APP.nodes[0], replace(APP.nodes[1], one_runs=True)))
GONE, BEGUN, WHOLE = 14, 16, 18
"""q.r0 dies at the first; q.r1 begins at the second, and stands on nothing lost from the third on."""
GAPS = ((GONE, BEGUN), (BEGUN, WHOLE))


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("borealis_py.verify.survey.GRACE_S", 0.0)


def gap(first: int, end: int) -> bytes:
    return json.dumps({"app_uid": LIFE, "first": first, "end": end}).encode()


def gap_letter(first: int, end: int) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    told = {"query": "q", "source": "q", "offset": -1, "reason": "gap: they are lost", "node": "q", "bucket": end - 1,
            "index": 0, "gap": f"{first}:{end}"}  # fmt: skip
    return b"", tuple((name, str(value).encode()) for name, value in told.items())


def standing(bucket: int) -> bytes:
    """A tentative result that stands on lost buckets."""
    return tentative(bucket, ("a", "b"), (), 0.0, GONE)


def with_gap() -> HandTopics:
    """Nothing is wrong with them: what is lost is named."""
    t = good()
    t.lists["q.r0"], t.lists["q.r1"], t.lists["q.progress"] = [], [], []
    t.add("q.r0", *(stable(b, rows_of(b)) for b in range(ORIGIN, GONE)))
    t.add("q.r1", envelope("GAP", 1, GONE, BEGUN), *(standing(b) for b in range(BEGUN, WHOLE)))
    t.add("q.r1", envelope("GAP", 1, BEGUN, WHOLE), *(stable(b, rows_of(b)) for b in range(WHOLE, 28)))
    t.add("q.progress", progress(GONE), gap(*GAPS[0]), progress(BEGUN), gap(*GAPS[1]), progress(WHOLE))
    t.add("q.progress", progress(PUBLISHED))
    t.lists["q"] = [
        corrected(b, i, row)
        for b in range(ORIGIN, PUBLISHED)
        if not GONE <= b < WHOLE
        for i, row in enumerate(rows_of(b))
    ]
    t.lists["deadletter"] += [gap_letter(*one) for one in GAPS]
    return t


def test_what_is_named_is_no_hole() -> None:
    verdict = with_gap().judge(app=ALONE)
    assert (verdict.anomalies, verdict.not_checked) == ([], [])
    assert verdict.looked_at["lost buckets"] == verdict.looked_at["buckets published as lost"] == WHOLE - GONE


def a_replica_that_lived_said_them_after_all(t: HandTopics) -> None:
    """It had been taken for dead."""
    t.add("q.r0", *(stable(b, rows_of(b)) for b in range(GONE, WHOLE)))


def test_a_stable_bucket_in_a_gap_of_another_is_no_anomaly() -> None:
    t = with_gap()
    a_replica_that_lived_said_them_after_all(t)
    assert t.judge(app=ALONE).anomalies == []


def test_who_stood_on_lost_buckets_and_gave_way_to_one_that_lived_has_said_nothing_wrong() -> None:
    """On a busy machine a replica is taken for dead: its successor begins, and steps back before it calls them lost."""
    t = with_gap()
    del t.lists["q.r1"][2:], t.lists["deadletter"][-2:], t.lists["q.progress"][:]
    t.add("q.r0", *(stable(b, rows_of(b)) for b in range(GONE, 28)))
    t.add("q.progress", progress(PUBLISHED))
    t.lists["q"] = [corrected(b, i, row) for b in range(ORIGIN, PUBLISHED) for i, row in enumerate(rows_of(b))]
    assert t.judge(app=ALONE).anomalies == []


def the_gap_is_not_said(t: HandTopics) -> None:
    del t.lists["q.r1"][0]


def the_second_gap_is_not_said(t: HandTopics) -> None:
    del t.lists["q.r1"][3]


def it_says_itself_what_it_stood_on(t: HandTopics) -> None:
    said = t.lists["q.r1"]
    whole = said[4:]
    del said[3:]
    t.add("q.r1", *(stable(b, rows_of(b)) for b in range(BEGUN, WHOLE)))
    said += whole


def a_row_of_the_gap_is_published(t: HandTopics) -> None:
    a_replica_that_lived_said_them_after_all(t)
    t.lists["q"].insert(2, corrected(15, 0, rows_of(15)[0]))


def more_is_published_as_lost(t: HandTopics) -> None:
    t.lists["q.progress"][3] = (gap(BEGUN, WHOLE + 1), ())
    t.lists["deadletter"][-1] = gap_letter(BEGUN, WHOLE + 1)


def a_gap_is_published_twice(t: HandTopics) -> None:
    t.add("q.progress", gap(*GAPS[1]))


def no_dead_letter_says_so(t: HandTopics) -> None:
    t.lists["deadletter"].pop()


def a_gap_is_not_published(t: HandTopics) -> None:
    """The replica that lived said them, and they are in no gap of the progress."""
    a_replica_that_lived_said_them_after_all(t)
    del t.lists["q.progress"][1]
    t.lists["deadletter"].pop(-2)


FAULTS: dict[Callable[[HandTopics], None], set[AnomalyKind]] = {
    the_gap_is_not_said: {K.INCONSISTENT_OFFSETS, K.ABORTED_READ},
    the_second_gap_is_not_said: {K.INCONSISTENT_OFFSETS, K.ABORTED_READ, K.UNLABELLED_PARTIAL},
    it_says_itself_what_it_stood_on: {K.ABORTED_READ, K.UNLABELLED_PARTIAL},
    a_row_of_the_gap_is_published: {K.ABORTED_READ},
    more_is_published_as_lost: {K.ABORTED_READ},
    a_gap_is_published_twice: {K.DUPLICATE},
    no_dead_letter_says_so: {K.LOST_WRITE},
    a_gap_is_not_published: {K.LOST_WRITE},
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_each_fault_is_found(fault: Callable[[HandTopics], None]) -> None:
    topics = with_gap()
    fault(topics)
    assert {a.kind for a in topics.judge(app=ALONE).anomalies} == FAULTS[fault]


def test_a_node_that_others_read_loses_nothing() -> None:
    topics = good()
    topics.add("cut.r0", envelope("GAP", 1, 30, 31))
    assert [a.kind for a in topics.judge().anomalies] == [K.LOST_WRITE]
