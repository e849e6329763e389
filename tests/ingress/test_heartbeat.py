"""A condition over rows: true, false, null and failing, and in the order of the rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.ingress.heartbeat import RowCondition
from borealis_py.query import QueryError

COLUMNS = {"kind": "string", "n": "int64"}
SCHEMA = pa.schema([("kind", pa.string()), ("n", pa.int64())])


def rows(*values: tuple[str | None, int | None]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"kind": kind, "n": n} for kind, n in values], SCHEMA)


@pytest.fixture(scope="module")
def ping() -> Iterator[RowCondition]:
    found = RowCondition(COLUMNS, "kind = 'ping'", "topic 't'")
    yield found
    found.close()


@given(values=st.lists(st.tuples(st.sampled_from(["ping", "row", None]), st.none()), max_size=30))
def test_it_is_true_where_it_says_so(ping: RowCondition, values: list[tuple[str | None, int | None]]) -> None:
    assert ping(rows(*values)).tolist() == [kind == "ping" for kind, _ in values]


def test_a_row_for_which_it_fails_costs_only_itself() -> None:
    condition = RowCondition(COLUMNS, "CAST(kind AS BIGINT) > n", "topic 't'")
    assert condition(rows(("2", 1), ("x", 1), ("0", 1), ("3", None), ("9", 8))).tolist() == [
        True, False, False, False, True,
    ]  # fmt: skip
    condition.close()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("kint = 'x'", "unknown column 'kint' in heartbeat of topic 't'; did you mean 'kind'"),
        ("n + 1", "it must be true or false, this is BIGINT"),
        ("sum(n) > 1", "aggregate sum"),
        ("n > random()", "random"),
        ("n >", "does not parse"),
        ("stime > 0", "unknown column 'stime'"),
    ],
)
def test_what_is_no_condition_is_refused(text: str, why: str) -> None:
    with pytest.raises(QueryError, match=why):
        RowCondition(COLUMNS, text, "topic 't'")
