"""Which SQL functions a query may use: those the engine's own catalogue calls CONSISTENT, less a short list of ours."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from borealis_py.engine.duck import connect
from borealis_py.query.errors import did_you_mean

# The catalogue calls these CONSISTENT, but they read settings, variables, the clock or a sample.
_OURS = {
    "current_setting": "it reads a setting",
    "getvariable": "it reads a variable",
    "version": "it reads the engine's version",
    "age": "with one argument it reads the clock",
    "reservoir_quantile": "it draws a random sample",
    "pg_typeof": "it depends on the engine's inner types",
    "typeof": "it depends on the engine's inner types",
    "stats": "it reads the engine's inner state",
    "unnest": "it makes several rows of one",
}
# The catalogue does not say for macros; these are plain formulas (NULLIF is one).
_MACROS = {"nullif", "fdiv", "fmod", "round_even", "roundbankers", "split_part", "days_in_month"}
# The parser makes calls of these for syntax (a LIKE b, [1, 2], EXTRACT ...) or knows them only inside.
_SYNTAX = {"count_star"}
# Names without parentheses that SQL understands as calls.
_BARE = {"current_date", "current_time", "current_timestamp", "localtime", "localtimestamp", "current_user", "user"}


@dataclass(frozen=True)
class Catalogue:
    """Names in lower case. `refused` maps a name to the reason."""

    scalars: frozenset[str]
    aggregates: frozenset[str]
    refused: dict[str, str]

    def objection(self, function: str) -> str | None:
        """Why this function cannot be used, or None."""
        name = function.lower()
        if name in self.refused:
            return f"function {name}() is not allowed: {self.refused[name]}"
        if name in self.scalars or name in self.aggregates:
            return None
        known = [f for f in self.scalars | self.aggregates if f[0].isalpha()]
        return f"unknown function {name}(){did_you_mean(name, known)}"

    def bare(self, name: str) -> str | None:
        """Why a bare name, no column, cannot be used: `current_date` is a call without parentheses."""
        if name.lower() in _BARE:
            return (
                f"{name.lower()} is not allowed: results must not depend on when or where they are computed; use stime"
            )
        return None


@cache
def catalogue() -> Catalogue:
    """Read once a process."""
    connection = connect()
    rows = connection.execute(
        "SELECT lower(function_name), function_type, stability FROM duckdb_functions()"
    ).fetchall()
    connection.close()
    kinds: dict[str, set[str]] = {}
    stabilities: dict[str, set[str | None]] = {}
    for name, kind, stability in rows:
        kinds.setdefault(name, set()).add(kind)
        if kind in ("scalar", "aggregate"):
            stabilities.setdefault(name, set()).add(stability)
    scalars = {n for n, k in kinds.items() if "scalar" in k} | _MACROS
    aggregates = ({n for n, k in kinds.items() if "aggregate" in k} | _SYNTAX) - scalars
    return Catalogue(frozenset(scalars), frozenset(aggregates), _refused(kinds, stabilities))


def _refused(kinds: dict[str, set[str]], stabilities: dict[str, set[str | None]]) -> dict[str, str]:
    refused: dict[str, str] = {}
    for name, kind in kinds.items():
        if name in _OURS:
            refused[name] = _OURS[name]
        elif name in _MACROS:
            continue
        elif not kind & {"scalar", "aggregate"}:
            table = "it makes a table or reads one, and a query reads its sources only"
            refused[name] = "its result is not known to be the same each time" if "macro" in kind else table
        elif stabilities[name] - {"CONSISTENT"} or "macro" in kind:
            refused[name] = "its result is not the same each time, so replicas would disagree; stime is the time to use"
    return refused | {name: reason for name, reason in _OURS.items() if name not in refused}
