# ruff: noqa: E501 - a table of calls
"""For every SQL function that a query may use, calls of it: made up from the engine's signatures, by hand where those
say too little (types that depend on each other, arguments that must be literals).
"""

from __future__ import annotations

import itertools
import os
import random
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from functools import cache

from borealis_py.engine.sql.duck_connection import connect
from borealis_py.engine.sql.functions import AGGREGATES, BY_NAME, OPERATORS, SCALARS
from tests.engine.worlds import Row

_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "VARCHAR": ("k",),
    "BIGINT": ("i",),
    "INTEGER": ("CAST(i % 1000 AS INTEGER)",),
    "SMALLINT": ("CAST(i % 100 AS SMALLINT)",),
    "TINYINT": ("CAST(i % 10 AS TINYINT)",),
    "HUGEINT": ("CAST(i AS HUGEINT)",),
    "UBIGINT": ("CAST(abs(i % 1000) AS UBIGINT)",),
    "UINTEGER": ("CAST(abs(i % 1000) AS UINTEGER)",),
    "DOUBLE": ("x",),
    "FLOAT": ("CAST(x AS FLOAT)",),
    "DECIMAL": ("CAST(x AS DECIMAL(18, 3))",),
    "BOOLEAN": ("b",),
    "TIMESTAMP": ("make_timestamp(i % 100000000)",),
    "TIMESTAMP_NS": ("make_timestamp_ns(i)",),
    "TIMESTAMP WITH TIME ZONE": ("to_timestamp(x)",),
    "TIME": ("CAST(make_timestamp(i) AS TIME)",),
    "TIME WITH TIME ZONE": ("CAST(make_timestamp(i) AS TIMETZ)",),
    "DATE": ("CAST(make_timestamp(i) AS DATE)",),
    "INTERVAL": ("to_microseconds(i % 1000000)", "to_months(CAST(i % 100 AS INTEGER))"),
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

_LIST, _PAIR, _MAP, _ARRAY = (
    "[i, 3, x]",
    "[x, 2.5, 1.0], [1.0, 0.5, x]",
    "map([k, 'b'], [i, 2])",
    "CAST([x, 2, 1] AS DOUBLE[3])",
)
_ROW, _NAMED, _OBJECT = "row(i, k)", "{'a': i, 'b': k}", '\'{"a": [1, {"b": null}]}\''
_BY_HAND: dict[str, tuple[str, ...]] = {
    "!__postfix": ("(CAST(abs(i % 20) AS INTEGER))!",),
    **{f"{name}": (f"{name}([i, 3], 'sum')", f"{name}([x, 0.1, 2.5], 'quantile_cont', 0.3)", f"{name}([k, 'b'], 'mode')")
       for name in BY_NAME},
    **{f"{kind}_{name}": (f"{kind}_{name}({_LIST}, 7)",) for kind in ("list", "array") for name in ("append",)},
    **{f"{kind}_prepend": (f"{kind}_prepend(i, [2, 3])",) for kind in ("list", "array")},
    **{name: (f"{name}([i, 2], [3])",) for name in ("array_cat", "array_concat", "list_cat", "list_concat")},
    **{f"array_{name}": (f"array_{name}({_ARRAY}, CAST([1, 2, 3] AS DOUBLE[3]))",)
       for name in ("cosine_distance", "cosine_similarity", "cross_product", "distance", "dot_product", "inner_product",
                    "negative_dot_product", "negative_inner_product")},
    "array_pop_back": ("array_pop_back([i, 3])",),
    "array_pop_front": ("array_pop_front([i, 3])",),
    "array_push_back": ("array_push_back([i, 3], i)",),
    "array_push_front": ("array_push_front([i, 3], i)",),
    "array_reverse": ("array_reverse([k, 'b'])",),
    "list_reverse": ("list_reverse([k, 'b'])",),
    "array_to_json": ("array_to_json([k, 'b'])",),
    "array_to_string": ("array_to_string([k, 'b'], '-')",),
    "array_value": ("array_value(i, 3)",),
    "array_zip": ("array_zip([i], [k])",),
    "list_zip": ("list_zip([i, 3], [k])",),
    "cardinality": (f"cardinality({_MAP})",),
    "date_add": ("date_add(make_timestamp(i % 1000000), INTERVAL 1 MONTH)",),
    "days_in_month": ("days_in_month(make_timestamp(i % 1000000))",),
    "fdiv": ("fdiv(x, 3)",),
    "fmod": ("fmod(x, 3)",),
    "flatten": ("flatten([[i], [3, 4]])",),
    "from_base64": ("from_base64(to_base64(encode(hex(k))))",),
    **{name: (f"{name}({_OBJECT}, '{{\"a\": [\"VARCHAR\"]}}')", f"{name}(to_json([i]), '[\"DOUBLE\"]')")
       for name in ("from_json", "from_json_strict", "json_transform", "json_transform_strict")},
    "generate_series": ("generate_series(1, 4)", "generate_series(TIMESTAMP '2020-01-01', TIMESTAMP '2020-01-03', INTERVAL 1 DAY)"),
    "range": ("range(1, 9, 2)", "range(3)"),
    **{name: (f"{name}(k, 'a%', '!')",)
       for name in ("like_escape", "ilike_escape", "not_like_escape", "not_ilike_escape")},
    **{name: (f"{name}({_OBJECT}, '$.a[0]')", f"{name}(to_json({_NAMED}), '$.a')")
       for name in ("json_extract", "json_extract_path", "json_extract_path_text", "json_extract_string", "json_value")},
    "json_quote": ("json_quote(k)",),
    "to_json": ("to_json(x)", f"to_json({_NAMED})", "to_json([make_timestamp(i % 100)])"),
    "row_to_json": (f"row_to_json({_NAMED})",),
    **{f"list_{name}": (f"list_{name}([x, 0.1, 2.5])",)
       for name in ("any_value", "approx_count_distinct", "avg", "count", "entropy", "first", "histogram", "last", "mad",
                    "max", "median", "min", "mode", "product", "sum")},
    **{f"list_{name}": (f"list_{name}([0.1, 2.5, 7.5, CASE WHEN abs(x) < 100 THEN x END])",)
       for name in ("kurtosis", "kurtosis_pop", "sem", "skewness", "stddev_pop", "stddev_samp", "var_pop", "var_samp")},
    **{f"list_{name}": (f"list_{name}([i, 3])",) for name in ("bit_and", "bit_or", "bit_xor")},
    **{f"list_{name}": (f"list_{name}([b, true])",) for name in ("bool_and", "bool_or")},
    "list_string_agg": ("list_string_agg([k, 'b'])",),
    "map_concat": ("map_concat(map([i], [k]), map([CAST(7 AS BIGINT)], ['z']))",),
    "map_contains": (f"map_contains({_MAP}, 'b')",),
    "map_contains_entry": (f"map_contains_entry({_MAP}, 'b', 2)",),
    "map_contains_value": (f"map_contains_value({_MAP}, 2)",),
    "map_extract": (f"map_extract({_MAP}, 'b')",),
    "element_at": (f"element_at({_MAP}, 'b')",),
    "map_extract_value": (f"map_extract_value({_MAP}, 'b')",),
    "map_from_entries": ("map_from_entries([(i, k), (3, 'x')])",),
    "md5_number": ("CAST(md5_number(k) AS VARCHAR)",),
    "md5_number_lower": ("CAST(md5_number_lower(k) AS VARCHAR)",),
    "md5_number_upper": ("CAST(md5_number_upper(k) AS VARCHAR)",),
    "nullif": ("nullif(i, 1)",),
    "parse_formatted_bytes": ("parse_formatted_bytes(concat(abs(i % 1000), 'KiB'))",),
    "position": ("position('a' IN k)",),
    "round_even": ("round_even(x, 1)",),
    "roundbankers": ("roundbankers(x, 1)",),
    "row": (_ROW,),
    "timezone": ("hour(timezone('America/New_York', to_timestamp(i % 100000000)))", "strftime(timezone('Asia/Tokyo', to_timestamp(x)), '%c')"),
    "timezone_hour": ("timezone_hour(to_timestamp(i % 1000))",),
    "timezone_minute": ("timezone_minute(to_timestamp(i % 1000))",),
    "strftime": ("strftime(make_timestamp(i % 100000000), '%c %x %p %Z %A %B %G %V %j')",),
    "date_part": ("date_part('epoch', make_timestamp(i % 100000000))", "date_part(['year', 'week'], make_timestamp(i % 100))"),
    "datepart": ("datepart('dow', make_timestamp(i % 100000000))",),
    "->>": (f"({_OBJECT} ->> '$.a[0]')", "(to_json([i]) ->> 0)"),
    "split_part": ("split_part(k, '-', 1)",),
    "strptime": ("strptime('2020-02-03 Feb', '%Y-%m-%d %b')", "strptime(concat('20', 10 + abs(i % 80), ' +0100'), '%Y %z')"),
    "try_strptime": ("try_strptime('2020-02-03 Feb', '%Y-%m-%d %b')", "try_strptime(k, ['%Y', '%Y-%m-%d'])"),
    "struct_concat": (f"struct_concat({_NAMED}, {{'c': x}})",),
    **{name: (f"{name}({_ROW}, i)",)
       for name in ("struct_contains", "struct_has")},
    **{name: (f"{name}(row(i, 3), i)",) for name in ("struct_indexof", "struct_position")},
    "struct_extract": (f"struct_extract({_NAMED}, 'b')",),
    "struct_extract_at": (f"struct_extract_at({_ROW}, 2)",),
    "struct_insert": (f"struct_insert({_NAMED}, c := x)",),
    "struct_update": (f"struct_update({_NAMED}, a := x)",),
    "struct_keys": (f"struct_keys({_NAMED})",),
    "struct_pack": ("struct_pack(a := i, b := k)",),
    "union_extract": ("union_extract(union_value(a := i), 'a')",),
    "union_tag": ("union_tag(union_value(a := i))",),
    "union_value": ("union_value(a := i)",),
    "uuid_extract_timestamp": ("uuid_extract_timestamp(CAST('018d3f5e-7b1a-7cc0-a4a6-0242ac120002' AS UUID))",),
    "struct_contains": ("struct_contains(row(i, 3), i)",),
    "struct_has": ("struct_has(row(i, 3), i)",),
}  # fmt: skip
_FINITE = "CASE WHEN abs(x) < 100 THEN x END"
_AGGREGATES_BY_HAND: dict[str, tuple[str, ...]] = {
    "count_star": ("count(*)",),
    "approx_quantile": ("approx_quantile(x, 0.3)", "approx_quantile(i, [0.2, 0.9])"),
    "histogram": ("histogram(k)", "histogram(i, [0, 10, 100])"),
    "histogram_exact": ("histogram_exact(i, [0, 2, 7])", "histogram_exact(k, ['a', 'ab'])"),
    "bitstring_agg": ("bitstring_agg(CAST(i % 10 AS INTEGER), -10, 10)",),
    "quantile": ("quantile(i, 0.3)", "quantile(k, 0.5)"),
    "quantile_cont": ("quantile_cont(x, 0.3)", "quantile_cont(i, [0.2, 0.9])"),
    "quantile_disc": ("quantile_disc(x, 0.3)", "quantile_disc(k, 0.5)"),
    **{name: (f"{name}({_FINITE}, i % 1000)",)
       for name in ("corr", "regr_intercept", "regr_slope", "regr_sxx", "regr_syy", "covar_pop", "covar_samp", "regr_r2")},
    **{name: (f"{name}({_FINITE})",)
       for name in ("kurtosis", "kurtosis_pop", "sem", "skewness", "stddev", "stddev_pop", "stddev_samp", "var_pop",
                    "var_samp", "variance")},
}  # fmt: skip
_MOST = 8 if os.environ.get("BOREALIS_EXPLORE") else 2
"""Calls of one function that are made up: they take some 0.1 s each, in two processes."""

_TEXTS = (
    "", "day", "a", "ab", "2020-01-01", "2020-01-01 00:00:00", "America/New_York", "nonsense/zone", '{"a":[1]}', "$.a",
    "$[", "%d", "(", "\\", "é\u0301", "\U0001fae8", "1", "1e400", "-0", "nan", "infinity", "00", "zz==", "0x1",
    "timezone_hour", "12:00", " " * 50, "1 day", "%", "TITLE İıß", "[1, 2]", "%Y-%m-%d", "a,b", "00ff", "UTC", "0101",
)  # fmt: skip
_INTEGERS = (0, 1, -1, 7, 100, 2**31, -(2**31), 2**62, -(2**62), 2**63 - 1, -(2**63), 64, -64, 1000, 2, 3)
_DOUBLES = (0.0, -0.0, 1.5, -1.5, float("nan"), float("inf"), float("-inf"), 1e300, 1e-300, 2.0**63, 0.1, 0.3, 3.0)


def rows(seed: int, count: int = 9) -> list[Row]:
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


def _made_up(name: str, per_signature: int = 2) -> Iterator[str]:
    for types in _signatures()[name]:
        options = [_ARGUMENTS.get(t, _ARGUMENTS.get(t.split("(")[0], ())) for t in types]
        for arguments in itertools.islice(itertools.product(*options), per_signature):
            call = _called(name, arguments)
            if call is not None:
                yield call


def _calls(name: str, by_hand: dict[str, tuple[str, ...]]) -> list[str]:
    return list(dict.fromkeys((*by_hand.get(name, ()), *itertools.islice(_made_up(name), _MOST))))


TYPED = {"m": "decimal(18,3)", "t": "timestamp", "d": "date", "y": "binary", "o": "json"}
"""Columns beside those of `worlds.COLUMNS`, for calls by columns of these types."""
_TYPED = {"DECIMAL": "m", "TIMESTAMP": "t", "DATE": "d", "BLOB": "y", "JSON": "o", "ANY": "t", "T": "m"}
_ODD: dict[str, tuple[object, ...]] = {
    "m": (Decimal("0.000"), Decimal("-0.001"), Decimal("999999999999999.999"), Decimal("-999999999999999.999"), Decimal("1.500")),
    "t": (datetime.min, datetime.max, datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(2024, 2, 29, 12)),
    "d": (date.min, date.max, date(1970, 1, 1), date(2024, 2, 29), date(1582, 10, 15)),
    "y": (b"", b"\0", b"ab", b"\xff\xfe", b"\x80"),
    "o": ('{"a":[1,{"b":null}]}', "1.10", '"\\u00fc"', "[]", "null", "123456789012345678901234567890", "1e300"),
}  # fmt: skip


def typed_rows(seed: int, count: int) -> dict[str, list[object]]:
    """Values of `TYPED`: plain ones first, then whatever is odd."""
    dice = random.Random(seed)
    return {name: [odd[-1], *(dice.choice((*odd, None)) for _ in range(count - 1))] for name, odd in _ODD.items()}


def typed() -> dict[str, list[str]]:
    """Name -> calls of it by columns of `TYPED`, for those that take any."""
    found = {}
    for name in sorted((SCALARS | BY_NAME | AGGREGATES) - {"->>"}):
        calls = {call for types in _signatures()[name] for call in _by_columns(name, types)}
        found[name] = sorted(calls)[: 2 * _MOST]
    return {name: calls for name, calls in found.items() if calls}


def _by_columns(name: str, types: list[str]) -> Iterator[str]:
    kinds = [type_.split("(")[0] for type_ in types]
    if not any(kind in _TYPED for kind in kinds):
        return
    options = [_TYPED.get(kind) or next(iter(_ARGUMENTS.get(kind, ())), None) for kind in kinds]
    call = None if None in options else _called(name, tuple(option for option in options if option))
    if call is not None:
        yield call


def scalars() -> dict[str, list[str]]:
    """Name -> calls of it, that may or may not be valid."""
    return {n: _calls(n, _BY_HAND) for n in sorted(SCALARS | BY_NAME)}


def aggregates() -> dict[str, list[str]]:
    """Likewise of aggregates."""
    return {n: _calls(n, _AGGREGATES_BY_HAND) for n in sorted(AGGREGATES)}
