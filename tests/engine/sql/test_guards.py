"""What one value can make the engine do is bounded: beyond it the value's row is a dead letter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from borealis_py import QueryError
from borealis_py.engine.sql import checks, expressions
from borealis_py.engine.sql.guards import Unbounded
from borealis_py.engine.sql.implicit import CastEngine, casts_in, explicit
from tests.engine import worlds
from tests.engine.worlds import Row


def results(expression: str, values: list[str], number: int = 1) -> tuple[list[object], list[str]]:
    """What `map` gives for rows with these texts as k, and why rows were refused."""
    rows: list[Row] = [(value, number, 1.0, True, n) for n, value in enumerate(values)]
    with worlds.kernel(lambda app, a, b: a.map(y=expression)) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [rows, []]}))
        output = outputs[0]
        good = [] if output.rows is None else [r["y"] for r in on.to_dicts(output.rows)]
        return good, [r.reason.split(": ", 1)[1].partition("; in map(y): ")[0] for r in output.rejects]


def lists(depth: int) -> str:
    return "[" * depth + "]" * depth


def objects(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


def test_nesting_is_counted_outside_of_quotes() -> None:
    assert checks.nesting(b"") == 0
    assert checks.nesting(b'{"a": [1, {"b": 2}], "c": [3]}') == 3
    assert checks.nesting(b'["[[[[", "\\"[[[", {"}": 1}]') == 2
    assert checks.nesting(b'[["]]", ["]]", ["]]"]]]]') == 4


@pytest.mark.parametrize(
    "expression",
    [
        "json_structure(k)::VARCHAR",
        "json_valid(k)",
        "json_contains(k, '1')",
        "json_contains('1', k)",
        "json_pretty(k)",
        "json_extract_string(k, '$..a')::VARCHAR",
        "json_merge_patch('{}', k)::VARCHAR",
        f"json_merge_patch({', '.join(['NULL'] * 16)}, k)::VARCHAR",
        "k ->> '$.a'",
        "k::JSON::VARCHAR",
        "try_cast(k AS JSON)::VARCHAR",
        "from_json(k, '\"JSON\"')::VARCHAR",
        "json_keys(concat(k, ''))",
        "k IS DISTINCT FROM '1'::JSON",
    ],
)
def test_text_that_is_parsed_is_nested_a_hundred_levels_at_most(expression: str) -> None:
    for make in (lists, objects):
        good, bad = results(expression, [make(100), make(101), make(60_000), "1"])
        assert len(good) == 2
        assert bad == ["the text is nested more than 100 levels deep"] * 2


@pytest.mark.parametrize("type_", ["INTEGER[]", "VARCHAR[][]", "STRUCT(a VARCHAR)", "MAP(VARCHAR, VARCHAR)", "JSON[]"])
def test_casts_of_text_are_bounded_too(type_: str) -> None:
    _, bad = results(f"CAST(k AS {type_})::VARCHAR", [lists(60_000), objects(60_000)])
    assert bad == ["the text is nested more than 100 levels deep"] * 2


def test_values_that_are_no_text_are_cast_as_they_were() -> None:
    assert results("CAST([i, 2] AS DOUBLE[])", ["a"]) == ([[1.0, 2.0]], [])
    assert results("{'a': k, 'b': [i]}::JSON::VARCHAR", [lists(200)])[1] == []
    assert results("CAST(k::JSON AS INTEGER[])", ["[1, 2]"]) == ([[1, 2]], [])


@pytest.mark.parametrize(
    ("expression", "number"),
    [
        ("repeat(k, i)", 10**12),
        ("repeat([k], i)", 10**12),
        ("repeat(encode(k), i)::VARCHAR", 10**12),
        ("lpad(k, i::INTEGER, 'x')", 2**31 - 1),
        ("rpad(k, i::INTEGER, 'x')", 2**31 - 1),
        ("len(list_resize([k], i))", 10**10),
        ("bitstring('1', i::INTEGER)::VARCHAR", 2**31 - 1),
    ],
)
def test_no_value_says_how_much_is_built_beyond_the_bound(expression: str, number: int) -> None:
    assert results(expression, ["a"], 3)[1] == []
    assert results(expression, ["a"], number)[1] == ["the result would take more than 64000000 bytes"]


def test_places_in_a_list_count_as_what_they_take() -> None:
    assert results("len(list_resize([k], i))", ["a"], 4_000_000) == ([4_000_000], [])
    assert results("len(list_resize([k], i))", ["a"], 4_000_001)[1] == [
        "the result would take more than 64000000 bytes"
    ]


@pytest.mark.parametrize(
    ("expression", "good", "bad"),
    [
        ("regexp_matches('a', k)", "a+", "(" * 1001),
        ("'a' LIKE k", "a%", "%a" * 501),
        ("json_extract_string('[1]', k)", "$[0]", "$..a..b"),
        ("format(k, i)", "{:>9}", "{:>1000000000}"),
        ("printf(k, i)", "%5d", "%*d"),
        ("levenshtein(k, k)", "ab", "ab" * 10_000),
        ("len(replace(k, 'a', k))", "ab", "ab" * 10_000),
        ("len(regexp_replace(k, 'a', k, 'g'))", "ab", "ab" * 10_000),
        ("len(format(k, repeat('x', 900000)))", "{}", "{0}" * 330),
        ("damerau_levenshtein(k, k)", "ab", "ab" * 2_000),
        ("len(json_pretty(k))", "[1]", "[" * 99 + "1," * 200_000 + "1" + "]" * 99),
        ("contains(k, concat(k, 'b'))", "a", "a" * 100_001),
        ("strlen(parse_dirpath(k))", "/a", "/a" * 50_001),
        ("len(nfc_normalize(k))", "e\u0301" * 50, "\u0301" * 100),
        ("k COLLATE NFC = 'a'", "e\u0301" * 50, "\u0301" * 100),
        ("json_merge_patch(k, k)::VARCHAR", "{}", "{" + ",".join(f'"{n}":1' for n in range(8_001)) + "}"),
        ("json_contains(k, k)", "[1]", "[" + "1," * 8_000 + "1]"),
        ("regexp_matches(k, '(a?){100}b')", "ab", "a" * 640_001),
        ("len(regexp_extract_all(k, 'a.*b|a'))", "ab", "a" * 20_001),
        ("len(regexp_extract_all(k, concat('a.*b|', 'a')))", "ab", "a" * 20_001),
        ("k GLOB '*a*b'", "ab", "a" * 20_001),
        ("'a' LIKE concat(k, '_')", "", "%" * 1_000),
        ("k LIKE concat('%', repeat('_', 100))", "a" * 100, "a" * 640_001),
        ("len(list_select([k], range(3, 503)))", "a", "a" * 128_001),
        ("len(list_resize([k], 500, k))", "a", "a" * 128_001),
        ("CAST(concat(i, repeat(' ', len(k))) AS BIGINT)", "a", "a" * 1_001),
        ("json_pretty(CAST(k AS JSON)) IS NULL", "[1]", "[" * 99 + "1," * 200_000 + "1" + "]" * 99),
        ("k = i", "1", "1" + " " * 1_000),
        ("({'a': k = i}).a", "1", "1" + " " * 1_000),
        ("k IN (i, 2)", "1", "1" + " " * 1_000),
        ("k = 1.0", "1", "1" + " " * 1_000),
        ("CASE k WHEN i THEN 'a' END", "1", "1" + " " * 1_000),
        ("nullif(i, k)", "2", "2" + " " * 1_000),
        ("k IS DISTINCT FROM to_timestamp(x)", "2020-01-01", " " * 1_000 + "2020-01-01"),
        ("list_resize([i], 2, k)", "1", "1" + " " * 1_000),
        ("list_resize([i], k)", "1", "1" + " " * 1_000),
        ("k = ['a']", "[b]", "[" + "\0" * 100_001 + "]"),
    ],
)
def test_patterns_and_lengths(expression: str, good: str, bad: str) -> None:
    found, refused = results(expression, [good, bad])
    assert len(found) == 1
    assert len(refused) == 1


@pytest.mark.parametrize(
    "call",
    [
        "timezone(k, to_timestamp(i))",
        "timezone(CAST(k AS JSON), to_timestamp(i))",
        "make_timestamptz(2020, 1, 1, 0, 0, 0, k)",
        "time_bucket(to_days(1), to_timestamp(x), k)",
    ],
)
def test_names_of_zones_are_short(call: str) -> None:
    good, bad = results(f"{call}::VARCHAR", ["UTC", '"UTC"', '"' + "UTC" * 400 + '"'])
    assert len(good) == ("JSON" not in call)
    assert bad[-1] == "the text is longer than 1000 bytes, which no pattern, path, number or time may be"


@pytest.mark.parametrize("call", ["range(i)", "range(1, i)", "generate_series(i, 5)"])
def test_where_several_arguments_say_how_much_is_built_they_are_written_in_the_query(call: str) -> None:
    with pytest.raises(QueryError, match="must be written in the query"):
        worlds.make(lambda app, a, b: a.map(y=call))
    assert results("range(2 + 1)", ["a"]) == ([[0, 1, 2]], [])


def test_bins_out_of_a_row_are_none() -> None:
    with pytest.raises(QueryError, match="the bins of histogram"):
        worlds.make(lambda app, a, b: a.window("100ms").agg(y="histogram(i, CAST(k AS BIGINT[]))::VARCHAR"))


@pytest.mark.parametrize(
    "call",
    [
        "CAST(CAST(k AS JSON) AS TIMESTAMPTZ)",
        "CAST(string_split(k, ',') AS TIMESTAMPTZ[])",
        "from_json(k, '[\"TIMESTAMPTZ\"]')",
        "from_json(k, concat('[\"TIMESTAMP', 'TZ\"]'))",
    ],
)
def test_times_with_zones_are_read_from_texts_of_their_own(call: str) -> None:
    with pytest.raises(QueryError, match="TIMESTAMP"):
        worlds.make(lambda app, a, b: a.map(y=f"({call})::VARCHAR"))


def test_what_cannot_be_cast_is_null_where_that_was_asked_for_however_long() -> None:
    assert results("try_cast(k AS BIGINT)", ["7", "x", "x" * 5_000]) == ([7, None, None], [])
    assert results("try_strptime(k, '%Y')::VARCHAR", ["2020", "x" * 5_000]) == (["2020-01-01 00:00:00", None], [])


def test_checks_change_no_value() -> None:
    assert results("k LIKE '%a_'", ["xab", "xa", "a\u00e9"]) == ([True, False, True], [])
    assert results("k NOT ILIKE '%A_'", ["xab", "xa"]) == ([False, True], [])
    assert results("k LIKE NULL", ["a"]) == ([None], [])
    assert results("map_keys(map_concat(MAP {k: 1}, NULL))", ["a"]) == ([["a"]], [])
    assert results("list_select([k, 'b', NULL], [2, 3, 1])", ["a"]) == ([["b", None, "a"]], [])
    assert results("list_resize([k], 3)", ["a"]) == ([["a", None, None]], [])
    assert results("CAST([k, NULL, '2'] AS BIGINT[])", ["1"]) == ([[1, None, 2]], [])
    assert results("CAST(nullif([k], ['1']) AS BIGINT[])", ["1"]) == ([None], [])
    assert results("repeat([k, NULL], 2)", ["a"]) == ([["a", None, "a", None]], [])
    assert results("format('{}-{}', k, i)", ["a"]) == (["a-1"], [])


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        ("nullif(lower(k), i)", r"write CAST\(lower\(k\) AS BIGINT\)"),
        ("row(k, i) = row(k, x)", r"and \{\.\.\.\} for row\(\.\.\.\)"),
        ("string_split(k, ',') = [[i]]", r"the texts within a VARCHAR\[\] would be parsed"),
        ("CAST([k] AS JSON[])", r"the texts within a VARCHAR\[\] would be parsed"),
        ("CAST({'b': [i], 'a': k} AS STRUCT(a VARCHAR[], b VARCHAR))", "take each of them out"),
        ("CAST(string_split(k, ',') AS VARCHAR[][])", "take each of them out"),
    ],
)
def test_a_text_whose_reading_cannot_be_bounded_is_refused_with_what_to_write_instead(call: str, instead: str) -> None:
    with pytest.raises(QueryError, match=instead):
        worlds.make(lambda app, a, b: a.map(y=f"({call})::VARCHAR"))


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("k = '5'", False),
        ("i = '1'", True),
        ("i = 1.0", True),
        ("k = i", True),
        ("k IN (2, i)", True),
        ("nullif(i, k) IS NULL", True),
        ("nullif(CAST(k AS BIGINT), i) IS NULL", True),
        ("{'a': k = 1, 'b': [k]} = {'a': true, 'b': ['1']}", True),
        ("[k] = ['1']", True),
        ("CAST({'b': [i], 'a': k} AS STRUCT(a VARCHAR, b VARCHAR[])) = {'a': '1', 'b': ['1']}", True),
        ("CAST([[k]] AS VARCHAR[]) = ['[1]']", True),
        ("list_resize([k], 2, i) = ['1', '1']", True),
        ("k || ' CAST(' || '''' = '1 CAST('''", True),
        (r"k || E'\n' = E'1\n'", True),
        ("md5_number_lower(k) > 0", True),
        ("stime < 1000 AND x > 0 AND x IN (1, 2) AND coalesce(x, 0) = 1", True),
    ],
)
def test_what_is_cast_unasked_means_what_it_meant(expression: str, value: bool) -> None:
    assert results(expression, ["1"]) == ([value], [])


def test_casts_of_aggregates_and_within_them_are_bounded() -> None:
    rows: list[Row] = [("2", 1, 1.0, True, 1), ("1" + " " * 1_000, 2, 1.0, True, 2), ("2", 2, 1.0, True, 3)]
    asked = {"y": "count(*) = k", "z": "count(*) FILTER (WHERE k IN (i, 1))", "w": "max(k) = sum(i)"}
    with worlds.kernel(lambda app, a, b: a.window("100ms").group_by("k").agg(**asked)) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [rows, []]}))
        (row,) = on.to_dicts(outputs[0].rows)
        assert (row["y"], row["z"], row["w"]) == (True, 1, False)
        assert "longer than 1000 bytes" in outputs[0].rejects[0].reason


def test_casts_are_read_from_plans() -> None:
    plan = """(CAST(a AS STRUCT("x) AS " DECIMAL(3,1))) = f('CAST(b AS C)', CAST(CAST('it''s' AS INTEGER[]) AS D)))"""
    assert list(casts_in(plan)) == [
        ("a", 'STRUCT("x) AS " DECIMAL(3,1))'),
        ("'it''s'", "INTEGER[]"),
        ("CAST('it''s' AS INTEGER[])", "D"),
    ]


def test_a_text_that_the_engine_makes_on_its_way_and_reads_is_refused() -> None:
    tree = expressions._read("f(k)")
    assert tree is not None
    asked = CastEngine(
        lambda _: "VARCHAR",
        lambda *_: "CAST(g(__part0) AS BIGINT)",
        expressions._read,
        expressions._written,
        expressions._holds,
        expressions.to_sql,
    )
    with pytest.raises(Unbounded, match=r"^g\(k\) is read as BIGINT, and no bound can be checked$"):
        explicit(tree, asked)
    assert explicit(tree, replace(asked, kind=lambda _: "INTEGER")) == tree
