"""Which SQL functions a query may use: those listed in `functions`. For any other, the reason it is refused."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache

from borealis_py.engine.sql.duck_connection import connect
from borealis_py.engine.sql.functions import AGGREGATES, BY_NAME, OPERATORS, SCALARS
from borealis_py.query.errors import did_you_mean

_CHANGES = "its result varies between calls, so replicas would disagree; for the time use stime"
_TABLE = "it creates or reads a table, and a query reads only its sources"
_LAMBDA = "it takes a lambda function, which is not allowed"
_INNER = "it exposes the engine's internal state"
_TYPES = "it depends on the engine's internal types"
_ORDER = "it depends on the order of rows, like OVER (...); use .window(...).agg(...)"

_REASONS: dict[str, str] = {
    "current_setting": "it reads a setting",
    "getvariable": "it reads a variable",
    "version": "it reads the engine's version",
    "age": "with one argument it reads the clock",
    "reservoir_quantile": "it draws a random sample",
    "stats": "it reads the engine's internal state",
    "unnest": "it turns one row into several",
    **dict.fromkeys(("pg_typeof", "typeof", "get_type", "cast_to_type", "can_cast_implicitly", "vector_type"), _TYPES),
    **dict.fromkeys(("current_localtime", "current_localtimestamp", "ago"), _CHANGES),
    **dict.fromkeys(("json_serialize_plan", "json_serialize_sql", "json_deserialize_sql", "alias"), _INNER),
    **dict.fromkeys(
        ("apply", "array_apply", "array_filter", "array_reduce", "array_transform", "filter", "list_apply",
         "list_filter", "list_reduce", "list_transform", "reduce"), _LAMBDA,
    ),
    **dict.fromkeys(
        ("cume_dist", "dense_rank", "first_value", "lag", "last_value", "lead", "nth_value", "ntile", "percent_rank",
         "rank", "rank_dense", "row_number"), _ORDER,
    ),
}  # fmt: skip
"""Reasons for well-known functions."""

# Names that SQL parses as calls without parentheses.
_BARE = {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "current_user", "user"}
_NEAREST = 3


@dataclass(frozen=True)
class Catalogue:
    """The functions that expressions may use: `scalars` of one row, `aggregates` of many. `refused` maps each other
    function of the engine to the reason it is refused. Names are in lower case."""

    scalars: frozenset[str]
    aggregates: frozenset[str]
    refused: dict[str, str]

    def objection(self, function: str) -> str | None:
        """Why this function is not allowed; None: it is."""
        name = function.lower()
        if name in self.scalars or name in self.aggregates:
            return None
        if name in self.refused:
            return f"function {name}() is not allowed: {self.refused[name]}{self._instead(name)}"
        return f"unknown function {name}(){did_you_mean(name, self._words)}"

    def list_objection(self, aggregate: str) -> str | None:
        """Why this aggregate, named as text in list_aggregate(), is not allowed; None: it is."""
        name = aggregate.lower()
        if name in self.aggregates:
            return None
        if name in self.refused:
            return f"aggregate {name}() is not allowed: {self.refused[name]}"
        return f"unknown aggregate {aggregate!r}{did_you_mean(name, sorted(self.aggregates))}"

    def bare(self, name: str) -> str | None:
        """Why a bare name that is not a column is not allowed: `current_date` is a call without parentheses."""
        if name.lower() in _BARE:
            return (
                f"{name.lower()} is not allowed: results must not depend on when or where they are computed; use stime"
            )
        return None

    @property
    def _words(self) -> list[str]:
        return sorted((self.scalars | self.aggregates) - OPERATORS)

    def _instead(self, name: str) -> str:
        if (
            ";" in self.refused[name]
        ):  # it says what to use; functions spelled alike, row() for now(), do something else
            return ""
        close = difflib.get_close_matches(name, self._words, n=_NEAREST)
        return f"; allowed are {', '.join(close)}" if close else ""


@cache
def catalogue() -> Catalogue:
    """Read once per process."""
    connection = connect()
    rows = connection.execute(
        "SELECT lower(function_name), function_type, stability FROM duckdb_functions()"
    ).fetchall()
    connection.close()
    kinds: dict[str, set[str]] = {}
    stabilities: dict[str, set[str]] = {}
    for name, kind, stability in rows:
        kinds.setdefault(name, set()).add(kind)
        stabilities.setdefault(name, set()).add(stability or "CONSISTENT")
    allowed = SCALARS | AGGREGATES | BY_NAME
    refused = {name: _reason(name, kind, stabilities[name]) for name, kind in kinds.items() if name not in allowed}
    there = frozenset(kinds)
    return Catalogue((SCALARS | BY_NAME) & there, AGGREGATES & there, _REASONS | refused)


def _reason(name: str, kinds: set[str], stabilities: set[str]) -> str:
    if name in _REASONS:
        return _REASONS[name]
    if stabilities - {"CONSISTENT"}:
        return _CHANGES
    if not kinds & {"scalar", "aggregate", "macro"}:
        return _TABLE
    return "it is not on the list of functions known to give the same result everywhere"
