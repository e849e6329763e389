"""Which windows need no statement: those that count rows and add up plain columns (`grouped_sums`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from borealis_py.engine.operators.grouped_sums import KEY_TYPES, Measure, MeasureKind
from borealis_py.engine.sql.expressions import Tree, is_aggregate, to_sql

_COUNTS = frozenset({"count_star", "count"})
_AVERAGES = frozenset({"avg", "mean"})


def groups_by(keys: Iterable[str], schema: pa.Schema) -> bool:
    """Whether rows of this schema can be grouped by these columns."""
    return all(schema.field(key).type in KEY_TYPES for key in keys)


def of_rows(calls: Sequence[Tree], schema: pa.Schema) -> tuple[Measure, ...] | None:
    """The partials of these aggregate calls over rows, in the order of `aggregates.decompose`; None: a statement is
    needed."""
    found: list[Measure] = []
    for call in calls:
        measures = _of_row(call, schema)
        if measures is None:
            return None
        found += measures
    return tuple(found)


def _of_row(call: Tree, schema: pa.Schema) -> list[Measure] | None:
    name = _plain(call)
    if name == "count_star" and not call["children"]:
        return [Measure(MeasureKind.ROWS)]
    column = _column(call)
    if name is None or column not in schema.names:
        return None
    if name == "count":
        return [Measure(MeasureKind.VALUES, (column,))]
    if schema.field(column).type != pa.float64():
        return None
    if name == "sum":
        return [Measure(MeasureKind.SUM, (column,))]
    return [Measure(MeasureKind.SUM, (column,)), Measure(MeasureKind.VALUES, (column,))] if name in _AVERAGES else None


def of_partials(
    results: Sequence[Tree], partials: Mapping[str, Sequence[str]], schema: pa.Schema
) -> tuple[Measure, ...] | None:
    """The results of windows over partials; None: a statement is needed.

    Args:
        results: the expression of each. partials: the columns with the partials of each call, by its SQL.
        schema: of the partials.
    """
    found: list[Measure] = []
    for tree in results:
        columns = partials.get(to_sql(tree)) if is_aggregate(tree) else None
        measure = None if columns is None else _of_partial(_plain(tree), tuple(columns), schema)
        if measure is None:
            return None
        found.append(measure)
    return tuple(found)


def _of_partial(name: str | None, columns: tuple[str, ...], schema: pa.Schema) -> Measure | None:
    types = [schema.field(column).type for column in columns]
    if name in _COUNTS and types == [pa.int64()]:
        return Measure(MeasureKind.TOTAL, columns)
    if name == "sum" and types == [pa.float64()]:
        return Measure(MeasureKind.SUM, columns)
    if name in _AVERAGES and types == [pa.float64(), pa.int64()]:
        return Measure(MeasureKind.MEAN, columns)
    return None


def _plain(call: Tree) -> str | None:
    """The name of an aggregate that takes all values of its group as they come; None: it does not."""
    if call["distinct"] or call["filter"] or call["order_bys"]["orders"]:
        return None
    name: str = call["function_name"].lower()
    return name


def _column(call: Tree) -> str:
    """The column that is the call's only argument; empty: it has another."""
    children = call["children"]
    if len(children) != 1 or children[0]["class"] != "COLUMN_REF" or len(children[0]["column_names"]) != 1:
        return ""
    name: str = children[0]["column_names"][0]
    return name
