# ruff: noqa: E501 - a table of values
"""Values at the edges of what a row may hold, and calls of every accepted function that take them.

A row has two columns of each kind, so that two arguments of a call can be extreme at once. No row is beyond `row_max`.
"""

from __future__ import annotations

import itertools
import random
import re
import zlib
from collections.abc import Iterator
from functools import cache

import pyarrow as pa

from borealis_py.engine.arrow.rows import row_sizes, segment_schema
from borealis_py.engine.sql.functions import AGGREGATES, BY_NAME, SCALARS
from borealis_py.protocol.settings import ROW_MAX_BYTES
from tests.engine import examples

COLUMNS = {"k": "string", "j": "string", "i": "int", "n": "int", "x": "double", "z": "double", "b": "bool"}
SCHEMA = segment_schema(
    {"k": "string", "j": "string", "i": "int64", "n": "int64", "x": "double", "z": "double", "b": "bool"}
)
Values = dict[str, object]
PLAIN: Values = {"k": "ab", "j": "b", "i": 2, "n": 1, "x": 1.5, "z": 0.5, "b": True}
_FULL = ROW_MAX_BYTES - 6 * 8 - 300
_HALF = _FULL // 2 - 100


def _wide(count: int, item: str = "1") -> str:
    return "[" + ",".join([item] * count) + "]"


def _object(count: int) -> str:
    return "{" + ",".join(f'"k{n}":{n}' for n in range(count)) + "}"


def _filled(unit: str, size: int = _FULL) -> str:
    return unit * (size // len(unit.encode()))


TEXTS: dict[str, str | None] = {
    "null": None,
    **{repr(t): t for t in (
        "", " ", "[]", "{}", "''", '""', "null", "NULL", "\0", "a\0b", "\x7f\x01", "-", "=", "(", ")", "[", "\\", "%", "!",
        "e\u0301", "\U0001fae8", "\U0010ffff", "\uffff", "\ufeff", "\ufdfa", "\U0001d160", "\u202e", "\u0130\u0131\u1e9e\ufb03",
        "1e999999999", "-1e-999999999", "0e999999999", "1e-2000000000", "9" * 39, "170141183460469231731687303715884105728",
        "nan", "-infinity", "0x" + "f" * 33, "1_000", "0." + "0" * 400 + "1", "true", "-0",
        "294247-01-10 04:00:54.775806", "290309-12-22 (BC) 00:00:00", "infinity", "epoch", "5877642-06-25 (BC)", "9999999-99-99",
        "2020-01-01 00:00:00 America/New_York", "2020-01-01 00:00:00 nowhere", "24:00:00", "23:59:60", "00:00:00+15:59:59",
        "178000000 years", "-9999999999 days", "9223372036854775807 microseconds", "P99999999Y", "1 day ago",
        "Etc/GMT+14", "../../etc/passwd", "GMT+99:99:99", "America/" + "New_York" * 100,
        "%" * 1000, "%9999d", "%99999999d", "%*d", "%s" * 333, "%1$s", "%n", "%c%x%p%Z%z%n%j%U%g%-d" * 40,
        "{}" * 400, "{:9999}", "{:>99999999}", "{0:{0}}", "{" * 900, "{0}" * 333,
        "(a*)*b", "(a|a)*b", "(a?){1000}", "((a{30}){30}){30}", "(.{0,999}){0,1}", "(?:.*a){30}", "(?i)(a|b|ab)*c{999}", "(" * 400 + ")" * 400,
        "[^a]" * 200, r"\pL{1000}", r"\C*", ".*.*.*.*=.*", "^(a+)+$", "|" * 900, "(.?){500}" * 2 + "b", "[a-z]{0,500}x", "(?s).*(.{900})$",
        "%a" * 12 + "%b", "%_a" * 9 + "b", "%" * 900 + "b", "*a" * 12 + "*b", "[a-z]*" * 12 + "b", "[!" * 300,
        "$", "$[*]", "$..*", "$.*", "$[*][*][*]", "$**", "/a/b", '$."', "$[99999999999999999999]", "$[#-1]", "$[-1]", "/" * 900,
        "$" + ".a" * 300, "$" + "[*]" * 300, "$" + ".*" * 300, "$..a[*]",
        "microsecond", "millennium", "timezone", "era", "julian", "epoch", "bogus" * 200, "ISO", "NFC", "UTF8", "base64",
        "0", "1", "0101", "ff", "EDA080", "ff" * 40, "C3", "QQ==", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", "ab-", "-1", "9223372036854775808", "1,2,3", "{'a': 1, 'b': 2}",
        "{a=1, b=2}", "(1, 2)", "[1, NULL, 3]", '{"a": [1, 2], "b": null, "a": 3}', "a" * 40 + "b", "a" * 3000 + "b", "gs", "c" * 70)},
    "long a": _filled("a"), "long ab": _filled("ab"), "long space": _filled(" "), "long 0": _filled("0"), "long 1": _filled("1"), "long 9": _filled("9"),
    "long ff": _filled("ff"), "long EDA080": _filled("EDA080"), "long 01": _filled("01"), "long nul": _filled("\0"), "long quote": _filled('"'),
    "long apostrophe": _filled("'"), "long backslash": _filled("\\"), "long percent": _filled("%"), "long control": _filled("\x01"),
    "listed zone": "[2020-01-01 00:00:00 " + _filled("Zo", 900_000) + "]", "long comma": _filled("a,"), "long newline": _filled("\n"), "long base64": _filled("QUFB"), "long zone": "2020-01-01 00:00:00 " + _filled("Zo", 400_000),
    "long day": _filled("1 day "), "long dot": "0." + _filled("0", 900_000) + "1", "long exponent": "1e" + _filled("0", 400_000) + "1",
    "long slash": _filled("/a"), "long <": _filled("<"), "long dash": _filled("-"), "long %20": _filled("%20"), "400 kB": "x" * 400_000,
    "combining": "a" + _filled("\u0301", _FULL - 9), "combining classes": "a" + _filled("\u0301\u0316", _FULL - 9), "combining long": "a" + _filled("\u0345\u0334", 60_000),
    "jamo": _filled("\u1100\u1161\u11a8"), "zwj": _filled("\U0001f468\u200d"), "flags": _filled("\U0001f1e6"), "four bytes": _filled("\U0001fae8"),
    "sharp s": _filled("\u00df"), "dotted I": _filled("\u0130"), "expands": _filled("\U0001d160"), "expands too": _filled("\u0344"), "ligature": _filled("\ufdfa"),
    "deep [": "[" * 10_000 + "]" * 10_000, "deep {": '{"a":' * 10_000 + "1" + "}" * 10_000, "deep (": "(" * 10_000 + ")" * 10_000,
    "deeper {": '{"a":' * 60_000 + "1" + "}" * 60_000, "long string": '"' + _filled("a", _FULL - 9) + '"', "deep mixed": '[{"a":' * 10_000 + "1" + "}]" * 10_000, "deep '": "['" * 10_000, "deep open": "[" * 400_000, "deep struct": "{'a':" * 10_000 + "1" + "}" * 10_000,
    "deep quoted": '"' + "[" * 400_000 + '"', "deep in quotes": "'" + "[" * 10_000 + "]" * 10_000 + "'", "deep ((": "(1," * 100_000, "100 deep, wide": "[" * 99 + _wide(400_000) + "]" * 99,
    "deep 99 {": '{"a":' * 99 + "1" + "}" * 99, "row deep": "ROW(" * 10_000, "deep paths": '{"a":[' * 49 + _wide(1000) + "]}" * 49,
    "wide list": _wide(490_000), "wide 50 000": _wide(50_000), "wide texts": _wide(200_000, '"a"'), "wide nulls": _wide(190_000, "null"), "wide lists": _wide(300_000, "[]"),
    "wide object": _object(50_000), "wide object, one key": "{" + ",".join(['"a":1'] * 150_000) + "}", "wide objects": _wide(100_000, '{"a":1}'),
    "wide struct": "{" + ", ".join(f"'k{n}': {n}" for n in range(40_000)) + "}", "wide map": "{" + ", ".join(f"k{n}={n}" for n in range(50_000)) + "}",
    "wide numbers": "[" + ",".join(map(str, range(140_000))) + "]", "wide doubles": "[" + ",".join(str(n / 7) for n in range(45_000)) + "]",
    "wide one key": "{" + ", ".join(["a=1"] * 150_000) + "}", "split": ",".join(map(str, range(140_000))), "split ones": _filled("1,"),
}  # fmt: skip
INTEGERS: tuple[int | None, ...] = (
    None, 0, 1, -1, 2, 7, 63, 64, 65, -64, 127, 128, 255, 1000, 9999, 50_000, 1_000_000, 7_999_999, 60_000_000, 64_000_000,
    2**31 - 1, 2**31, -(2**31), 2**32, 2**53, 2**53 + 1, 2**62, 2**63 - 1, 2**63 - 2, -(2**63), -(2**63) + 1, -64_000_000,
    253_402_300_799_999_999, -9_223_372_022_400_000_000, 9_223_372_036_854_775_000,
)  # fmt: skip
DOUBLES: tuple[float | None, ...] = (
    None, 0.0, -0.0, 1.0, -1.0, 0.1, 1e308, -1e308, 1e-320, 5e-324, float("nan"), float("inf"), float("-inf"), 2.0**53, 2.0**63,
    -(2.0**63), 1e19, 1e38, 3.4e38, 170.0, 1e9, 253402300800.0, -1e12, 9.2e12,
)  # fmt: skip
_REGEXES = (
    "(a?){1000}b",
    "(.{0,999}){0,1}",
    "(?:.*a){30}",
    "(.?){500}b",
    "[a-z]{0,500}x",
    "(?s).*(.{900})$",
    "(a|ab)*c",
    "((a{0,30}){0,30})b",
)
_PATHS = ("$[*]", "$.*", "$..*", "$[*][*][*]", "$" + "[*]" * 300, "$.k49999", "$[#-1]", "/k49999", "$..a[*]")
PAIRS: tuple[tuple[str, str], ...] = (
    ("a" * (2 * _HALF * 2 // 3), "a" * (_HALF * 2 // 3 - 9) + "b"), ("a" * _HALF, "a" * (_HALF - 1) + "b"), ("ab" * (_HALF // 2), "ba" * (_HALF // 2)),
    ("a" * (_HALF - 1) + "b", "a" * (_HALF // 2) + "b"), ("0" * _HALF, "0" * (_HALF // 2) + "1"), ("0" * (_HALF // 2) + "1", "0" * _HALF),
    *(("a" * 900_000, pattern) for pattern in _REGEXES), *(("a" * 30, "%a" * n + "%b") for n in (6, 9, 12)), *(("a" * 3000, "%a" * n + "%b") for n in (3, 6)),
    ("a" * 30, "*a" * 9 + "*b"), ("a" * 3000, "%_a" * 5 + "b"), ("a" * 900_000, "%a%b"), ("a" * 900_000, "*a*a*b"), ("a" * 900_000, "%a%a%a%b"),
    (_object(20_000), _object(20_000)), (_wide(240_000), _wide(240_000, "1")), (_wide(120_000), _wide(120_000, "2")),
    ("[" + ",".join(map(str, range(70_000))) + "]", "[" + ",".join(map(str, range(70_000, 140_000))) + "]"),
    (_wide(60_000, '{"a":1}'), _wide(60_000, '{"a":2}')), ("{}", _object(45_000)), (_object(45_000), "{}"), ("{}", "null"),
    *((_object(50_000), path) for path in _PATHS), *((_wide(400_000), path) for path in _PATHS), *(("[" * 99 + _wide(99_000) + "]" * 99, path) for path in _PATHS),
    ("x" * 400_000, ",".join(["1"] * 250_000)), (",".join(["1"] * 250_000), "x" * 400_000), (",".join(["1"] * 200_000), "1"), ("a," * 200_000, "," * 400_000),
    ("a", "x" * 900_000), ("x" * 900_000, "a"), ("", "x" * 900_000), ("x" * 900_000, ""), ("a" * 9000, "a" * 7000), ("a" * 7990, "b" * 7990),
    ("%s" * 300, "x" * 900_000), ("{}" * 400, "x" * 900_000), ("{0}" * 330, "x" * 900_000), ("%s%s", "\0" * 900_000), ("{:9999}" * 130, "a"),
    ("\u0301\u0316" * 120_000, "\u0301" * 200_000), ("a\u0301" * 160_000, "a" * 300_000), ("\0" * _HALF, "\0"), ("\U0001f468\u200d" * 60_000, "\u200d"),
    ("Zo" * 400_000, "2020-01-01"), ("2020-01-01 00:00:00 Zone", "%Y-%m-%d %H:%M:%S %Z"), ("2020-01-01", "%Y" * 400), ("1" * 900_000, "%Y"), ("a" * 900_000, "[a-z]*" * 100 + "b"),
    ("a" * 900_000, "*" * 900 + "b"), ("2020-01-01 " * 80_000, "%c"), ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "(a|aa)+$"), ("b" * 400_000 + "," * 400_000, ","),
)  # fmt: skip
MIXED: tuple[Values, ...] = (
    *({"k": text, "i": i, "n": n} for text in ("", "a", "x" * 1000, "x" * 990_000, _wide(100_000), "\u0301" * 300_000, "a," * 100_000)
      for i, n in ((64_000_000, 1), (7_999_999, -1), (64, 8), (1000, 1000), (60_000, 60_000), (-1, -1), (2**63 - 1, 2**63 - 1), (-(2**63), -(2**63)), (490_000, 490_000), (1, 2**31 - 1))),
    *({"i": i, "n": n} for i in (2**63 - 1, -(2**63), -1, 0, 1, 60_000_000) for n in (2**63 - 1, -(2**63), -1, 0, 1, 64)),
    *({"x": x, "z": z} for x in (float("nan"), float("inf"), float("-inf"), 1e308, 5e-324, -0.0) for z in (float("nan"), float("inf"), float("-inf"), -1e308, 5e-324, 0.0)),
    *({"x": x, "i": i} for x in (1e308, float("nan"), 5e-324, -1e19) for i in (2**63 - 1, -(2**63), 308, -400, 0)),
)  # fmt: skip

_OBJECTS = ", ".join(["'{}'"] * 16)
_ARGUMENTS: dict[str, tuple[str, ...]] = {
    "VARCHAR": ("{k}",), "BIGINT": ("{i}",), "INTEGER": ("CAST({i} AS INTEGER)",), "SMALLINT": ("CAST({i} AS SMALLINT)",),
    "TINYINT": ("CAST({i} AS TINYINT)",), "HUGEINT": ("CAST({k} AS HUGEINT)", "CAST({i} AS HUGEINT)"), "UBIGINT": ("CAST({i} AS UBIGINT)",), "UINTEGER": ("CAST({i} AS UINTEGER)",),
    "DOUBLE": ("{x}",), "FLOAT": ("CAST({x} AS FLOAT)",), "DECIMAL": ("CAST({k} AS DECIMAL(38, 10))", "CAST({x} AS DECIMAL(38, 0))"), "BOOLEAN": ("b",),
    "TIMESTAMP": ("make_timestamp({i})", "CAST({k} AS TIMESTAMP)"), "TIMESTAMP_NS": ("make_timestamp_ns({i})",),
    "TIMESTAMP WITH TIME ZONE": ("to_timestamp({x})", "CAST({k} AS TIMESTAMPTZ)"), "TIME": ("CAST({k} AS TIME)", "CAST(make_timestamp({i}) AS TIME)"),
    "TIME WITH TIME ZONE": ("CAST({k} AS TIMETZ)",), "DATE": ("CAST(make_timestamp({i}) AS DATE)", "CAST({k} AS DATE)"),
    "INTERVAL": ("to_microseconds({i})", "to_months(CAST({i} AS INTEGER))", "CAST({k} AS INTERVAL)"), "BLOB": ("unhex({k})", "encode({k})"),
    "BIT": ("CAST({k} AS BIT)",), "UUID": ("CAST({k} AS UUID)",), "JSON": ("CAST({k} AS JSON)",), "ANY": ("{k}", "{i}", "CAST({k} AS JSON)", "string_split({k}, ',')", "{x}"),
    "T": ("{k}", "{i}"), "T[]": ("string_split({k}, ',')", "CAST({k} AS BIGINT[])"), "ANY[]": ("string_split({k}, ',')", "CAST({k} AS VARCHAR[])"),
    "VARCHAR[]": ("string_split({k}, ',')",), "BIGINT[]": ("CAST({k} AS BIGINT[])",), "DOUBLE[]": ("CAST({k} AS DOUBLE[])", "[{x}, {x}, 1.0]"), "FLOAT[]": ("CAST({k} AS FLOAT[])",),
    "BOOLEAN[]": ("CAST({k} AS BOOLEAN[])",), "MAP": ("CAST({k} AS MAP(VARCHAR, VARCHAR))",), "MAP(K, V)": ("CAST({k} AS MAP(VARCHAR, VARCHAR))",), "STRUCT": ("{{'a': {k}, 'b': {i}}}",),
}  # fmt: skip
"""Argument expressions by type; the first of a kind in a call takes columns k, i, x, the next ones j, n, z."""

_TYPES = ("TINYINT", "BIGINT", "HUGEINT", "UHUGEINT", "FLOAT", "DOUBLE", "DECIMAL(18, 3)", "DECIMAL(38, 37)", "BLOB", "BIT", "DATE", "TIME", "TIMETZ",
          "TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMP_NS", "TIMESTAMP_S", "TIMESTAMP_MS", "INTERVAL", "UUID", "JSON", "BOOLEAN", "BIGINT[]", "VARCHAR[]", "VARCHAR[][]", "DOUBLE[2]",
          "STRUCT(a VARCHAR, b BIGINT)", "STRUCT(a STRUCT(a VARCHAR))", "MAP(VARCHAR, BIGINT)", "MAP(BIGINT, VARCHAR)", "UNION(a BIGINT, b VARCHAR)", "JSON[]", "TIMESTAMPTZ[]")  # fmt: skip
MORE: dict[str, tuple[str, ...]] = {
    "cast": (*(f"CAST(k AS {t})" for t in _TYPES), *(f"TRY_CAST(k AS {t})" for t in _TYPES), *(f"CAST(i AS {t})" for t in _TYPES[:23]), *(f"CAST(x AS {t})" for t in _TYPES[:23]),
             *(f"CAST(CAST(k AS JSON) AS {t})" for t in _TYPES), *(f"CAST(string_split(k, ',') AS {t}[])" for t in _TYPES[:21]), "CAST(unhex(k) AS VARCHAR)", "CAST(make_timestamp(i) AS TIMESTAMPTZ)",
             "CAST(CAST(k AS TIMESTAMPTZ) AS TIME)", "CAST(CAST(k AS INTERVAL) AS VARCHAR)", "CAST(make_timestamp(i) AS DATE)"),
    "collate": (*(f"k COLLATE {c} = j" for c in ("NOCASE", "NOACCENT", "NFC", "NOCASE.NOACCENT", "NOACCENT.NFC", "de", "NOCASE.NFC")), "[k] = [j]", "k IN (j, 'a')", "k BETWEEN j AND 'z'",
                "string_split(k, ',') < string_split(j, ',')", "k IS DISTINCT FROM j", "list_sort([k COLLATE NFC, j])", "CASE k WHEN j THEN i ELSE n END"),
    "||": ("k || j", "string_split(k, ',') || string_split(j, ',')", "unhex(k) || encode(j)", "CAST(k AS BIT) || CAST(j AS BIT)"),
    "constant pattern": ("k LIKE '%a_%a_%a_%a_%a_%b'", "k ILIKE '%a%a%a%a%a%b'", "k GLOB '*a*a*a*a*b'", "k SIMILAR TO '(a|aa)*b'", r"regexp_matches(k, '(a?){900}b')", "k LIKE '%a!%a%_%a%a%b' ESCAPE '!'",
                         r"regexp_extract(k, '(.*)(.*)(.*)b$', 2)", r"regexp_replace(k, '(a*)*', '\1\1', 'g')", "k LIKE '%a%a%a%a%a%b'", r"regexp_extract_all(k, '')", "k ILIKE '%a_%a_%b_%c'"),
    "composed": ("array_to_string(list_resize([k], i, k), '')", "len(array_to_string(repeat([k], i), ','))", "repeat([k], i)", "list_resize([k], i, k)", "list_select([k], CAST(j AS BIGINT[]))",
                 "array_to_string(list_select([k], list_transform_free), '')".replace("list_transform_free", "CAST(string_split(j, ',') AS BIGINT[])"), "array_to_string(string_split(k, ','), j)", "concat_ws(j, k, k)",
                 "string_split(repeat(k, i), j)", "to_json(repeat([k], i))", "map_from_entries([(k, i), (j, n)])", "CAST(map(string_split(k, ','), string_split(k, ',')) AS VARCHAR)",
                 "map_keys(CAST(k AS MAP(VARCHAR, VARCHAR)))", "list_distinct(string_split(k, ','))", "list_zip(string_split(k, ','), string_split(j, ','))", "json_merge_patch(k, j)", "json_contains(k, j)",
                 "json_extract(k, ['$.a', '$..*'])", "list_sort(CAST(k AS JSON[]))", "json_object(k, j)", "json_group_free".replace("json_group_free", "json_array(k, j)"), "json_transform(k, '{\"a\": [\"BIGINT\"]}')",
                 "from_json(k, '[\"JSON\"]')", "from_json(k, '{\"k1\": \"VARCHAR\"}')", "bit_position(CAST(j AS BIT), CAST(k AS BIT))", "contains(k, concat(substring(k, 1, CAST(len(k) / 2 AS BIGINT)), 'b'))",
                 "contains(string_split(k, ','), j)", "list_has_any(string_split(k, ','), string_split(j, ','))", "strptime(k, ['%Y', '%Z'])", "strptime(k, '%Y-%m-%d %H:%M:%S %Z')", "try_strptime(k, '%c %Z')",
                 "list_position(CAST(k AS BIGINT[]), i)", "list_aggregate(string_split(k, ','), 'histogram')", "list_aggregate(CAST(k AS DOUBLE[]), 'approx_quantile', 0.5)", "list_aggregate(string_split(k, ','), 'string_agg', '-')",
                 "list_aggregate(CAST(k AS BIGINT[]), 'mode')", "list_aggregate(string_split(k, ','), 'approx_top_k', 1000)", "flatten([string_split(k, ','), string_split(j, ',')])", "CAST(string_split(k, ',') AS VARCHAR)",
                 "time_bucket(to_microseconds(i), make_timestamp(n))", "time_bucket(to_months(CAST(i AS INTEGER)), make_timestamp(n))", "timezone('America/New_York', make_timestamp(i))", "timezone(k, CAST(j AS TIMESTAMPTZ))",
                 "datediff('month', CAST(k AS TIMESTAMPTZ), CAST(j AS TIMESTAMPTZ))", "CAST(CAST(k AS TIMESTAMPTZ) + to_months(CAST(i AS INTEGER)) AS VARCHAR)", "make_timestamp(i) + to_days(CAST(n AS INTEGER))",
                 "k = i", "k = to_timestamp(x)", "k IN (i, n)", "k < make_timestamp(i)", "coalesce(k, j) = 'a'",
                         "k IS DISTINCT FROM i", "k = 5", "k = 1.5", "k NOT IN (1, 2)", "CASE k WHEN i THEN 'a' WHEN n THEN 'b' END", "nullif(i, k)", "nullif(to_timestamp(x), k)", "CASE WHEN k THEN i ELSE n END", "b AND k", "NOT k",
                         "k = ['a']", "k = [i]", "k = '1'::JSON", "k = {'a': i}", "k = MAP {'a': i}", "k = CAST(j AS INTERVAL)", "k = CAST(j AS UUID)", "k = encode(j)", "k = CAST(j AS BIT)", "k = CAST(i AS HUGEINT)",
                         "list_resize([i], 3, k)", "list_resize([to_timestamp(x)], 3, k)", "list_resize([i], k)", "list_slice(string_split(k, ','), j, j)", "string_split(k, ',') = string_split(j, ',')", "to_json(k) = j", "CAST(k AS JSON) = i",
                         "time_bucket(to_days(1), to_timestamp(x), k)", "timezone(CAST(k AS JSON), make_timestamp(i))", "json_pretty(CAST(k AS JSON))", "contains(CAST(k AS JSON), j)", "json_extract(k, CAST(j AS JSON))",
                         f"json_merge_patch(k, {_OBJECTS})", f"json_merge_patch({_OBJECTS}, k)",
                 "regexp_replace(k, j, k, 'g')", "replace(k, '', j)", "translate(k, j, k)", "trim(k, j)", "format('{}{}{}', k, j, k)", "format('{:>9999}' , k)", "printf('%s%s', k, j)", "upper(repeat(k, 60))", "bar(x, 0, z, 1000)", "bar(x, 0, z, z)",
                 "hash(string_split(k, ','))", "list_resize(string_split(k, ','), i, j)", "array_resize([[k]], i, [j])", "left_grapheme(k, i)", "substring_grapheme(k, i, n)", "strip_accents(nfc_normalize(k))", "md5(unhex(k))", "decode(unhex(k))",
                 "length(decode(from_hex(k)))", "url_decode(k)", "from_binary(k)", "bit_count(CAST(k AS BIT))", "CAST(k AS BIT) << CAST(i AS INTEGER)", "repeat(CAST(k AS BLOB), i)", "CAST(repeat(k, i) AS JSON)", "list_unique(CAST(k AS JSON[]))",
                 "json_structure(k)", "json_pretty(k)", "json_keys(k)", "json_type(k, j)", "json_value(k, j)", "json_exists(k, j)", "json_array_length(k, j)", "json_extract_string(k, j)", "CAST(k AS STRUCT(k1 BIGINT, k2 VARCHAR))"),
}  # fmt: skip
HARSH = ["plain", "k: null", "k: ''", "k: 'a\\x00b'", "k: long a", "k: long nul", "k: long apostrophe", "k: combining classes", "k: deep [", "k: wide 50 000", "k: long comma",
         *(f"i: {n}" for n in (None, 2**63 - 1, -(2**63), 60_000_000)), *(f"x: {x}" for x in (None, "nan", "inf", "-0.0", "5e-324", "1e+308"))]  # fmt: skip
"""Labels of the rows that every call is tried with when there is little time."""
FOUND: list[tuple[str, list[str]]] = [
    ("k LIKE '%a_%a_%a_%a_%a_%b'", ["k: long a"]), ("k ILIKE '%a%a%a%a%a%b'", ["k: long a"]), ("k GLOB '*a*a*a*a*b'", ["k: long a"]),
    ("k LIKE j", ["pair 15", "pair 18"]), ("CAST(k AS TINYINT)", ["k: long nul", "k: long apostrophe"]), ("CAST(k AS BIGINT[])", ["k: long nul"]), ("CAST(string_split(k, ',') AS BIGINT[])", ["k: long nul"]),
    ("CAST(k AS TIMESTAMPTZ)", ["k: long zone"]), ("TRY_CAST(k AS TIMESTAMPTZ)", ["k: long zone"]), ("strptime(k, '%Y-%m-%d %H:%M:%S %Z')", ["k: long zone", "k: long nul"]),
    ("nfc_normalize(k)", ["k: combining classes"]), ("k COLLATE NFC = j", ["k: combining classes"]), ("json_merge_patch(k, j)", ["objects"]), ("json_contains(k, j)", ["late"]),
    ("contains(k, j)", ["pair 0"]), ("replace(k, j, '')", ["pair 0"]), ("string_split(k, j)", ["pair 0"]), ("regexp_matches(k, '(a?){1000}b')", ["k: long a"]), ("regexp_matches(k, j)", ["pair 6"]),
    ("regexp_extract_all(k, 'a.*b|a')", ["k: long a"]), ("regexp_replace(k, '<[^>]*>', '', 'g')", ["k: long <"]), ("repeat([k], i)", ["mixed 30", "mixed 33"]), ("list_resize([k], i, k)", ["mixed 30", "mixed 33"]),
    ("list_select([k], CAST(j AS BIGINT[]))", ["listed"]), ("map_concat(CAST(k AS MAP(VARCHAR, VARCHAR)), CAST(k AS MAP(VARCHAR, VARCHAR)))", ["k: wide map"]), ("parse_dirpath(k)", ["k: long slash"]),
    ("date_trunc(k, make_timestamp(i))", ["k: long nul"]), ("from_base64(k)::VARCHAR", ["k: long nul"]),
    ("k = i", ["plain", "k: long nul"]), ("k IN (i, n)", ["k: long nul"]), ("nullif(i, k)", ["k: long nul"]), ("k = to_timestamp(x)", ["k: long nul", "k: long zone"]), ("k = ['a']", ["k: long nul", "k: deep open"]), ("list_resize([i], 3, k)", ["k: long nul"]),
    ("time_bucket(to_days(1), to_timestamp(x), k)", ["k: long a"]), ("json_pretty(CAST(k AS JSON))", ["k: 100 deep, wide"]), (f"json_merge_patch({_OBJECTS}, k)", ["k: deeper {"]),
]  # fmt: skip
"""What once hung, grew or crashed, and the rows that made it."""
_COLUMN = re.compile(r"\b[kjinxzb]\b")
_SECOND = {"k": "j", "i": "n", "x": "z"}


def columns_of(call: str) -> set[str]:
    """The columns that a call reads."""
    return set(_COLUMN.findall(re.sub(r"'[^']*'", "", call)))


def _substituted(name: str, most: int) -> Iterator[str]:
    for types in examples._signatures().get(name, ()):
        options = [_ARGUMENTS.get(t, _ARGUMENTS.get(t.split("(")[0], ())) for t in types]
        for arguments in itertools.islice(itertools.product(*options), most):
            seen: dict[str, int] = {}
            written = []
            for argument in arguments:
                column = next((c for c in "kix" if "{" + c + "}" in argument), "")
                nth = seen.get(column, 0)
                seen[column] = nth + 1
                names = {c: (_SECOND[c] if nth % 2 else c) for c in "kix"}
                written.append(argument.format(**names))
            call = examples._called(name, tuple(written))
            if call is not None:
                yield call


@cache
def calls(most: int = 4) -> dict[str, list[tuple[str, bool]]]:
    """Name -> (call, is an aggregate), at most `most` a signature beside those of `examples`; they may be invalid."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for name in sorted(SCALARS | BY_NAME):
        found[name] = [(c, False) for c in dict.fromkeys((*_substituted(name, most), *examples.scalars()[name]))]
    for name in sorted(AGGREGATES):
        found[name] = [(c, True) for c in dict.fromkeys((*_substituted(name, most), *examples.aggregates()[name]))]
    for name, written in MORE.items():
        found[name] = [*found.get(name, ()), *((c, False) for c in written)]
    return found


def rows_for(call: str, chance: int = 0) -> Iterator[tuple[str, Values]]:
    """(label, row): each column that the call reads extreme, others plain; pairs; `chance` rows drawn by the call."""
    used = columns_of(call)
    yield "plain", PLAIN
    for column in sorted(used & {"k", "j"}):
        for label, text in TEXTS.items():
            yield f"{column}: {label}", {**PLAIN, column: text}
    for column in sorted(used & {"i", "n"}):
        for number in INTEGERS:
            yield f"{column}: {number}", {**PLAIN, column: number}
    for column in sorted(used & {"x", "z"}):
        for double in DOUBLES:
            yield f"{column}: {double}", {**PLAIN, column: double}
    if {"k", "j"} <= used:
        for n, (first, second) in enumerate(PAIRS):
            yield f"pair {n}", {**PLAIN, "k": first, "j": second}
            yield f"pair {n} swapped", {**PLAIN, "k": second, "j": first}
        yield "objects", {**PLAIN, "k": _object(30_000), "j": _object(30_000).replace("k", "j")}
        yield "late", {**PLAIN, "k": "[" + ",".join(map(str, range(70_000))) + "]", "j": _wide(70_000, "69999")}
        yield "listed", {**PLAIN, "k": "x" * 400_000, "j": _wide(200_000)}
    for n, values in enumerate(MIXED):
        if len(used & values.keys()) > 1:
            yield f"mixed {n}", {**PLAIN, **values}
    dice = random.Random(zlib.crc32(call.encode()))
    texts = list(TEXTS.values())
    for n in range(chance):
        drawn = {"k": dice.choice(texts), "j": dice.choice(texts), "i": dice.choice(INTEGERS), "n": dice.choice(INTEGERS),
                 "x": dice.choice(DOUBLES), "z": dice.choice(DOUBLES), "b": dice.choice((True, False, None))}  # fmt: skip
        row = {**PLAIN, **{c: v for c, v in drawn.items() if c in used}}
        if len(str(row["k"]).encode()) + len(str(row["j"]).encode()) < _FULL:
            yield f"drawn {n}", row


def batch(rows: list[Values]) -> pa.RecordBatch:
    """With stimes 0, 1, ..."""
    arrays = [pa.array([row[f.name] for row in rows], f.type) for f in SCHEMA if f.name != "stime"]
    made = pa.RecordBatch.from_arrays([*arrays, pa.array(range(len(rows)), pa.int64())], schema=SCHEMA)
    assert int(row_sizes(made.select(list(COLUMNS))).max()) <= ROW_MAX_BYTES
    return made
