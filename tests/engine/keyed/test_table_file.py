"""Tables in files: every format and type, what is refused, and that another content is another query."""

from __future__ import annotations

import json
import math
from codecs import BOM_UTF8
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from borealis_py import App, QueryError
from borealis_py.app.loader import load_spec
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.engine.keyed.table_file import known, rows_of
from borealis_py.query import AppSpec
from borealis_py.query.errors import TableFileDiffers
from borealis_py.query.plan import TableFile
from borealis_py.runtime.ends import end_of
from borealis_py.testing import run
from tests.engine import worlds
from tests.engine.keyed import models
from tests.engine.worlds import Buckets

SCHEMA = {
    "s": "string", "i": "int64", "x": "double", "b": "bool", "m": "decimal(12,2)", "t": "timestamp", "d": "date",
    "y": "binary", "j": "json",
}  # fmt: skip
ROWS: list[dict[str, Any]] = [
    {
        "s": "tea, green", "i": 2**62, "x": 0.1, "b": True, "m": Decimal("-1234.50"),
        "t": datetime(2026, 11, 21, 15, 25, 26, 978485), "d": date(2024, 2, 29), "y": b"\0\xff", "j": '{"a":1.10}',
    },
    dict.fromkeys(SCHEMA),
    {
        "s": "ü", "i": -1, "x": math.inf, "b": False, "m": Decimal("0.00"), "t": datetime(1970, 1, 1),
        "d": date(1, 1, 1), "y": b"a", "j": "[1,2]",
    },
]  # fmt: skip
CSV = (
    "other,s,i,x,b,m,t,d,y,j\n"
    '1,"tea, green",4611686018427387904,0.1,true,-1234.5,2026-11-21T15:25:26.978485Z,2024-02-29,AP8=,"{""a"": 1.10}"\n'
    "2,,,,,,,,,\n"
    '3,ü,-1,inf,false,0,1970-01-01T00:00:00,0001-01-01,YQ==,"[1, 2]"\n'
)
JSONL = (
    '{"s":"tea, green","i":4611686018427387904,"x":0.1,"b":true,"m":-1234.5,"t":"2026-11-21T15:25:26.978485Z",'
    '"d":"2024-02-29","y":"AP8=","j":{"a": 1.10},"other":1}\n\n{}\n'
)


def schema_of(columns: dict[str, str]) -> pa.Schema:
    schema = segment_schema(columns)
    return schema.remove(len(schema) - 1)


def file_of(path: Path, kind: Any, columns: dict[str, str] = SCHEMA) -> TableFile:
    return known(TableFile(path=str(path), format=kind, columns=tuple(columns.items()), table="prices"))


def written(directory: Path, kind: str) -> Path:
    path = directory / f"table.{kind}"
    if kind == "parquet":
        columns = {f.name: pa.array([r[f.name] for r in ROWS], f.type) for f in schema_of(SCHEMA)}
        parquet.write_table(pa.table({"other": [1, 2, 3], **columns}), path)
    else:
        path.write_text(CSV if kind == "csv" else JSONL)
    return path


@pytest.mark.parametrize("kind", ["csv", "json", "parquet"])
def test_a_file_gives_values_of_every_type(kind: str, tmp_path: Path) -> None:
    rows = rows_of(file_of(written(tmp_path, kind), kind), schema_of(SCHEMA)).to_pylist()
    assert rows == (ROWS[:2] if kind == "json" else ROWS)


@pytest.mark.parametrize(
    ("kind", "content", "said"),
    [
        ("csv", "item,price\ntea,1\nrum,much\n", r"table.csv, read as csv: row 2, column 'price': .*much"),
        ("csv", "item\ntea\n", "Column 'price' in include_columns does not exist in CSV file"),
        ("csv", "item,price\ntea,1,2\n", "Expected 2 columns, got 3"),
        ("csv", "item,price,price\ntea,1,2\n", "the header has 2 columns 'price': which one is meant"),
        ("csv", '\ufeff"item",item,price\ntea,1,2\n', "the header has 2 columns 'item'"),
        ("csv", "item,price\ntea,1\nitem,price\nrum,2\n", "row 2 is the header line again: files seem to"),
        ("csv", '"a""",item,price\nx,tea,1\n\ufeffx,rum,2\n', "line 3 begins with a byte order mark"),
        ("json", '{"item":"tea"}\n\ufeff{"item":"rum"}\n', "line 2 begins with a byte order mark"),
        ("csv", "", "Empty CSV"),
        ("json", '{"item":"tea","price":1}\n{"item":3}\n', r"line 2: column 'item': Expected `str \| null`, got `int`"),
        ("json", "[1]\n", "line 1: "),
        ("parquet", "no parquet", "read as parquet: .*[Pp]arquet"),
        ("csv", "item,price\ntea,1\nrum,2\ntea,3\ntea,4\n", r"2 rows have a key \(item\) .* such as \('tea',\)"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused(kind: str, content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / f"table.{kind}").write_text(content)
    app = App("shop")
    prices = app.table("prices", "item", PRICES, file=str(tmp_path / f"table.{kind}"))
    app.query("q", app.source("orders", schema={"item": "string"}).lookup(prices, on="item"))
    with pytest.raises(QueryError, match=said):
        compile_query(app.describe().with_files(known), "q")


@pytest.mark.parametrize("kind", ["csv", "json"])
def test_a_byte_order_mark_before_a_file_says_nothing(kind: str, tmp_path: Path) -> None:
    path = written(tmp_path, kind)
    plain = rows_of(file_of(path, kind), schema_of(SCHEMA))
    path.write_bytes(BOM_UTF8 + path.read_bytes())
    assert rows_of(file_of(path, kind), schema_of(SCHEMA)).equals(plain)


TEXTS = {"item": "string", "note": "string"}


@pytest.mark.parametrize("size", [131_073, 3_000_000])
@pytest.mark.parametrize("quote", ["", '"'])
def test_a_value_of_csv_may_be_of_any_size_and_has_its_line_breaks(size: int, quote: str, tmp_path: Path) -> None:
    inside = "a\n\ufeffb,c" if quote else ""
    text = "x" * size + inside
    (tmp_path / "t.csv").write_text(f"item,note\ntea,{quote}{text}{quote}\nrum,y\n")
    rows = rows_of(file_of(tmp_path / "t.csv", "csv", TEXTS), schema_of(TEXTS)).to_pylist()
    assert rows == [{"item": "tea", "note": text}, {"item": "rum", "note": "y"}]


def test_other_columns_may_have_one_name_and_a_row_may_have_some_names_of_columns(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,item,x,note\n1,item,2,y\n")
    rows = rows_of(file_of(tmp_path / "t.csv", "csv", TEXTS), schema_of(TEXTS)).to_pylist()
    assert rows == [{"item": "item", "note": "y"}]


def test_values_of_csv_that_mean_null_are_null_in_every_type(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{','.join(SCHEMA)}\n{','.join(['NA', chr(34) + '-' + chr(34)] * 4)},NA\n")
    file = file_of(tmp_path / "t.csv", "csv").model_copy(update={"nulls": ("-", "NA")})
    assert rows_of(file, schema_of(SCHEMA)).to_pylist() == [dict.fromkeys(SCHEMA)]


def test_a_description_without_null_markers_is_what_it_was() -> None:
    plain = TableFile(path="a.csv", format="csv", columns=(("a", "string"),))
    assert "nulls" not in plain.model_dump(mode="json")
    marked = plain.model_copy(update={"nulls": ("NA",)})
    assert marked.model_dump(mode="json")["nulls"] == ["NA"]
    assert TableFile.model_validate_json(marked.model_dump_json()) == marked


PRICES = {"item": "string", "price": "double"}
SHOP = """
from borealis_py import App
app = App("shop")
prices = app.table("prices", "item", {"item": "string", "price": "double"}, file="%s")
orders = app.source("orders", schema={"item": "string", "shop": "string"})
app.query("priced", orders.lookup(prices, on="item"), partitions=2, by="shop")
"""


def spec_of(directory: Path, content: str, name: str = "prices.csv") -> AppSpec:
    (directory / name).write_text(content)
    (directory / "shop.py").write_text(SHOP % (directory / name))
    return load_spec(directory / "shop.py")


def test_the_content_of_a_file_is_part_of_the_query_and_its_place_is_not(tmp_path: Path) -> None:
    one = spec_of(tmp_path, "item,price\ntea,1\n")
    moved = spec_of(tmp_path, "item,price\ntea,1\n", "elsewhere.csv")
    other = spec_of(tmp_path, "item,price\ntea,2\n")
    assert one.hash == moved.hash != other.hash
    assert AppSpec.from_json(one.to_json()) == one


def test_a_machine_with_another_content_ends_by_name(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, "item,price\ntea,1\n")
    (tmp_path / "prices.csv").write_text("item,price\ntea,2\n")
    with pytest.raises(TableFileDiffers, match=r"prices.csv: its SHA-256 is .*, the app was described with") as told:
        compile_query(spec, "priced")
    end = end_of(told.value)
    assert end is not None
    assert (end.kind, end.exit.final) == ("file", True)
    (tmp_path / "prices.csv").unlink()
    with pytest.raises(TableFileDiffers, match="No such file or directory; a table's file must be on every machine"):
        compile_query(spec, "priced")


def kernel_of(path: Path, key: str) -> DuckKernel:
    app = App("test", bucket="100ms")
    rows = app.source("a", schema=worlds.COLUMNS)
    names = {"k": "string", "i": "int", "x": "double", "b": "bool"}
    table = app.table("t", key, {("" if c == key else "o") + c: kind for c, kind in names.items()}, file=str(path))
    app.query("q", rows.lookup(table, on=key))
    return compile_query(app.describe().with_files(known), "q")


@pytest.mark.parametrize("key", ["k", "x"])
def test_a_lookup_finds_the_rows_of_the_file(key: str, tmp_path: Path) -> None:
    keys = {"k": ["a", "ü", "", None], "x": [math.nan, 0.0, 1e16, None]}[key]
    columns: dict[str, pa.Array] = {"k": pa.nulls(4, pa.string()), "x": pa.nulls(4, pa.float64())}
    columns = {"o" + name: nulls for name, nulls in columns.items() if name != key}
    columns |= {key: pa.array(keys), "oi": pa.array([10, 11, 12, 13]), "ob": pa.nulls(4, pa.bool_())}
    path = tmp_path / "table.parquet"
    parquet.write_table(pa.table(columns), path)
    on = kernel_of(path, key)
    assert (on.lookback_buckets, str(on.operator_class), on.initial()) == (0, "repeatable", ())
    place = {"k": 0, "x": 2}[key]

    @settings(max_examples=15, deadline=None)
    @given(history=worlds.histories(10), cut=st.integers(1, 9))
    def check(history: Buckets, cut: int) -> None:
        buckets = worlds.ordered(on, history)
        found = []
        for first, end in ((0, cut), (cut, 10)):
            _, outputs = on.step((), first, end, {b: p for b, p in buckets.items() if first <= b < end})
            found += [row for _, output in sorted(outputs.items()) for row in on.to_dicts(output.rows)]
        rows = sorted((row for parts in history.values() for row in parts[0]), key=lambda row: row[4])
        versions = models.versions([(row[place], row[4]) for row in rows], [(k, 0, False) for k in keys])
        assert [row["oi"] for row in found] == [None if n is None else 10 + n for n in versions]

    check()
    on.close()


def test_rows_of_a_test_find_what_a_file_has(tmp_path: Path) -> None:
    (tmp_path / "prices.jsonl").write_text(json.dumps({"item": "tea", "price": 2}) + "\n")
    app = App("shop")
    prices = app.table("prices", "item", PRICES, file=str(tmp_path / "prices.jsonl"))
    app.query("q", app.source("orders", schema={"item": "string"}).lookup(prices, on="item"))
    assert list(run(app, {"orders": [{"item": "tea"}, {"item": "rum"}]})["q"]) == [
        {"item": "tea", "price": 2.0},
        {"item": "rum", "price": None},
    ]


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"file": "prices.xls"}, "file='prices.xls'; give the path of a file that ends in .csv"),
        ({"file": "p.csv", "topic": "t"}, "are about changes, and a file has none"),
        ({"file": "p.csv", "nulls": "NA"}, "nulls='NA'; give values of CSV that mean null"),
        ({"file": "p.csv", "nulls": []}, "give values of CSV that mean null"),
        ({"file": "p.jsonl", "nulls": ["NA"]}, "nulls= are values of CSV, and 'p.jsonl' is none"),
        ({"nulls": ["NA"]}, "nulls= are values of a CSV file, and there is no file="),
        ({"file": "p.csv", "deleted": "gone"}, "are about changes, and a file has none"),
        ({"file": "p.csv", "key": ("item", "price")}, "all columns .* are its key"),
        ({"file": "p.csv", "schema": {"item": "strin"}}, "table 'prices'"),
    ],
)
def test_a_table_of_a_file_that_makes_no_sense_is_refused(kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(QueryError, match=said):
        App("shop").table("prices", **{"key": "item", "schema": PRICES, **kwargs})


@pytest.mark.parametrize(
    ("column", "kind", "said"),
    [
        (pa.array([2.675]), "decimal(12,2)", "is double, which is no decimal128"),
        (pa.array([1_700_000_000]), "timestamp", "is int64, which is no timestamp"),
        (pa.array([35 * 10**36], pa.decimal128(38, 0)), "decimal(38,2)", "a value has more digits than decimal128"),
        (pa.array(["1"]), "int64", "is string, which is no int64"),
    ],
)
def test_columns_of_parquet_that_could_become_other_values_are_refused(
    column: pa.Array, kind: str, said: str, tmp_path: Path
) -> None:
    parquet.write_table(pa.table({"v": column}), tmp_path / "table.parquet")
    with pytest.raises(QueryError, match=said):
        rows_of(file_of(tmp_path / "table.parquet", "parquet", {"v": kind}), schema_of({"v": kind}))


def test_a_torn_file_of_parquet_is_refused(tmp_path: Path) -> None:
    whole = written(tmp_path, "parquet").read_bytes()
    middle = len(whole) // 3
    (tmp_path / "torn.parquet").write_bytes(whole[:middle] + b"\xff" * 64 + whole[middle + 64 :])
    with pytest.raises(QueryError, match=r"^table 'prices', file .*torn.parquet, read as parquet: ."):
        rows_of(file_of(tmp_path / "torn.parquet", "parquet"), schema_of(SCHEMA))


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(["csv", "json", "parquet"]), data=st.data())
def test_a_corrupt_file_gives_whole_values_or_is_refused(
    kind: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("corrupt")
    whole = bytearray(written(directory, kind).read_bytes())
    places = st.integers(0, len(whole) - 1)
    for at, byte in data.draw(st.lists(st.tuples(places, st.integers(0, 255)), min_size=1, max_size=4)):
        whole[at] = byte
    end = data.draw(st.none() | places)
    (directory / "torn").write_bytes(whole[:end])
    said = ""
    try:
        rows_of(file_of(directory / "torn", kind), schema_of(SCHEMA)).validate(full=True)
    except QueryError as exc:
        said = str(exc)
    assert said == "" or said.startswith(f"table 'prices', file {directory / 'torn'}, read as {kind}: ")


@pytest.mark.parametrize(
    ("where", "byte"),
    [
        (b"other", 0xFF),  # the name of a column
        (b"tea, green", 0xFF),  # a text
    ],
)
def test_a_file_of_parquet_with_a_text_that_is_none_is_refused(where: bytes, byte: int, tmp_path: Path) -> None:
    columns = {f.name: pa.array([r[f.name] for r in ROWS], f.type) for f in schema_of(SCHEMA)}
    table = pa.table({"other": [1, 2, 3], **columns})
    parquet.write_table(table, tmp_path / "plain.parquet", compression="none", write_statistics=False)
    content = (tmp_path / "plain.parquet").read_bytes()
    assert where in content
    (tmp_path / "torn.parquet").write_bytes(content.replace(where, bytes([byte]) + where[1:]))
    with pytest.raises(QueryError, match=r"UTF8|utf-8"):
        rows_of(file_of(tmp_path / "torn.parquet", "parquet"), schema_of(SCHEMA))
