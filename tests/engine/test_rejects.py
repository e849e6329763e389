"""A value that an expression cannot take costs its own row or window, with a reason; never the query or a neighbour."""

from __future__ import annotations

import json

import pytest

from borealis_py.engine import canonical_hash
from tests.engine import worlds
from tests.engine.worlds import Row

GOOD: list[Row] = [("1", 1, 1.0, True, 10), ("2", 2, 2.0, True, 20), ("3", 3, 3.0, True, 30)]
BAD: list[Row] = [("one", 4, 4.0, True, 15), ("", 5, 5.0, True, 25)]
WIDE = 2**62


def test_rows_that_fail_are_rejected_and_the_rest_is_as_without_them() -> None:
    with worlds.kernel(lambda app, a, b: app.union(a, b).map(n="CAST(k AS INT)", x="x").filter("n > 1")) as on:
        _, mixed = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [GOOD, BAD]}))
        _, clean = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [GOOD, []]}))
        assert canonical_hash(mixed[0].rows) == canonical_hash(clean[0].rows)
        first, second = mixed[0].rejects
        assert (first.source, first.offset) == ("q", -1)
        assert first.reason.startswith("tuple at stime 15: Conversion Error: Could not convert string 'one' to INT32")
        assert json.loads(first.raw) == {"k": "one", "i": 4, "x": 4.0, "b": True, "stime": 15}
        assert second.reason.startswith("tuple at stime 25: ")


def test_rows_that_fail_before_a_window_are_rejected_in_their_bucket() -> None:
    with worlds.kernel(
        lambda app, a, b: app.union(a, b).window("200ms").agg(s="sum(CAST(k AS INT) * x)", n="count(*)")
    ) as on:
        _, outputs = on.step(on.initial(), 0, 2, worlds.ordered(on, {0: [GOOD, BAD]}))
        assert outputs[0].rows is None
        assert len(outputs[0].rejects) == 2
        assert [(r["s"], r["n"]) for r in on.to_dicts(outputs[1].rows)] == [(14.0, 3)]


def test_rows_that_all_fail_leave_rejects_only() -> None:
    with worlds.kernel(lambda app, a, b: b.map(n="CAST(k AS INT)")) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [[], BAD]}))
        assert outputs[0].rows is None
        assert len(outputs[0].rejects) == 2


@pytest.mark.parametrize("aggregates", [{"s": "sum(i)"}, {"s": "sum(i)", "l": "list(x)"}], ids=["partials", "rows"])
def test_a_sum_that_overflows_costs_its_window_and_key(aggregates: dict[str, str]) -> None:
    rows: list[Row] = [
        ("big", WIDE, 1.0, True, 1),
        ("ok", 1, 1.0, True, 2),
        ("big", WIDE, 1.0, True, 3),
        (None, 4, 1.0, True, 4),
    ]
    later: list[Row] = [("ok", 1, 1.0, True, 200_002)]
    with worlds.kernel(lambda app, a, b: a.window("200ms").group_by("k").agg(**aggregates)) as on:
        _, outputs = on.step(on.initial(), 0, 4, worlds.ordered(on, {0: [rows, []], 2: [later, []]}))
        assert [(r["k"], r["s"]) for r in on.to_dicts(outputs[1].rows)] == [("ok", 1), (None, 4)]
        (reject,) = outputs[1].rejects
        assert reject.source == "q"
        assert reject.reason.startswith("window [0, 200000) us, k='big': Conversion Error: ")
        assert json.loads(reject.raw) == {"window_start": 0, "window_end": 200_000, "k": "big"}
        assert [(r["k"], r["s"]) for r in on.to_dicts(outputs[3].rows)] == [("ok", 1)]


def test_without_keys_the_window_is_rejected() -> None:
    rows: list[Row] = [("a", WIDE, 1.0, True, 1), ("a", WIDE, 1.0, True, 2)]
    with worlds.kernel(lambda app, a, b: a.window("100ms").agg(s="sum(i)")) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [rows, []]}))
        assert outputs[0].rows is None
        assert outputs[0].rejects[0].reason.startswith("window [0, 100000) us: ")


def test_sums_beyond_int64_that_come_back_are_exact() -> None:
    """Partials are wider than the result: only the window's sum has to fit."""
    with worlds.kernel(lambda app, a, b: a.window("200ms").agg(s="sum(i)")) as on:
        up: list[Row] = [("a", WIDE, 1.0, True, 1)] * 4
        down: list[Row] = [("a", -WIDE, 1.0, True, 100_001)] * 4
        _, outputs = on.step(on.initial(), 0, 2, worlds.ordered(on, {0: [up, []], 1: [down, []]}))
        assert on.to_dicts(outputs[1].rows)[0]["s"] == 0


def test_nan_and_infinities_are_null_in_json_and_counted() -> None:
    rows: list[Row] = [("a", 1, float("nan"), True, 1), ("b", 1, float("-inf"), True, 2), ("c", 1, None, True, 3)]
    with worlds.kernel(lambda app, a, b: a.map(k="k", x="x", l="[x, 1.5]")) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [rows, []]}))
        expected = [b'{"k":"%s","x":null,"l":[null,1.5]}' % k for k in (b"a", b"b", b"c")]
        assert [text for text, _ in on.published(outputs[0].rows)] == expected
        assert on.nonfinite_as_null == 4


def test_the_order_of_filters_is_the_users() -> None:
    """A row that the first filter drops never meets the second one's CAST."""
    with worlds.kernel(lambda app, a, b: app.union(a, b).filter("k ~ '[0-9]+'").filter("CAST(k AS INT) > 1")) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [GOOD, BAD]}))
        assert [r["k"] for r in on.to_dicts(outputs[0].rows)] == ["2", "3"]
        assert outputs[0].rejects == ()
