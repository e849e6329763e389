"""An app judged without a model, on topics made by hand: good ones give no anomaly, each fault its own kind alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from borealis_py.verify import AnomalyKind, Subject
from borealis_py.verify.kafka_reader import CannotRead
from borealis_py.verify.survey import reads
from tests.verify.topics import (
    APP,
    CLOSED,
    LOST,
    ORIGIN,
    PUBLISHED,
    WIDTH,
    HandTopics,
    corrected,
    envelope,
    good,
    letter,
    progress,
    rows_of,
    stable,
    tentative,
)

K = AnomalyKind
Fault = Callable[[HandTopics], None]


@pytest.fixture(autouse=True)
def _no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("borealis_py.verify.survey.GRACE_S", 0.0)


def test_good_topics_give_no_anomaly() -> None:
    topics = good()
    verdict = topics.judge()
    assert (verdict.anomalies, verdict.not_checked) == ([], [])
    assert verdict.looked_at["corrected rows"] == 2 * sum(b % 3 == 0 for b in range(ORIGIN, PUBLISHED)) > 0
    assert verdict.looked_at["source tuples"] == 6
    assert verdict.looked_at["dead letters"] == 1
    assert verdict.looked_at["tentative statements"] == 4 * 4
    assert len(topics.read) == reads(APP, ["q"])


def test_topics_are_read_against_the_way_of_the_data() -> None:
    topics = good()
    topics.judge()
    places = {name: [i for i, read in enumerate(topics.read) if read == name] for name in topics.read}
    assert places["q.progress"][0] < places["deadletter"][0] < places["q"][0] < places["q.progress"][1]
    assert places["q.progress"][1] < places["q.r0"][0] < places["cut.r0"][0] < places["a"][0]


def test_topics_that_grow_meanwhile_give_no_anomaly() -> None:
    """What was published after the progress was read first need not be there; what was, must."""
    topics = good()
    topics.later |= {f"{node}.progress": [progress(PUBLISHED + 2)] for node in ("cut", "q")}
    assert topics.judge().anomalies == []
    lists = topics.lists["q"]
    lists += [corrected(27, i, row) for i, row in enumerate(rows_of(27))]
    assert [a.kind for a in topics.judge().anomalies] == [K.INCONSISTENT_OFFSETS]  # beyond the progress, 27
    topics.add("q.progress", progress(28))
    assert topics.judge().anomalies == []


# One fault each -------------------------------------------------------------------------------------------------------


def row_again(t: HandTopics) -> None:
    t.lists["q"].append(t.lists["q"][0])


def letter_again(t: HandTopics) -> None:
    t.lists["deadletter"] *= 2


def letter_of_nothing(t: HandTopics) -> None:
    """Replicas said it too: only the source's log knows better."""
    for k in (0, 1):
        t.lists[f"cut.r{k}"][1] = (stable(11, (), [["a", 2, "garbage", b"?", -1]]), ())
    t.lists["deadletter"].append(letter("a", 2, 11))


def row_lost(t: HandTopics) -> None:
    del t.lists["q"][1]


def last_bucket_lost(t: HandTopics) -> None:
    del t.lists["q"][-2:]


def row_lost_in_front(t: HandTopics) -> None:
    del t.lists["q"][0]


def letter_lost(t: HandTopics) -> None:
    t.lists["deadletter"].clear()


def letter_never_told(t: HandTopics) -> None:
    """Nor did replicas say it."""
    for k in (0, 1):
        t.lists[f"cut.r{k}"][0] = (stable(ORIGIN, rows_of(ORIGIN)), ())
    t.lists["deadletter"].clear()


def tuple_lost(t: HandTopics) -> None:
    t.lists["b"][1] = (t.lists["b"][1][0].replace(b"\xa1u\x00", b"\xa1u\x01"), ())  # type: ignore[union-attr]


def progress_falls(t: HandTopics) -> None:
    t.add("q.progress", progress(PUBLISHED - 3), progress(PUBLISHED))


def progress_is_garbage(t: HandTopics) -> None:
    t.add("q.progress", b"garbage", None)


def progress_beyond_replicas(t: HandTopics) -> None:
    t.add("cut.progress", progress(CLOSED + 1))


def rows_beyond_progress(t: HandTopics) -> None:
    t.lists["q"] += [corrected(27, i, row) for i, row in enumerate(rows_of(27))]


def stime_of_another_bucket(t: HandTopics) -> None:
    value, headers = t.lists["q"][-1]
    t.lists["q"].append((value, (headers[0], ("stime", b"1"))))


def corrected_garbage(t: HandTopics) -> None:
    t.add("q", b"garbage", None)
    t.lists["q"] += [(b"{}", (("id", text), ("stime", b"1200"))) for text in (b"12", b"12:x", b"12:-1", b"\xff")]
    t.lists["q"] += [(value, (("id", b"12:2"), ("stime", b"1200"))) for value in (b"[1]", b"[" * 9_000)]


def letter_garbage(t: HandTopics) -> None:
    t.add("deadletter", b"garbage")


def hole_in_a_stream(t: HandTopics) -> None:
    del t.lists["cut.r1"][2]


def garbage_in_a_stream(t: HandTopics) -> None:
    t.add("cut.r1", b"garbage", None, b"BZ\x02\x00\x00\xff\xff", envelope("STABLE", 1, "x"), envelope({"a": 1}))
    t.add("cut.r1", envelope("STABLE", 1, 29, 0, 0, 1, "h", [], payload=b"rows"))


def numbers_out_of_all_bounds(t: HandTopics) -> None:
    """They end nothing, and cost nothing."""
    stimes = (2_900).to_bytes(8, "little")
    t.lists["b"][-1:] = [
        (envelope("TUPLES", 1, "u", 1 << 53, stimes, None, "json", payload=b'[{"n": 1}]'), ()),
        (envelope("TUPLES", 1, "u", 1 << 52, stimes, None, "json", payload=b'[{"n": 1}]'), ()),
        t.lists["b"][-1],
    ]


def tentative_skips(t: HandTopics) -> None:
    del t.lists["cut.r0"][LOST - ORIGIN + 1]


def row_nobody_said(t: HandTopics) -> None:
    t.lists["q"].append(corrected(PUBLISHED - 1, 2, (1, 1.0, (PUBLISHED - 1) * WIDTH)))


def row_of_an_empty_bucket(t: HandTopics) -> None:
    t.lists["q"].insert(4, corrected(16, 0, (1, 1.0, 16 * WIDTH)))


def row_that_differs(t: HandTopics) -> None:
    t.lists["q"][0] = corrected(12, 0, (12, 4.5, 1200))


def row_with_another_column(t: HandTopics) -> None:
    value, headers = t.lists["q"][0]
    t.lists["q"][0] = ((value or b"").replace(b'"x"', b'"y"'), headers)


def buckets_out_of_order(t: HandTopics) -> None:
    t.lists["q"][:4] = [*t.lists["q"][2:4], *t.lists["q"][:2]]


def swapped(t: HandTopics, at: int, value: bytes) -> None:
    t.lists["cut.r0"][LOST - ORIGIN + at] = (value, ())


def stable_before_its_inputs(t: HandTopics) -> None:
    for k in (0, 1):
        t.add(f"cut.r{k}", envelope("BOUNDARY", 1, CLOSED, CLOSED + 2, 0))


def query_before_its_node(t: HandTopics) -> None:
    t.add("q.r0", envelope("BOUNDARY", 1, CLOSED, CLOSED + 1, 0))


def changes_what_was_stable(t: HandTopics) -> None:
    t.add("cut.r0", stable(15, rows_of(15)[:1], inc=2))


def replicas_disagree_in_a_bit(t: HandTopics) -> None:
    n, x, stime = rows_of(15)[1]
    t.lists["cut.r1"][15 - ORIGIN] = (stable(15, [rows_of(15)[0], (n, x + 1e-15, stime)]), ())


def empties_a_bucket(t: HandTopics) -> None:
    t.add("cut.r1", envelope("BOUNDARY", 2, 14, 17, 0))


def fills_an_empty_bucket(t: HandTopics) -> None:
    t.add("cut.r1", stable(16, [(1, 1.0, 1600)], inc=2))


FAULTS: dict[AnomalyKind, list[tuple[Fault, Subject]]] = {
    K.DUPLICATE: [
        (row_again, Subject.CORRECTED),
        (letter_again, Subject.DEAD_LETTERS),
        (letter_of_nothing, Subject.DEAD_LETTERS),
    ],
    K.LOST_WRITE: [
        (row_lost, Subject.CORRECTED),
        (row_lost_in_front, Subject.CORRECTED),
        (last_bucket_lost, Subject.CORRECTED),
        (letter_lost, Subject.DEAD_LETTERS),
        (letter_never_told, Subject.DEAD_LETTERS),
        (tuple_lost, Subject.SOURCE),
        (numbers_out_of_all_bounds, Subject.SOURCE),
    ],
    K.INCONSISTENT_OFFSETS: [
        (progress_falls, Subject.PROGRESS),
        (progress_is_garbage, Subject.RECORD),
        (progress_beyond_replicas, Subject.PROGRESS),
        (rows_beyond_progress, Subject.CORRECTED),
        (stime_of_another_bucket, Subject.CORRECTED),
        (corrected_garbage, Subject.RECORD),
        (letter_garbage, Subject.RECORD),
        (hole_in_a_stream, Subject.STABLE),
        (garbage_in_a_stream, Subject.RECORD),
        (tentative_skips, Subject.TENTATIVE),
    ],
    K.ABORTED_READ: [
        (row_nobody_said, Subject.CORRECTED),
        (row_of_an_empty_bucket, Subject.CORRECTED),
        (row_that_differs, Subject.CORRECTED),
        (row_with_another_column, Subject.CORRECTED),
    ],
    K.NONMONOTONIC_POLL: [(buckets_out_of_order, Subject.CORRECTED)],
    K.UNLABELLED_PARTIAL: [
        (lambda t: swapped(t, 0, tentative(LOST, completeness=1.0)), Subject.TENTATIVE),
        (lambda t: swapped(t, 0, tentative(LOST, completeness=1.5)), Subject.TENTATIVE),
        (lambda t: swapped(t, 0, tentative(LOST, diverged=LOST - 1)), Subject.TENTATIVE),
        (lambda t: swapped(t, 0, tentative(LOST, missing_sources=("z",))), Subject.TENTATIVE),
        (lambda t: swapped(t, 0, tentative(LOST, missing_sources=("a",))), Subject.TENTATIVE),
        (lambda t: swapped(t, 0, tentative(LOST, missing_sources=("a", "b"))), Subject.TENTATIVE),
        (lambda t: swapped(t, 3, tentative(LOST + 3, missing=())), Subject.TENTATIVE),
        (stable_before_its_inputs, Subject.STABLE),
        (query_before_its_node, Subject.STABLE),
    ],
    K.STABLE_CHANGED: [
        (changes_what_was_stable, Subject.STABLE),
        (replicas_disagree_in_a_bit, Subject.AGREEMENT),
        (empties_a_bucket, Subject.STABLE),
        (fills_an_empty_bucket, Subject.STABLE),
    ],
}


@pytest.mark.parametrize(
    ("kind", "fault", "subject"),
    [pytest.param(k, f, s, id=f"{k}: {f.__name__} {i}") for k, fs in FAULTS.items() for i, (f, s) in enumerate(fs)],
)
def test_each_fault_gives_its_kind_and_no_other(kind: AnomalyKind, fault: Fault, subject: Subject) -> None:
    topics = good()
    fault(topics)
    verdict = topics.judge()
    assert verdict.counts.keys() == {(kind, subject)}, verdict.anomalies


def test_kinds_without_a_fault_here_are_those_of_subscribers() -> None:
    assert set(AnomalyKind) - FAULTS.keys() == {K.UNSEEN, K.BOUND_BROKEN}
    assert good().judge().judged == FAULTS.keys()


# What is not a fault --------------------------------------------------------------------------------------------------


def test_labels_call_sources_as_the_app_does() -> None:
    """What a value of a topic's column feeds is called by the value; its log is another one's partition."""
    topics, called = good(), replace(APP, called={"b": "z"})
    assert all("which is no source of it" in one.what for one in topics.judge(app=called).anomalies)
    for name in ("cut.r0", "cut.r1", "q.r0", "q.r1"):
        lists = topics.lists[name]
        lists[:] = [(None if value is None else value.replace(b"\xa1b", b"\xa1z"), more) for value, more in lists]
    assert topics.judge(app=called).anomalies == []
    assert topics.judge().anomalies != []


def test_what_is_not_published_yet_may_be_missing() -> None:
    topics = good()
    topics.lists["q.progress"] = topics.lists["q.progress"][:1]
    topics.lists["q"] = topics.lists["q"][:2]
    assert topics.judge().anomalies == []


def test_a_replica_that_is_behind_or_says_the_same_again_is_right() -> None:
    topics = good()
    del topics.lists["q.r1"][5:]
    topics.add("cut.r1", *(stable(b, rows_of(b), inc=2) for b in (12, 13, 14, 15)))
    assert topics.judge().anomalies == []


def test_records_of_another_life_say_nothing() -> None:
    topics = good()
    topics.add("q.r0", envelope("BOUNDARY", 7, 100, 200, 0, life="b2"))
    topics.add("a", envelope("EPOCH", 99, "z", 0, life="b2"))
    topics.add("q.progress", progress(9_999, "b2"))
    verdict = topics.judge()
    assert verdict.anomalies == []
    assert verdict.looked_at["records of another life"] == 2


@pytest.mark.parametrize("lost", range(1, 28))
def test_a_replica_s_topic_may_begin_anywhere(lost: int) -> None:
    """Trimming leaves what begins in the middle of a divergence, or of its correction."""
    topics = good()
    for name in ("q.r0", "cut.r1"):
        topics.begin[name], topics.lists[name] = lost, topics.lists[name][lost:]
    verdict = topics.judge()
    assert not verdict.kinds, verdict


def test_what_a_divergence_says_that_began_before_its_topic_is_still_judged() -> None:
    topics = good()
    at = LOST - ORIGIN + 1
    for name in ("q.r0", "q.r1"):
        topics.begin[name], topics.lists[name] = at, topics.lists[name][at:]
    assert not topics.judge().kinds
    topics.lists["q.r0"][0] = (tentative(LOST + 1, diverged=LOST + 2), ())
    assert topics.judge().kinds == {AnomalyKind.UNLABELLED_PARTIAL}


def test_topics_that_lost_their_beginning_are_judged_from_where_they_begin() -> None:
    topics = good()
    for name, count in (("q", 3), ("q.r0", 5), ("q.r1", 4), ("cut.r0", 2), ("cut.r1", 2), ("a", 1), ("deadletter", 1)):
        del topics.lists[name][:count]
        topics.begin[name] = count
    verdict = topics.judge()
    assert verdict.anomalies == []
    assert verdict.not_checked == ["source a: its beginning was deleted, so its fold cannot be known"]
    del topics.lists["q"][2]
    assert topics.judge().kinds == {K.LOST_WRITE}


def test_a_topic_that_is_missing_is_told() -> None:
    topics = good()
    del topics.lists["cut.r1"]
    with pytest.raises(CannotRead, match=r"app\.cut\.r1"):
        topics.judge()


def test_a_replica_topic_that_lags_behind_what_is_published_is_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    topics = good()
    topics.add("q.progress", progress(CLOSED))
    for k in (0, 1):
        topics.later[f"q.r{k}"] = [value for value, _ in topics.lists[f"q.r{k}"][-1:] if value is not None]
        del topics.lists[f"q.r{k}"][-1]
    topics.lists["q"] += [corrected(27, i, row) for i, row in enumerate(rows_of(27))]
    lagging = replace(topics, later={})
    assert K.INCONSISTENT_OFFSETS in lagging.judge().kinds
    monkeypatch.setattr("borealis_py.verify.survey.GRACE_S", 5.0)
    monkeypatch.setattr("borealis_py.verify.survey.AGAIN_S", 0.0)
    assert topics.judge().anomalies == []


# One replica runs, the other stands by --------------------------------------------------------------------------------

STANDBY = replace(APP, nodes=tuple(replace(node, one_runs=True) for node in APP.nodes))


def takes_over(dies: int = 4, begins: int = 3, ends: int = 18, back: int = 17) -> HandTopics:
    """Of each node r0 dies after so many records, r1 takes over from a checkpoint, and r0 from one of r1's."""
    topics = good()
    for node in ("cut", "q"):
        whole = topics.lists[f"{node}.r0"]
        topics.lists[f"{node}.r0"], topics.lists[f"{node}.r1"] = [*whole[:dies], *whole[back:]], whole[begins:ends]
    return topics


def test_a_hole_in_one_topic_lies_in_another_where_one_replica_runs() -> None:
    assert takes_over().judge(app=STANDBY).anomalies == []
    strict = takes_over().judge().anomalies
    assert {a.kind for a in strict} == {K.INCONSISTENT_OFFSETS}
    assert {a.where for a in strict} == {"cut.r0", "cut.r1", "q.r0", "q.r1"}, "all compute: each says all of it"


@pytest.mark.parametrize("gap", [{"dies": 2}, {"back": 20}])
def test_a_hole_that_no_other_topic_covers_is_seen(gap: dict[str, int]) -> None:
    found = takes_over(**gap).judge(app=STANDBY).anomalies
    assert {(a.kind, a.where) for a in found} >= {(K.INCONSISTENT_OFFSETS, f"{node}.r*") for node in ("cut", "q")}
    assert any("no replica says buckets" in a.what for a in found)


def test_a_hole_that_is_covered_with_other_rows_is_seen() -> None:
    topics = takes_over()
    at = 15 - ORIGIN - 3
    topics.lists["q.r1"][at] = (stable(15, rows_of(15)[:1]), ())
    assert topics.judge(app=STANDBY).kinds == {K.ABORTED_READ}
    topics.add("q.r0", stable(15, rows_of(15), inc=3))
    assert K.STABLE_CHANGED in topics.judge(app=STANDBY).kinds
    topics = takes_over()
    topics.add("q.r0", stable(14, [(1, 1.0, 1400)], inc=3))
    assert K.STABLE_CHANGED in topics.judge(app=STANDBY).kinds, "an empty one in a hole"


def test_what_another_replica_has_written_since_its_topic_was_read_is_read_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """r0 was read before it went on; r1, read later, has a hole there."""
    monkeypatch.setattr("borealis_py.verify.survey.GRACE_S", 60.0)
    monkeypatch.setattr("borealis_py.verify.survey.AGAIN_S", 0.0)
    topics = good()
    for node in ("cut", "q"):
        whole = topics.lists[f"{node}.r0"]
        topics.lists[f"{node}.r0"], topics.lists[f"{node}.r1"] = whole[:15], whole[18:]
        topics.later[f"{node}.r0"] = [value for value, _ in whole[15:19]]  # type: ignore[misc]
        topics.lists[f"{node}.progress"] = [(progress(15), ())]
    topics.lists["q"] = [row for row in topics.lists["q"] if int(dict(row[1])["id"].split(b":")[0]) < 15]
    assert topics.judge(app=STANDBY).anomalies == []


@pytest.mark.parametrize("deleted", range(6, 18))
def test_topics_with_holes_may_have_lost_their_beginnings(deleted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("borealis_py.verify.replicas.KEPT_END", 2)
    topics = takes_over()
    topics.begin["q.r0"], topics.lists["q.r0"] = 4, topics.lists["q.r0"][4:]
    topics.begin["q.r1"], topics.lists["q.r1"] = deleted - 3, topics.lists["q.r1"][deleted - 3 :]
    verdict = topics.judge(app=STANDBY)
    assert not verdict.kinds, verdict
