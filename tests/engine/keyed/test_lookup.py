"""Lookups against the model in plain Python: versions, deletions, ties, keys, bounds, and what is kept of a table."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App, QueryError
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.engine.keyed import compacted_blocks, kept_rows, lookup
from borealis_py.engine.keyed.lookup import LookupOperator
from borealis_py.query import Stream
from sunion.errors import EngineOutOfMemory
from tests.engine import worlds
from tests.engine.keyed import models
from tests.engine.keyed.stepping import KEYS, in_steps, plain, row_of, side
from tests.engine.worlds import TYPED_COLUMNS, WIDTH_US, Buckets, Row

LAST = 30


def looking(on: tuple[str, ...], deleted: str | None = "ob") -> Callable[[App, Stream, Stream], Stream]:
    """Of a's rows in the table b; b's columns are renamed, except the keys. A row whose `b` is true deletes."""
    names = {("" if c in on else "o") + c: c for c in KEYS}
    return lambda app, a, b: a.lookup(b.map(**names).table(on, deleted=deleted), on=on)


@pytest.mark.parametrize("on", [("k",), ("x",), ("i", "k"), ("k", "x")], ids=str)
@pytest.mark.parametrize("level", [8, 2, 1])
def test_a_lookup_finds_the_versions_of_the_model(
    on: tuple[str, ...], level: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacted_blocks, "LEVEL", level)
    with worlds.kernel(looking(on)) as kernel:
        check(kernel, on)


def check(kernel: DuckKernel, on: tuple[str, ...]) -> None:
    """Whatever the steps, rows are the model's, and the state's bytes those of one step."""

    @settings(max_examples=12, deadline=None)
    @given(history=worlds.histories(LAST), cuts=st.sets(st.integers(1, LAST + 3)))
    def check_one(history: Buckets, cuts: set[int]) -> None:
        state, found = in_steps(kernel, history, cuts, LAST + 4)
        rows, changes = side(history, 0), side(history, 1)
        versions = models.versions(
            [(tuple(row[KEYS[c]] for c in on), row[4]) for row in rows],
            [(tuple(row[KEYS[c]] for c in on), row[4], row[3] is True) for row in changes],
        )
        expected = [
            (row[4], row_of(on, row, None if i is None else changes[i])) for row, i in zip(rows, versions, strict=True)
        ]
        assert plain(found) == plain(expected)
        assert state == in_steps(kernel, history, (), LAST + 4)[0]

    check_one()


def test_equal_hashes_are_no_equal_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the hash function is worth: all keys share one."""
    monkeypatch.setattr(lookup, "hashed", lambda statement, keys: kept_rows.hashed(statement, keys) * 0)
    monkeypatch.setattr(compacted_blocks, "LEVEL", 2)
    with worlds.kernel(looking(("k",))) as kernel:
        check(kernel, ("k",))


@pytest.mark.parametrize("key", ["m", "w", "t", "d", "y", "j"])
def test_a_key_of_any_type_finds_the_versions_of_the_model(key: str) -> None:
    others = {"o" + name: name for name in TYPED_COLUMNS if name != key}
    table = {key: key, **others}
    places = {name: place for place, name in enumerate(TYPED_COLUMNS)}
    build = lambda app, a, b: a.lookup(b.map(**table).table(key, deleted="oi < 0"), on=key)  # noqa: E731
    with worlds.kernel(build, TYPED_COLUMNS) as on:

        @settings(max_examples=8, deadline=None)
        @given(history=worlds.typed_histories(LAST))
        def check(history: Buckets) -> None:
            found = [row for _, rows in sorted(worlds.run(on, history, 0, LAST).items()) for row in rows]
            rows, changes = side(history, 0), side(history, 1)
            of, number = places[key], places["i"]
            versions = models.versions(
                [(row[of], row[-1]) for row in rows], [(row[of], row[-1], row[number] < 0) for row in changes]
            )
            told = [None if i is None else changes[i][number] for i in versions]
            assert [(row["i"], row["oi"]) for row in found] == [
                (row[number], version) for row, version in zip(rows, told, strict=True)
            ]

        check()


def at(us: int, key: float | None, i: int = 0, gone: bool | None = False) -> Row:
    return ("k", i, key, gone, us)


ON_X = looking(("x",))


def found_in(history: Buckets) -> list[object]:
    with worlds.kernel(ON_X) as kernel:
        return [row["oi"] for _, rows in sorted(worlds.run(kernel, history, 0, 9).items()) for row in rows]


def test_a_change_counts_from_its_own_instant_and_the_last_of_one_instant_wins() -> None:
    changes = [at(50, 1.0, 1), at(60, 1.0, 2), at(60, 1.0, 3)]
    assert found_in({0: [[at(49, 1.0), at(50, 1.0), at(59, 1.0), at(60, 1.0)], changes]}) == [None, 1, 1, 3]


def test_a_change_counts_at_its_instant_whichever_input_comes_first() -> None:
    """The table is the node's first input here, and its second one elsewhere."""

    def build(app: App, a: Stream, b: Stream) -> Stream:
        table = b.map(x="x", oi="i").table("x")
        return app.union(b.filter("false"), a).lookup(table, on="x")

    with worlds.kernel(build) as kernel:
        assert kernel.spec.inputs == ("b", "a")
        assert worlds.run(kernel, {0: [[at(5, 1.0)], [at(5, 1.0, 7)]]}, 0, 1)[0][0]["oi"] == 7


def test_null_finds_nothing_and_nan_finds_nan_and_zero_is_zero() -> None:
    rows = [at(10, None), at(11, math.nan), at(12, -0.0), at(13, 5.0)]
    assert found_in({0: [rows, [at(1, None, 1), at(2, math.nan, 2), at(3, 0.0, 3)]]}) == [None, 2, 3, None]


def test_a_deleted_key_is_not_found_until_it_comes_again() -> None:
    rows = [at(b * WIDTH_US + 9, 1.0) for b in range(5)]
    changes = {0: at(0, 1.0, 1), 1: at(WIDTH_US, 1.0, 2, True), 3: at(3 * WIDTH_US, 1.0, 4, None)}
    assert found_in({b: [[rows[b]], [changes[b]] if b in changes else []] for b in range(5)}) == [1, None, None, 4, 4]


def test_what_is_replaced_or_deleted_leaves_the_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compacted_blocks, "LEVEL", 2)
    history: Buckets = {b: [[], [at(b * WIDTH_US, 1.0, b), at(b * WIDTH_US, b + 10.0, b)]] for b in range(8)}
    history[9] = [[], [at(9 * WIDTH_US, b + 10.0, 0, True) for b in range(8)]]
    with worlds.kernel(ON_X) as kernel:
        first = {bucket: parts for bucket, parts in history.items() if bucket < 8}
        state, _ = kernel.step(kernel.initial(), 0, 8, worlds.ordered(kernel, first))
        assert [(b, part.num_rows) for b, part in state[0]] == [(0, 9)]
        state, _ = kernel.step(state, 8, 10, worlds.ordered(kernel, {9: history[9]}))
        assert [(b, part.num_rows) for b, part in state[0]] == [(0, 9), (8, 8)], "deletions hide what is older"
        state, _ = kernel.step(state, 10, 12, {})
        assert [(b, part.column("oi").to_pylist()) for b, part in state[0]] == [(0, [7])]
        assert kernel.step(state, 12, 10**9, {})[0] == state


def test_a_result_depends_on_all_buckets_before_it() -> None:
    with worlds.kernel(ON_X) as kernel:
        assert kernel.lookback_buckets > 10**15
        assert str(kernel.operator_class) == "deterministic"


def test_a_row_that_a_lookup_makes_too_large_is_a_dead_letter() -> None:
    app = App("test", bucket="100ms")
    a = app.source("a", schema={"id": "int", "text_a": "string"})
    b = app.table("b", key="id", schema={"id": "int", "text_b": "string"})
    app.query("q", a.lookup(b, on="id"))
    kernel = compile_query(app.describe(), "q", row_max_bytes=100)
    left = kernel.source_codec("a").decode(
        b'[{"id":1,"text_a":"%s"},{"id":2,"text_a":"x"}]' % (b"y" * 60), "json", [5, 6]
    )
    right = kernel.source_codec("b").decode(
        b'[{"id":1,"text_b":"%s"},{"id":2,"text_b":"x"}]' % (b"y" * 60), "json", [1, 2]
    )
    (both,) = zip(*(kernel.settle([[rows]]) for rows in (left[0], right[0])), strict=True)
    _, outputs = kernel.step(kernel.initial(), 0, 1, {0: kernel.order(both)})
    found = kernel.to_dicts(outputs[0].rows)
    kernel.close()
    assert [row["text_b"] for row in found] == ["x"]
    (letter,) = outputs[0].rejects
    said = (
        "lookup on id=1: with what the table has, a row of 136 bytes at stime 5, row_max is 100: select less of both "
        "before, or raise `timing: row_max`"
    )
    assert (letter.source, letter.reason) == ("q", said)
    assert json.loads(letter.raw)["text_a"] == "y" * 60


@pytest.fixture
def small() -> Iterator[DuckKernel]:
    """A kernel whose lookup has room for four wide rows."""
    with worlds.kernel(looking(("i",), deleted=None)) as on:
        on._operators = tuple(
            replace(o, found=replace(o.found, memory_bytes=5_000)) if isinstance(o, LookupOperator) else o
            for o in on._operators
        )
        yield on


def wide(us: int, text: str = "") -> Row:
    return (text, 1, 0.0, False, us)


def test_buckets_that_need_too_much_memory_together_run_one_after_the_other(small: DuckKernel) -> None:
    history: Buckets = {b: [[wide(b * WIDTH_US + 1)] * 3, []] for b in range(4)}
    history[0][1] = [wide(0, "y" * 1_000)]
    found = worlds.run(small, history, 0, 4)
    assert [len(row["ok"]) for rows in found.values() for row in rows] == [1_000] * 12  # type: ignore[arg-type]
    history[0][0] = [wide(1)] * 5
    with pytest.raises(EngineOutOfMemory, match=r"the rows of a lookup on \(i\) need 0 MiB at once"):
        worlds.run(small, history, 0, 4)


def test_a_condition_that_fails_costs_its_change() -> None:
    changes: list[Row] = [("1", 1, 1.0, True, 1), ("one", 2, 1.0, True, 2)]
    with worlds.kernel(looking(("x",), deleted="CAST(ok AS INT) < 0")) as kernel:
        _, outputs = kernel.step(kernel.initial(), 0, 1, worlds.ordered(kernel, {0: [[at(9, 1.0)], changes]}))
        assert [row["oi"] for row in kernel.to_dicts(outputs[0].rows)] == [1]
    (letter,) = outputs[0].rejects
    assert letter.reason.startswith("tuple at stime 2: Conversion Error: Could not convert string 'one'")


@pytest.mark.parametrize(
    ("deleted", "said"),
    [
        ("oi", r"deleted of table\(\) of query 'q'.*a condition must be true or false, this is BIGINT"),
        ("nope", r"unknown column 'nope' in deleted of table"),
        ("count(*) > 1", "count"),
        ("oi > 'abc'", "fails for every row"),
    ],
)
def test_a_condition_that_is_none_is_refused(deleted: str, said: str) -> None:
    with pytest.raises(QueryError, match=said), worlds.kernel(looking(("k",), deleted=deleted)):
        pass


def test_keys_of_different_types_are_refused() -> None:
    app = App("test")
    a, b = app.source("a", schema={"id": "int"}), app.table("b", "id", {"id": "double", "x": "int"})
    app.query("q", a.lookup(b, on="id"))
    said = "lookup of query 'q': column 'id' is int64 in one stream and double in the table; make them alike with map"
    with pytest.raises(QueryError, match=said):
        compile_query(app.describe(), "q")
