"""Which SQL functions a query may use: those on our list (`functions`), and why others may not."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from functools import cache

from borealis_py.engine.duck import connect
from borealis_py.engine.functions import AGGREGATES, BY_NAME, OPERATORS, SCALARS
from borealis_py.query.errors import did_you_mean

_CHANGES = "its result is not the same each time, so replicas would disagree; stime is the time to use"
_TABLE = "it makes a table or reads one, and a query reads its sources only"
_LAMBDA = "it takes a lambda function, and these are not allowed"
_INNER = "it tells of the engine's inner state"
_TYPES = "it depends on the engine's inner types"
_ORDER = "it is about the order of rows, like OVER (...); use .window(...).agg(...)"

_REASONS: dict[str, str] = {
    "current_setting": "it reads a setting",
    "getvariable": "it reads a variable",
    "version": "it reads the engine's version",
    "age": "with one argument it reads the clock",
    "reservoir_quantile": "it draws a random sample",
    "stats": "it reads the engine's inner state",
    "unnest": "it makes several rows of one",
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
"""What to say of well-known ones."""

# Names without parentheses that SQL understands as calls.
_BARE = {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "current_user", "user"}
_NEAREST = 3


@dataclass(frozen=True)
class Catalogue:
    """Names in lower case. `refused` maps a name that the engine has to the reason."""

    scalars: frozenset[str]
    aggregates: frozenset[str]
    refused: dict[str, str]

    def objection(self, function: str) -> str | None:
        """Why this function cannot be used, or None."""
        name = function.lower()
        if name in self.scalars or name in self.aggregates:
            return None
        if name in self.refused:
            return f"function {name}() is not allowed: {self.refused[name]}{self._instead(name)}"
        return f"unknown function {name}(){did_you_mean(name, self._words)}"

    def list_objection(self, aggregate: str) -> str | None:
        """Why this aggregate, named as text in list_aggregate(), cannot be used, or None."""
        name = aggregate.lower()
        if name in self.aggregates:
            return None
        if name in self.refused:
            return f"aggregate {name}() is not allowed: {self.refused[name]}"
        return f"unknown aggregate {aggregate!r}{did_you_mean(name, sorted(self.aggregates))}"

    def bare(self, name: str) -> str | None:
        """Why a bare name, no column, cannot be used: `current_date` is a call without parentheses."""
        if name.lower() in _BARE:
            return (
                f"{name.lower()} is not allowed: results must not depend on when or where they are computed; use stime"
            )
        return None

    @property
    def _words(self) -> list[str]:
        return sorted((self.scalars | self.aggregates) - OPERATORS)

    def _instead(self, name: str) -> str:
        close = difflib.get_close_matches(name, self._words, n=_NEAREST)
        return f"; allowed are {', '.join(close)}" if close else ""


@cache
def catalogue() -> Catalogue:
    """Read once a process."""
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
    return "it is not on the list of functions that are known to give the same result everywhere"
