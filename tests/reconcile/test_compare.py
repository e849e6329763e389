"""Whatever is planted in a corrected stream is found, and named by its id."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from borealis_py.log.base import Feed, Record
from borealis_py.log.corrected import row_headers
from reconcile.compare import Comparison, CorrectedRow, Difference, compare, parse_row
from sunion.model import TupleId


def row(bucket: int, index: int, value: bytes = b"{}", stime: int = 5, offset: int = -1) -> CorrectedRow:
    return CorrectedRow(TupleId(bucket, index), stime, value, offset)


ROWS = [row(1, 0, b"a"), row(1, 1, b"b"), row(3, 0, b"c"), row(4, 0, b"d")]


def kinds(found: list[CorrectedRow], upto: int = 10) -> tuple[int, int, str | None]:
    result = compare(ROWS, found, upto)
    return result.rows, result.differences, result.first and f"{result.first.kind} {result.first.id}"


def test_the_same_rows():
    assert compare(ROWS, list(ROWS), 10) == Comparison(4, 0, None)


def test_a_missing_row_in_the_middle_and_at_the_end():
    assert kinds([ROWS[0], ROWS[2], ROWS[3]]) == (3, 1, "missing 1:1")
    assert kinds(ROWS[:2]) == (2, 2, "missing 3:0")
    assert kinds([]) == (0, 4, "missing 1:0")


def test_an_extra_row():
    assert kinds([*ROWS[:2], row(2, 0), *ROWS[2:]]) == (4, 1, "extra 2:0")
    assert kinds([*ROWS, row(9, 0)]) == (4, 1, "extra 9:0")


def test_a_changed_value_or_stime():
    assert kinds([ROWS[0], row(1, 1, b"B"), *ROWS[2:]]) == (4, 1, "different 1:1")
    assert kinds([ROWS[0], row(1, 1, b"b", stime=6), *ROWS[2:]]) == (4, 1, "different 1:1")


def test_a_repeated_row_and_rows_out_of_order():
    assert kinds([*ROWS[:2], ROWS[1], *ROWS[2:]]) == (4, 1, "repeated 1:1")
    rows, differences, first = kinds([ROWS[1], ROWS[0], *ROWS[2:]])
    assert (rows, differences, first) == (3, 2, "missing 1:0")


def test_rows_that_were_not_yet_to_be_there_are_no_subject():
    assert kinds([*ROWS, row(10, 0)]) == (4, 0, None)


def test_a_row_planted_behind_the_end_is_still_found():
    assert kinds([*ROWS, row(10, 0), row(2, 0)]) == (4, 1, "repeated 2:0")


def test_the_first_difference_tells_what_is_there_and_what_must_be():
    result = compare([row(1, 0, b'{"n":1}')], [row(1, 0, b'{"n":2}', offset=17)], 10)
    assert str(result.first) == 'row 1:0 is {"n":2} (stime 5 at offset 17), must be {"n":1} (stime 5)'
    result = compare([row(1, 0, b'{"n":1}')], [], 10)
    assert str(result.first) == 'row 1:0 missing: {"n":1} (stime 5)'
    assert result.first == Difference("missing", "1:0", '{"n":1} (stime 5)', None)
    result = compare([], [row(1, 0, b'{"n":1}')], 10)
    assert result.first == Difference("extra", "1:0", None, '{"n":1} (stime 5)')


def test_a_record_without_readable_headers_is_foreign():
    feed = Feed("app.q")
    good = Record(feed, 3, 0, None, b"a", row_headers(1, 0, 5))
    assert parse_row(good) == row(1, 0, b"a", 5, 3)
    for headers in ((), (("id", b"x"), ("stime", b"5")), (("id", b"1:0"),), (("id", b"1:0"), ("stime", b"x"))):
        parsed = parse_row(Record(feed, 4, 0, None, b"z", headers))
        assert parsed.id is None
        assert kinds([parsed, *ROWS]) == (4, 1, "foreign ?")


IDS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), unique=True).map(sorted)


@given(IDS, IDS, st.data())
def test_counts_are_those_of_sets(want, have, data):
    changed = data.draw(st.sets(st.sampled_from(have)) if have else st.just(set()))
    expected = [row(b, i) for b, i in want if b < 5]
    found = [row(b, i, b"!" if (b, i) in changed else b"{}") for b, i in have]
    wanted, there = {x for x in want if x[0] < 5}, {x for x in have if x[0] < 5}
    result = compare(expected, found, 5)
    assert result.rows == len(wanted & there)
    assert result.differences == len(wanted ^ there) + len(wanted & there & changed)
    assert (result.first is None) == (result.differences == 0)
