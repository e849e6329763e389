"""How a window's aggregates are computed: from one partial per bucket and key where they decompose, else from rows.

Written as SQL text; run by `operators.base`. An aggregate decomposes if a window's value follows from its buckets'
values, combined in bucket order. If one aggregate of a query does not, all of them are computed from the window's rows
in order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from borealis_py.engine.sql.expressions import Expression, Tree, column_ref, replace_aggregates, to_sql
from borealis_py.types.arrow import SUM_DIGITS_MAX, decimal_digits, is_integer

BUCKET = "__bucket"
"""The first column of partials: the bucket by which they are grouped, before their keys."""
WINDOW = "__window"
"""The first column when windows are closed: the window's end, in buckets."""
POSITION = "__pos"
"""The column with a row's position in the total order, in windows computed from rows."""

_COUNTS = {"count_star", "count", "count_if", "countif"}
_SELF = {"min", "max", "bool_and", "bool_or", "bit_and", "bit_or", "bit_xor"}
_DISTINCT_IRRELEVANT = {"min", "max", "bool_and", "bool_or", "bit_and", "bit_or"}
_WIDEST = {"HUGEINT", "UHUGEINT"}
_AVERAGES = {"avg", "mean"}
# Types that survive a round trip through Arrow unchanged, so that combined partials equal the whole.
_ROUND_TRIP = {"BOOLEAN", "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT",
               "FLOAT", "DOUBLE", "VARCHAR", "DATE", "TIMESTAMP", "BLOB"}  # fmt: skip
_ORDERED = {"first", "last", "any_value", "arbitrary", "list", "array_agg", "string_agg", "group_concat", "listagg",
            "mode", "arg_min", "arg_max", "argmin", "argmax", "min_by", "max_by", "arg_min_null", "arg_max_null",
            "arg_min_nulls_last", "arg_max_nulls_last"}  # fmt: skip


@dataclass
class Calls:
    """The distinct aggregate calls of a query's expressions; each is a column `__a<i>` of the inner SELECT, for its
    index i in `trees`."""

    trees: list[Tree] = field(default_factory=list)
    _numbers: dict[str, int] = field(default_factory=dict)

    def column(self, call: Tree) -> str:
        number = self._numbers.setdefault(to_sql(call), len(self.trees))
        if number == len(self.trees):
            self.trees.append(call)
        return f"__a{number}"

    def outer(self, expression: Expression) -> str:
        """The expression with each call replaced by its column."""
        tree, _ = replace_aggregates(expression.tree, self.column)
        return to_sql(tree)


@dataclass(frozen=True)
class Decomposed:
    """One call as partials (`parts`, over rows) and their combination (`combine`, over columns of those names)."""

    parts: tuple[str, ...]
    combine: Callable[[Sequence[str]], str]


def argument(call: Tree) -> str | None:
    """The argument as SQL if there is exactly one; else None."""
    return to_sql(call["children"][0]) if len(call["children"]) == 1 else None


def decompose(call: Tree, argument_type: str) -> Decomposed | None:
    """Partials of a call; None if it needs the window's rows."""
    name = call["function_name"].lower()
    ordered = bool(call["order_bys"]["orders"])
    if ordered or (call["distinct"] and name not in _DISTINCT_IRRELEVANT) or len(call["children"]) > 1:
        return None
    plain = to_sql({**call, "distinct": False})
    if name in _COUNTS:
        return Decomposed((plain,), lambda c: f"CAST(sum({c[0]}) AS BIGINT)")
    digits = decimal_digits(argument_type)
    if name in _SELF and (digits or argument_type in _ROUND_TRIP):
        return Decomposed((plain,), lambda c: f"{name}({c[0]})")
    if digits > SUM_DIGITS_MAX or argument_type in _WIDEST:
        return None  # a bucket's sum may overflow, and that must cost its group only
    if name == "sum":
        if is_integer(argument_type) or argument_type == "BOOLEAN":
            return Decomposed((plain,), lambda c: f"CAST(sum({c[0]}) AS BIGINT)")
        return Decomposed((plain,), lambda c: f"sum({c[0]})")
    if name in _AVERAGES and not argument_type.startswith(("TIME", "DATE", "INTERVAL")):  # of these there is no sum
        total, count = (to_sql({**call, "function_name": f}) for f in ("sum", "count"))
        return Decomposed((total, count), lambda c: f"(CAST(sum({c[0]}) AS DOUBLE) / CAST(sum({c[1]}) AS DOUBLE))")
    return None


def over_rows(call: Tree, argument_type: str) -> str:
    """A call over a window's rows: in total order where order matters, with integer sums as BIGINT."""
    name = call["function_name"].lower()
    if name in _ORDERED:
        last: Any = call["children"][0] if call["distinct"] else column_ref(POSITION)
        order = {"type": "ORDER_DEFAULT", "null_order": "ORDER_DEFAULT", "expression": last}
        bys = call["order_bys"]
        call = {**call, "order_bys": {**bys, "orders": [*bys["orders"], order]}}
    sql = to_sql(call)
    if name == "sum" and (is_integer(argument_type) or argument_type == "BOOLEAN"):
        return f"CAST({sql} AS BIGINT)"
    return sql
