"""Joins against the model in plain Python: pairs, their order, rows without a pair, keys, bounds."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py import App, QueryError
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.engine.keyed import join, kept_rows
from borealis_py.query import Stream
from sunion.errors import EngineOutOfMemory
from tests.engine import worlds
from tests.engine.keyed import models
from tests.engine.keyed.stepping import KEYS, in_steps, plain, row_of, side
from tests.engine.worlds import WIDTH_US, Buckets, Row

LAST = 30


def joining(on: tuple[str, ...], within: tuple[str, str], how: str) -> Callable[[App, Stream, Stream], Stream]:
    """Of a's rows and b's; b's columns are renamed, except the keys."""
    names = {("" if c in on else "o") + c: c for c in KEYS}
    return lambda app, a, b: a.join(b.map(**names), on=on, within=within, how=how)


SHAPES = [
    (("k",), ("0s", "1s"), "inner"),
    (("k",), ("0s", "1s"), "left"),
    (("k",), ("-700ms", "50ms"), "left"),
    (("x",), ("0s", "0s"), "left"),
    (("k", "b"), ("-2s", "-300ms"), "left"),
    (("i",), ("250ms", "1300ms"), "left"),
    (("x",), ("-350ms", "2s"), "inner"),
    (("b", "x"), ("-90ms", "-90ms"), "inner"),
]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("blocks", [8, 1])
def test_a_join_gives_the_pairs_of_the_model(
    shape: tuple[tuple[str, ...], tuple[str, str], str], blocks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_rows, "_BLOCKS", blocks)
    on, within, how = shape
    low, high = (
        round(float(text.removesuffix("ms").removesuffix("s")) * (1e3 if "ms" in text else 1e6)) for text in within
    )
    with worlds.kernel(joining(on, within, how)) as kernel:
        check(kernel, on, low, high, how == "left")


def check(kernel: DuckKernel, on: tuple[str, ...], low: int, high: int, outer: bool) -> None:
    @settings(max_examples=12, deadline=None)
    @given(history=worlds.histories(LAST), cuts=st.sets(st.integers(1, LAST + 24)))
    def check_one(history: Buckets, cuts: set[int]) -> None:
        compare(kernel, on, low, high, outer, history, cuts)

    check_one()


def compare(
    kernel: DuckKernel, on: tuple[str, ...], low: int, high: int, outer: bool, history: Buckets, cuts: Iterable[int]
) -> None:
    _, found = in_steps(kernel, history, cuts, LAST + 25)
    lefts, rights = side(history, 0), side(history, 1)
    keyed = [[(tuple(row[KEYS[c]] for c in on), row[4]) for row in rows] for rows in (lefts, rights)]
    expected = [
        (stime, row_of(on, lefts[i], None if j is None else rights[j]))
        for stime, i, j in models.pairs(*keyed, low, high, outer)
    ]
    assert plain(found) == plain(expected)


@pytest.mark.parametrize("within_ms", [(0, 100), (0, 0), (-200, 300), (-300, -100), (-50, 250), (100, 200)], ids=str)
def test_left_rows_at_the_edges_of_buckets_wait_for_the_bucket_of_their_result(within_ms: tuple[int, int]) -> None:
    """Drawn rows hardly ever lie there. Each has a partner that comes as late as it may, one that comes too late, or
    none."""
    low, high = (1_000 * ms for ms in within_ms)
    history: Buckets = {b: [[], []] for b in range(LAST)}
    for n, (edge, off, late) in enumerate(itertools.product((10, 11), (-1, 0, 1), (None, 0, 1))):
        left_us = edge * WIDTH_US - max(high, 0) + off
        history[left_us // WIDTH_US][0].append(at(left_us, float(n)))
        if late is not None:
            right_us = left_us + high + late
            history[right_us // WIDTH_US][1].append(at(right_us, float(n), n))
    with worlds.kernel(joining(("x",), (f"{within_ms[0]}ms", f"{within_ms[1]}ms"), "left")) as kernel:
        for cuts in (range(1, LAST), (), (11,)):
            compare(kernel, ("x",), low, high, True, history, cuts)


def at(us: int, key: float | None, i: int = 0) -> Row:
    return ("k", i, key, True, us)


ON_X = joining(("x",), ("0s", "300ms"), "left")


def test_null_matches_nothing_and_nan_matches_nan_and_zero_is_zero() -> None:
    lefts = [at(1, None), at(2, math.nan), at(3, -0.0), at(4, 5.0)]
    rights = [at(10, None, 1), at(11, math.nan, 2), at(12, 0.0, 3)]
    with worlds.kernel(ON_X) as kernel:
        found = worlds.run(kernel, {0: [lefts, rights]}, 0, 9)
    assert [(repr(row["x"]), row["oi"]) for row in found[0]] == [("nan", 2), ("-0.0", 3)]
    assert [(row["x"], row["oi"], row["ok"]) for row in found[3]] == [(None, None, None), (5.0, None, None)]


def test_the_state_forgets_rows_that_nothing_can_match_any_more() -> None:
    with worlds.kernel(ON_X) as kernel:
        history: Buckets = {b: [[at(b * WIDTH_US, 1.0)], [at(b * WIDTH_US, 2.0)]] for b in range(20)}
        state, _ = kernel.step(kernel.initial(), 0, 20, worlds.ordered(kernel, history))
        assert [[bucket for bucket, _ in kept] for kept in state] == [[17, 18, 19], [17, 18, 19]]
        assert kernel.step(state, 20, 10**7, {})[0] == ((), ())
    with worlds.kernel(joining(("x",), ("0s", "300ms"), "inner")) as kernel:
        state, _ = kernel.step(kernel.initial(), 0, 20, worlds.ordered(kernel, history))
        assert [[bucket for bucket, _ in kept] for kept in state] == [[17, 18, 19], []]


@pytest.mark.parametrize(
    ("within", "how", "lookback"),
    [
        (("0s", "1s"), "inner", 10), (("0s", "1s"), "left", 10), (("-2s", "50ms"), "inner", 20),
        (("-2s", "50ms"), "left", 21), (("-2s", "-1s"), "left", 20), (("3s", "3s"), "left", 30),
        (("0s", "0s"), "left", 0), (("0s", "150ms"), "inner", 2),
    ],
)  # fmt: skip
def test_the_lookback_is_what_a_pair_depends_on(within: tuple[str, str], how: str, lookback: int) -> None:
    with worlds.kernel(joining(("k",), within, how)) as kernel:
        assert kernel.lookback_buckets == lookback
        assert str(kernel.operator_class) == "convergent-capable"


def test_a_key_with_too_many_pairs_in_a_bucket_is_a_dead_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "PAIRS_MAX", 6)
    hot = [at(n, 1.0, n) for n in range(3)]
    history: Buckets = {
        0: [
            [*hot, at(50, 2.0), at(51, 3.0), at(52, 3.0)],
            [*[at(100 + n, 1.0) for n in range(3)], at(150, 2.0, 7), *[at(200 + n, 3.0, 6) for n in range(3)]],
        ],
        1: [[], [at(WIDTH_US, 1.0, 8), at(WIDTH_US + 1, 2.0, 9)]],
    }
    with worlds.kernel(ON_X) as kernel:
        _, outputs = kernel.step(kernel.initial(), 0, 9, worlds.ordered(kernel, history))
        assert sorted(outputs) == [0, 1], "a row whose pairs were refused has pairs"
        assert [(r["x"], r["oi"]) for r in kernel.to_dicts(outputs[0].rows)] == [(2.0, 7)] + [(3.0, 6)] * 6
        assert [(r["x"], r["oi"]) for r in kernel.to_dicts(outputs[1].rows)] == [(1.0, 8)] * 3 + [(2.0, 9)]
    (letter,) = outputs[0].rejects
    assert letter.reason == (
        "join on x=1.0: 9 pairs in one bucket, at most 6 of a key are made: a narrower within=, or another column to "
        "join on, gives fewer"
    )
    assert json.loads(letter.raw) == {"bucket_start": 0, "x": 1.0}


def test_a_pair_larger_than_a_row_may_be_is_a_dead_letter() -> None:
    app = App("test", bucket="100ms")
    a, b = (app.source(name, schema={"id": "int", f"text_{name}": "string"}) for name in "ab")
    app.query("q", a.join(b, on="id", within=("0s", "1s")))
    kernel = compile_query(app.describe(), "q", row_max_bytes=100)
    left = kernel.source_codec("a").decode(
        b'[{"id":1,"text_a":"%s"},{"id":2,"text_a":"x"}]' % (b"y" * 60), "json", [1, 2]
    )
    right = kernel.source_codec("b").decode(
        b'[{"id":1,"text_b":"%s"},{"id":2,"text_b":"x"}]' % (b"y" * 60), "json", [5, 6]
    )
    (both,) = zip(*(kernel.settle([[rows]]) for rows in (left[0], right[0])), strict=True)
    _, outputs = kernel.step(kernel.initial(), 0, 1, {0: kernel.order(both)})
    kernel.close()
    assert [row["id"] for row in kernel.to_dicts(outputs[0].rows)] == [2]
    assert [r.reason for r in outputs[0].rejects] == [
        "join on id=1: a pair of 136 bytes, row_max is 100: select less of both before, or raise `timing: row_max`"
    ]


def test_pairs_beyond_the_engines_memory_end_the_replica_by_name() -> None:
    app = App("test", bucket="100ms")
    a, b = app.source("a", schema=worlds.COLUMNS), app.source("b", schema=worlds.COLUMNS)
    app.query("q", joining(("k",), ("0s", "1s"), "inner")(app, a, b))
    kernel = compile_query(app.describe(), "q", memory_bytes=4 << 20)
    rows = [at(n, 1.0) for n in range(420)]
    with pytest.raises(EngineOutOfMemory, match=r"the pairs of a join on \(k\) need 5 MiB at once, the limit is 4 MiB"):
        kernel.step(kernel.initial(), 0, 1, worlds.ordered(kernel, {0: [rows, rows]}))
    kernel.close()


def test_a_value_that_an_expression_refuses_costs_its_pair() -> None:
    def build(app: App, a: Stream, b: Stream) -> Stream:
        return joining(("x",), ("0s", "1s"), "inner")(app, a, b).map(n="CAST(ok AS INT) + i", x="x")

    rights: list[Row] = [("7", 0, 1.0, True, 5), ("seven", 0, 1.0, True, 6), ("8", 0, 1.0, True, 7)]
    with worlds.kernel(build) as kernel:
        _, outputs = kernel.step(kernel.initial(), 0, 1, worlds.ordered(kernel, {0: [[at(1, 1.0, 1)], rights]}))
        assert [row["n"] for row in kernel.to_dicts(outputs[0].rows)] == [8, 9]
    (letter,) = outputs[0].rejects
    assert letter.reason.startswith("tuple at stime 6: Conversion Error: Could not convert string 'seven'")


def test_equal_hashes_are_no_equal_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the hash function is worth: all keys share one."""
    monkeypatch.setattr(join, "hashed", lambda statement, keys: kept_rows.hashed(statement, keys) * 0)
    with worlds.kernel(joining(("k",), ("-1s", "1s"), "left")) as kernel:
        check(kernel, ("k",), -1_000_000, 1_000_000, True)


def test_a_stream_joins_itself() -> None:
    def build(app: App, a: Stream, b: Stream) -> Stream:
        clean = a.filter("i > 0").map(k="k", i="i")
        return clean.join(clean.map(k="k", later="i"), on="k", within=("1ms", "1s")).filter("later > i")

    rows: list[Row] = [
        ("a", 3, 0.0, True, 0),
        ("a", -1, 0.0, True, 1),
        ("a", 4, 0.0, True, 2_000),
        ("a", 2, 0.0, True, 5_000),
    ]
    with worlds.kernel(build) as kernel:
        assert worlds.run(kernel, {0: [rows, []]}, 0, 1) == {0: [{"k": "a", "i": 3, "later": 4}]}


def test_keys_of_different_types_are_refused() -> None:
    app = App("test")
    a, b = app.source("a", schema={"id": "int"}), app.source("b", schema={"id": "double"})
    app.query("q", a.join(b, on="id", within=("0s", "1s")))
    said = "join of query 'q': column 'id' is int64 in one stream and double in the other; make them alike with map"
    with pytest.raises(QueryError, match=said):
        compile_query(app.describe(), "q")


def test_a_list_is_no_key() -> None:
    app = App("test")
    lists = app.source("a", schema={"id": "int"}).map(l="[id]")
    app.query("q", lists.join(lists.map(l="l"), on="l", within=("0s", "1s")))
    with pytest.raises(QueryError, match=r"join of query 'q': column 'l' is a list<.*>; a key is one value"):
        compile_query(app.describe(), "q")
