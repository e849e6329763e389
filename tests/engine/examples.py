"""For every SQL function that a query may use, calls of it: made up from the engine's signatures, by hand where those
say too little (types that depend on each other, arguments that must be literals).
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from functools import cache

from borealis_py.engine.duck import connect
from borealis_py.engine.functions import AGGREGATES, BY_NAME, OPERATORS, SCALARS
from tests.engine.worlds import Row

_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "VARCHAR": ("k",),
    "BIGINT": ("i",),
    "INTEGER": ("CAST(i AS INTEGER)",),
    "SMALLINT": ("CAST(i AS SMALLINT)",),
    "TINYINT": ("CAST(i AS TINYINT)",),
    "HUGEINT": ("CAST(i AS HUGEINT)",),
    "UBIGINT": ("CAST(i AS UBIGINT)",),
    "UINTEGER": ("CAST(i AS UINTEGER)",),
    "DOUBLE": ("x",),
    "FLOAT": ("CAST(x AS FLOAT)",),
    "DECIMAL": ("CAST(x AS DECIMAL(18, 3))",),
    "BOOLEAN": ("b",),
    "TIMESTAMP": ("make_timestamp(i)",),
    "TIMESTAMP_NS": ("make_timestamp_ns(i)",),
    "TIMESTAMP WITH TIME ZONE": ("to_timestamp(x)",),
    "TIME": ("CAST(make_timestamp(i) AS TIME)",),
    "TIME WITH TIME ZONE": ("CAST(make_timestamp(i) AS TIMETZ)",),
    "DATE": ("CAST(make_timestamp(i) AS DATE)",),
    "INTERVAL": ("to_microseconds(i)", "to_months(CAST(i AS INTEGER))"),
    "BLOB": ("encode(k)",),
    "BIT": ("CAST('0101' AS BIT)",),
    "UUID": ("CAST('6ba7b810-9dad-11d1-80b4-00c04fd430c8' AS UUID)",),
    "JSON": ('CAST(\'{"a": [1, 2], "b": null}\' AS JSON)',),
    "ANY": ("k", "i"),
    "T": ("i", "k"),
    "T[]": ("[i, 3]", "[k]"),
    "ANY[]": ("[i, 2]",),
    "VARCHAR[]": ("[k, 'a']",),
    "BIGINT[]": ("[i, 1]",),
    "DOUBLE[]": ("[x, 1.0]",),
    "FLOAT[]": ("[CAST(x AS FLOAT), 1.0]",),
    "BOOLEAN[]": ("[b, true]",),
    "MAP": ("map([k], [i])",),
    "MAP(K, V)": ("map([k], [i])",),
    "STRUCT": ("{'a': i, 'b': k}",),
}

_BY_HAND: dict[str, tuple[str, ...]] = {
    "!__postfix": ("(i % 20)!",),
    "count_star": ("count(*)",),
}

_AGGREGATES_BY_HAND: dict[str, tuple[str, ...]] = {}

_TEXTS = (
    "", "day", "a", "ab", "2020-01-01", "2020-01-01 00:00:00", "America/New_York", "nonsense/zone", '{"a":[1]}', "$.a",
    "$[", "%d", "(", "\\", "é\u0301", "\U0001fae8", "1", "1e400", "-0", "nan", "infinity", "00", "zz==", "0x1",
    "timezone_hour", "12:00", " " * 50, "1 day", "%", "TITLE İıß", "[1, 2]", "%Y-%m-%d", "a,b", "00ff", "UTC", "0101",
)  # fmt: skip
_INTEGERS = (0, 1, -1, 7, 100, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63), 64, -64, 1000, 2, 3)
_DOUBLES = (0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), float("-inf"), 1e300, 1e-300, 2.0**63, 0.1, 0.3, 3.0)


def rows(seed: int = 5, count: int = 80) -> list[Row]:
    """Plain rows first, then whatever is odd, in every combination that chance makes. Without huge counts."""
    dice = random.Random(seed)
    plain: list[Row] = [("ab", 2, 1.5, True, 1), ("1", 1, 0.5, True, 2), ("day", 3, 2.5, False, 3)]
    odd: list[Row] = [
        (dice.choice((*_TEXTS, None)), dice.choice((*_INTEGERS, None)), dice.choice((*_DOUBLES, None)),
         dice.choice((True, False, None)), 4 + n)
        for n in range(count)
    ]  # fmt: skip
    return plain + odd


@cache
def _signatures() -> dict[str, list[list[str]]]:
    connection = connect()
    found: dict[str, list[list[str]]] = {}
    asked = "SELECT lower(function_name), parameter_types FROM duckdb_functions()"
    for name, types in connection.execute(asked).fetchall():
        found.setdefault(name, []).append([str(t) for t in types])
    connection.close()
    return found


def _called(name: str, arguments: tuple[str, ...]) -> str | None:
    if name not in OPERATORS:
        return f"{name}({', '.join(arguments)})"
    if len(arguments) == 2:
        return f"({arguments[0]} {name} {arguments[1]})"
    return f"({name} {arguments[0]})" if len(arguments) == 1 else None


def _made_up(name: str, per_signature: int = 3) -> Iterator[str]:
    for types in _signatures()[name]:
        options = [_ARGUMENTS.get(t, _ARGUMENTS.get(t.split("(")[0], ())) for t in types]
        for arguments in itertools.islice(itertools.product(*options), per_signature):
            call = _called(name, arguments)
            if call is not None:
                yield call


def scalars() -> dict[str, list[str]]:
    """Name -> calls of it, that may or may not be valid."""
    return {n: list(dict.fromkeys((*_BY_HAND.get(n, ()), *_made_up(n)))) for n in sorted(SCALARS | BY_NAME)}


def aggregates() -> dict[str, list[str]]:
    """Likewise of aggregates."""
    return {n: list(dict.fromkeys((*_AGGREGATES_BY_HAND.get(n, ()), *_made_up(n)))) for n in sorted(AGGREGATES)}
