"""Dead letters recomputed and found: each once, told by whoever reads its source."""

from __future__ import annotations

from dataclasses import replace

import pytest

from borealis_py.log.base import Feed, Record
from borealis_py.log.corrected import dead_letter
from reconcile.dead_letters import DeadLetter, Recomputed, parse_letter
from sunion.model import Reject

MALFORMED = Reject("s", 3, "malformed", b"{", seq=7)
LATE = Reject("s", 5, "late: tuple 9 has stime 1, boundary 2")
OWN = Reject("clean", -1, "tuple at stime 7: division", b"x")


def recomputed() -> Recomputed:
    """Source s is read by node clean and by query q, too. Of bucket 4 nothing has to be told yet; clean may."""
    made = Recomputed({"s": ("clean", "q")}, "q", {"clean": 4, "q": 4}, {"clean": 5, "q": 4})
    made.add(2, [MALFORMED, OWN])
    made.add(4, [LATE])
    return made


def told(node: str, reject: Reject, index: int = 0, bucket: int = 2) -> DeadLetter:
    record = dead_letter("app", node, bucket, reject, index)
    letter = parse_letter(Record(Feed("app.deadletter"), 0, 0, None, record.value, record.headers))
    assert letter is not None
    return letter


RIGHT = [told("clean", MALFORMED), told("q", MALFORMED), told("clean", OWN, 1)]


@pytest.mark.parametrize(
    "more", [[], [told("clean", LATE, bucket=4)], [told("p", LATE)]], ids=["all", "published since", "another's"]
)
def test_each_node_tells_its_own_and_what_its_sources_could_not_use(more: list[DeadLetter]) -> None:
    right, differences, first = recomputed().compare([*RIGHT, *more])
    assert (right, differences, first) == (3 + (bool(more) and more[0].node == "clean"), 0, None)


@pytest.mark.parametrize(
    ("found", "kind", "name"),
    [
        (RIGHT[1:], "missing", "clean/s@3"),
        ([*RIGHT, RIGHT[0]], "extra", "clean/s@3"),
        ([*RIGHT, told("q", LATE, bucket=4)], "extra", "q/s@5"),
        (
            [*RIGHT[:2], told("clean", Reject("clean", -1, "tuple at stime 7: overflow", b"x"), 1)],
            "different",
            "clean/clean@-1",
        ),
        ([*RIGHT[1:], told("clean", replace(MALFORMED, raw=b"["))], "different", "clean/s@3"),
        ([*RIGHT[1:], told("clean", MALFORMED, bucket=3)], "different", "clean/s@3"),
        ([*RIGHT[1:], told("clean", replace(MALFORMED, seq=8))], "different", "clean/s@3"),
        ([*RIGHT[1:], told("clean", replace(MALFORMED, seq=-1))], "different", "clean/s@3"),
    ],
    ids=[
        "missing",
        "twice",
        "not published",
        "another reason",
        "other bytes",
        "another bucket",
        "another seq",
        "no seq",
    ],
)
def test_what_is_missing_extra_or_different_is_named(found: list[DeadLetter], kind: str, name: str) -> None:
    right, differences, first = recomputed().compare(found)
    assert first is not None
    assert (differences, first.kind, first.id) == (1, kind, name)
    assert right == len(RIGHT) - (kind != "extra")
    assert str(first).startswith("dead letter")
    expected, there = (RIGHT[0] if name == "clean/s@3" else RIGHT[2]), found[-1]
    assert first.expected == (None if kind == "extra" else str(expected))
    assert first.found == (None if kind == "missing" else str(there)), "what it is instead is told"


def test_a_dead_letter_is_shown_with_where_it_came_from() -> None:
    assert str(RIGHT[0]) == "malformed (written by clean, source s, offset 3, seq 7, bucket 2)"
    assert str(RIGHT[2]) == "tuple at stime 7: division (written by clean, source clean, offset -1, bucket 2)"


def test_a_dead_letter_of_neither_a_source_nor_a_node_is_the_querys() -> None:
    odd = Reject("elsewhere", -1, "bad")
    made = recomputed()
    made.add(2, [odd])
    assert made.compare([*RIGHT, told("q", odd, 1)]) == (4, 0, None)


def test_dead_letters_that_are_alike_count_as_often_as_they_are_told() -> None:
    made = recomputed()
    made.add(3, [OWN])
    assert made.compare(RIGHT)[1] == 1
    assert made.compare([*RIGHT, told("clean", OWN, bucket=3)]) == (4, 0, None)
    made.add(3, [OWN])
    assert made.compare([*RIGHT, told("clean", OWN, bucket=3)])[:2] == (4, 1)
    assert made.compare([*RIGHT, *(told("clean", OWN, n, 3) for n in range(2))]) == (5, 0, None)


@pytest.mark.parametrize("index", [0, 2, -1])
def test_each_has_a_number_of_its_own_in_its_bucket(index: int) -> None:
    """Whoever publishes goes by it to tell one of two that are alike from the other."""
    right, differences, first = recomputed().compare([*RIGHT[:2], told("clean", OWN, index)])
    assert (right, differences) == (3, 2 if index < 0 else 1)
    assert first is not None
    assert "of its bucket" in str(first)


def test_a_record_of_somebody_else_is_nobodys_dead_letter() -> None:
    assert parse_letter(Record(Feed("app.deadletter"), 0, 0, None, b"x", (("query", b"q"), ("offset", b"one")))) is None


def test_a_header_of_somebody_else_that_is_no_text_is_no_error() -> None:
    headers = (
        ("query", b"q"),
        ("node", b"q"),
        ("source", b"s"),
        ("offset", b"3"),
        ("bucket", b"7"),
        ("index", b"0"),
        ("reason", b"bad \xff"),
    )
    letter = parse_letter(Record(Feed("app.deadletter"), 0, 0, None, b"x", headers))
    assert letter is not None
    assert letter.reason == "bad \ufffd"
