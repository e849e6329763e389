"""Dead letters recomputed and found: each once, told by whoever reads its source."""

from __future__ import annotations

import pytest

from borealis_py.log.base import Feed, Record
from borealis_py.log.corrected import dead_letter
from reconcile.deadletters import Letter, Recomputed, parse_letter
from sunion.model import Reject

MALFORMED = Reject("s", 3, "malformed", b"{")
LATE = Reject("s", 5, "late: tuple 9 has stime 1, boundary 2")
OWN = Reject("clean", -1, "tuple at stime 7: division", b"x")


def recomputed() -> Recomputed:
    """Source s is read by node clean and by query q, too. Of bucket 4 nothing has to be told yet; clean may."""
    made = Recomputed({"s": ("clean", "q")}, "q", {"clean": 4, "q": 4}, {"clean": 5, "q": 4})
    made.add(2, [MALFORMED, OWN])
    made.add(4, [LATE])
    return made


def told(node: str, reject: Reject) -> Letter:
    record = dead_letter("app", node, 2, reject)
    letter = parse_letter(Record(Feed("app.deadletter"), 0, 0, None, record.value, record.headers))
    assert letter is not None
    return letter


RIGHT = [told("clean", MALFORMED), told("q", MALFORMED), told("clean", OWN)]


@pytest.mark.parametrize(
    "more", [[], [told("clean", LATE)], [told("p", LATE)]], ids=["all", "published since", "another's"]
)
def test_each_node_tells_its_own_and_what_its_sources_could_not_use(more: list[Letter]) -> None:
    right, differences, first = recomputed().compare([*RIGHT, *more])
    assert (right, differences, first) == (3 + (bool(more) and more[0].node == "clean"), 0, None)


@pytest.mark.parametrize(
    ("found", "kind", "name"),
    [
        (RIGHT[1:], "missing", "clean/s@3"),
        ([*RIGHT, RIGHT[0]], "extra", "clean/s@3"),
        ([*RIGHT, told("q", LATE)], "extra", "q/s@5"),
        (
            [*RIGHT[:2], told("clean", Reject("clean", -1, "tuple at stime 7: overflow", b"x"))],
            "different",
            "clean/clean@-1",
        ),
        ([*RIGHT[1:], told("clean", Reject("s", 3, "malformed", b"["))], "different", "clean/s@3"),
    ],
    ids=["missing", "twice", "not published", "another reason", "other bytes"],
)
def test_what_is_missing_extra_or_different_is_named(found: list[Letter], kind: str, name: str) -> None:
    right, differences, first = recomputed().compare(found)
    assert first is not None
    assert (differences, first.kind, first.id) == (1, kind, name)
    assert right == len(RIGHT) - (kind != "extra")
    assert str(first).startswith("dead letter")
    if kind == "different":
        assert str(found[-1]) in str(first), "what it is instead is told"


def test_dead_letters_that_are_alike_count_as_often_as_they_are_told() -> None:
    made = recomputed()
    made.add(3, [OWN])
    assert made.compare(RIGHT)[1] == 1
    assert made.compare([*RIGHT, told("clean", OWN)]) == (4, 0, None)


def test_a_record_of_somebody_else_is_nobodys_dead_letter() -> None:
    assert parse_letter(Record(Feed("app.deadletter"), 0, 0, None, b"x", (("query", b"q"), ("offset", b"one")))) is None


def test_a_header_of_somebody_else_that_is_no_text_is_no_error() -> None:
    headers = (("query", b"q"), ("source", b"s"), ("offset", b"3"), ("reason", b"bad \xff"))
    letter = parse_letter(Record(Feed("app.deadletter"), 0, 0, None, b"x", headers))
    assert letter is not None
    assert letter.reason == "bad \ufffd"
