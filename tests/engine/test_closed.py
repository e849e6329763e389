"""The engine reaches no file and no network, its settings are locked, and foreign rows cannot crash it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from borealis_py.engine.sql.duck_statement import Duck, ScanInput
from tests.engine import worlds


@pytest.fixture
def duck() -> Iterator[Duck]:
    made = Duck()
    yield made
    made.close()


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('{file}')",
        "SELECT * FROM read_text('{file}')",
        "SELECT * FROM '{file}'",
        "SELECT * FROM read_parquet('{file}')",
        "SELECT * FROM glob('{folder}/*')",
        "SELECT * FROM read_csv('http://localhost:9/x.csv')",
        "COPY (SELECT 1) TO '{folder}/out.csv'",
        "ATTACH '{folder}/other.db'",
        "EXPORT DATABASE '{folder}/dump'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET threads=4",
        "SET enable_external_access=true",
        "SET TimeZone='Asia/Tokyo'",
        "PRAGMA threads=4",
        "SELECT * FROM rows_of_python",
    ],
)
def test_refused(duck: Duck, sql: str, tmp_path: Path) -> None:
    file = tmp_path / "secret.csv"
    file.write_text("a,b\n1,2\n")
    rows_of_python = worlds.batch([])
    assert rows_of_python.num_rows == 0
    before = sorted(p.name for p in tmp_path.iterdir())
    with pytest.raises(duckdb.Error):
        duck.connection.execute(sql.format(file=file, folder=tmp_path)).fetchall()
    assert sorted(p.name for p in tmp_path.iterdir()) == before


def test_settings_that_decide_results(duck: Duck) -> None:
    wanted = {"threads": "1", "TimeZone": "UTC", "enable_external_access": "false", "lock_configuration": "true"}
    names = ", ".join(f"'{n}'" for n in wanted)
    assert (
        dict(duck.connection.execute(f"SELECT name, value FROM duckdb_settings() WHERE name IN ({names})").fetchall())
        == wanted
    )


def test_rows_of_another_schema_are_an_error_and_not_a_crash(duck: Duck) -> None:
    statement = duck.statement(lambda feed: f"SELECT k FROM {feed}", worlds.SCHEMA)
    foreign = pa.RecordBatch.from_arrays([pa.array([1.5]), pa.array([1])], names=["x", "stime"])
    with pytest.raises(TypeError, match="rows of another schema"):
        statement.run(foreign)
    assert statement.run(worlds.batch([("a", 1, 1.0, True, 1)])).to_pydict() == {"k": ["a"]}
    with pytest.raises(TypeError, match="rows of another schema"):
        ScanInput(worlds.SCHEMA).set(foreign)


def test_a_filter_compares_as_sql_does_and_not_as_arrow_does() -> None:
    """NaN is greater than everything in SQL; pushed into the Arrow scan it would be greater than nothing."""
    with worlds.kernel(lambda app, a, b: a.filter("x > 1")) as on:
        found = worlds.run(on, {0: [[("a", 1, float("nan"), True, 1), ("b", 1, 0.0, True, 2)], []]}, 0, 1)
        assert [row["k"] for row in found[0]] == ["a"]
