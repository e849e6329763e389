"""Whatever a row makes the engine raise costs that row; what is the process's own fault costs none."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from borealis_py.engine.operators.poison_rows import isolate_bad_rows, run_by_part
from borealis_py.engine.sql import duck_faults as faults
from borealis_py.engine.sql.duck_faults import UNREADABLE, RowError
from borealis_py.engine.sql.duck_statement import Duck
from sunion.errors import EngineOutOfMemory
from tests.engine import worlds
from tests.engine.worlds import Row


@pytest.fixture
def duck() -> Iterator[Duck]:
    made = Duck()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("expression", "good", "bad", "reason"),
    [
        ("from_hex(k)::VARCHAR", "00ff", "é", UNREADABLE),
        ("timezone(k, to_timestamp(stime))::VARCHAR", "UTC", "nowhere", "Not implemented Error: Unknown TimeZone"),
        ("'a' LIKE 'a' ESCAPE k", "!", "long", "Invalid escape string"),
        (r"regexp_extract(k, '^\C')", "e", "é", "the result is not valid UTF-8"),
        (r"[regexp_extract(k, '^\C')]", "e", "é", "the result is not valid UTF-8"),
    ],
)  # fmt: skip
def test_whatever_a_row_raises_is_its_dead_letter(expression: str, good: str, bad: str, reason: str) -> None:
    rows: list[Row] = [(bad if n == 3 else good, n, 1.0, True, n) for n in range(7)]
    with worlds.kernel(lambda app, a, b: a.map(y=expression, i="i")) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [rows, []]}))
        assert [r["i"] for r in on.to_dicts(outputs[0].rows)] == [0, 1, 2, 4, 5, 6]
        (reject,) = outputs[0].rejects
        assert reject.reason.startswith(f"tuple at stime 3: {reason}")


def test_text_of_a_window_that_is_not_valid_costs_the_window() -> None:
    rows: list[Row] = [("good", 65, 1.0, True, 1), ("évil", 66, 1.0, True, 2)]
    with worlds.kernel(lambda app, a, b: a.window("100ms").group_by("k").agg(y=r"regexp_extract(max(k), '^\C')")) as on:
        _, outputs = on.step(on.initial(), 0, 1, worlds.ordered(on, {0: [rows, []]}))
        assert [(r["k"], r["y"]) for r in on.to_dicts(outputs[0].rows)] == [("good", "g")]
        assert "k='évil': the result is not valid UTF-8" in outputs[0].rejects[0].reason


class Scripted:
    """A statement that refuses rows by their value: `sure` always, `unsure` always, `once` on an old connection."""

    def __init__(self, **refused: int) -> None:
        self.refused = refused
        self.runs = self.fresh = 0

    def run(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.runs += 1
        return self._run(batch, self.refused)

    def run_afresh(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.fresh += 1
        return self._run(batch, {kind: value for kind, value in self.refused.items() if kind != "once"})

    def _run(self, batch: pa.RecordBatch, refused: dict[str, int]) -> pa.RecordBatch:
        for kind, value in refused.items():
            if value in batch.column(0).to_pylist():
                raise RowError(kind, kind == "sure")
        return batch


def numbers(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": list(range(count))})


def test_an_error_that_may_be_the_processs_blames_what_fails_again_on_a_fresh_connection() -> None:
    statement = Scripted(unsure=5, once=7)
    rows, bad = isolate_bad_rows(statement, numbers(16))
    assert bad == {5: "unsure"}
    assert rows is not None
    assert rows.column(0).to_pylist() == [n for n in range(16) if n != 5]
    assert statement.fresh == 3  # each of the two alone, and what is left together


@pytest.mark.parametrize("count", [1, 2])
def test_rows_that_fail_once_only_are_kept(count: int) -> None:
    rows, bad = isolate_bad_rows(Scripted(once=0), numbers(count))
    assert bad == {}
    assert rows is not None
    assert rows.num_rows == count


def test_one_bad_row_of_many_takes_few_runs() -> None:
    for refused in ({"sure": 700}, {"unsure": 700}):
        statement = Scripted(**refused)
        assert list(isolate_bad_rows(statement, numbers(4096)).bad) == [700]
        assert statement.runs <= 2 * 12 + 3
        assert statement.fresh <= 1


def judged(error: Exception) -> type[Exception]:
    return type(faults.judged(error))


def test_faults_of_the_process_are_known_by_name() -> None:
    kinds = (duckdb.InterruptException, duckdb.InternalException, duckdb.FatalException, duckdb.IOException,
             duckdb.HTTPException, duckdb.ConnectionException)  # fmt: skip
    assert [judged(kind("x")) for kind in kinds] == list(kinds)
    assert judged(duckdb.OutOfMemoryException("x")) is EngineOutOfMemory
    assert judged(pa.ArrowMemoryError("x")) is EngineOutOfMemory
    for unsure in (duckdb.SyntaxException("x"), duckdb.SerializationException("x"), RuntimeError("x")):
        found = faults.judged(unsure)
        assert isinstance(found, RowError)
        assert not found.sure


def test_a_closed_connection_blames_nobody() -> None:
    duck = Duck()
    statement = duck.statement(lambda feed: f"SELECT k FROM {feed}", worlds.SCHEMA)
    duck.close()
    with pytest.raises(duckdb.ConnectionException):
        isolate_bad_rows(statement, worlds.batch([("a", 1, 1.0, True, 1)]))


def test_a_fresh_connection_has_all_statements(duck: Duck) -> None:
    first = duck.statement(lambda feed: f"SELECT k FROM {feed}", worlds.SCHEMA)
    second = duck.statement(lambda feed: f"SELECT i FROM {feed}", worlds.SCHEMA)
    before = duck.connection
    rows = worlds.batch([("a", 1, 1.0, True, 1)])
    assert first.run_afresh(rows).to_pydict() == {"k": ["a"]}
    assert duck.connection is not before
    assert second.run(rows).to_pydict() == {"i": [1]}


def test_what_was_run_is_let_go_without_a_search_for_cycles() -> None:
    """Each step's tables are megabytes to the allocator and a dozen objects to Python, which looks for cycles late."""
    batch = pa.RecordBatch.from_pydict({"v": [1, 2, 3, 4]})

    def one(rows: pa.RecordBatch) -> pa.RecordBatch:
        return rows.slice(0, 0)

    gone = weakref.ref(one)
    gc.disable()
    try:
        assert [found.num_rows for found in run_by_part(Scripted(sure=4), batch, range(5), one)] == [2, 0, 0]
        del one
        assert gone() is None
    finally:
        gc.enable()
