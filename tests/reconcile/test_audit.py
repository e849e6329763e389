"""The audit recomputes from the sources and finds whatever was planted in the corrected topic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest

from borealis_py import App
from borealis_py.engine import compile_query
from borealis_py.log.base import Feed, Lookup, Record
from borealis_py.log.corrected import Progress, dead_letter, row_headers, row_id
from borealis_py.query import AppSpec
from reconcile.audit import AuditSpec, audit, audit_specs
from sunion.model import Output, TupleId
from tests.reconcile import flights_world
from tests.reconcile.list_world import ORIGIN, ListKernel, StubLog, StubLookup, batch, claim, list_work
from tests.reconcile.replica import Replica

SOURCE = [claim(1, "a"), *(batch(1, "a", i, [(10_000 + 1000 * i, i)], 11_000 + 1000 * i) for i in range(20))]
CORRECTED, PROGRESS = Feed("app.q"), Feed("app.q.progress")


class CorrectedLog(StubLog):
    """Also holds whole records, for the corrected stream."""

    def lookup(self) -> Lookup:
        return CorrectedLookup(self.logs, self.lost)


class CorrectedLookup(StubLookup):
    def read(self, feed, first, end):
        for offset in range(first, end):
            value = self.logs[feed.topic][offset]
            if isinstance(value, Record):
                yield replace(value, feed=feed, offset=offset)
            elif value is not None:
                yield from super().read(feed, offset, offset + 1)


def published(upto: int) -> list[Record | None]:
    """What a publisher writes of buckets [ORIGIN, upto); a None is a commit marker."""
    kernel = ListKernel()
    records: list[Record | None] = []
    for bucket, output in Replica(kernel, {"s": SOURCE}).expected(ORIGIN, upto).items():
        for i, (value, stime) in enumerate(zip(kernel.to_json(output.rows), kernel.stimes(output.rows), strict=True)):
            records.append(Record(CORRECTED, 0, 0, None, value, row_headers(TupleId(bucket, i), stime)))
        records.append(None)
    return records


def spec(rows: list[Record | None], progress: int | None, whole: bool = False, lost: int = 0) -> AuditSpec:
    marks = (
        [] if progress is None else [msgspec.json.encode(Progress("a1", b, 0, 1)) for b in range(ORIGIN, progress + 1)]
    )
    logs = {"s": SOURCE, "app.q": rows, "app.q.progress": [*marks, *[None] * 40]}
    work = replace(list_work({"s": SOURCE}), log=CorrectedLog(logs, lost))
    return AuditSpec(work, CORRECTED, PROGRESS, ORIGIN, whole)


def test_a_right_stream_is_clean():
    result = audit(spec(published(30), 30))
    assert result.clean
    assert (result.query, result.origin, result.upto, result.rows, result.differences) == ("q", 10, 30, 20, 0)


def test_it_goes_as_far_as_the_stream_says_it_got():
    result = audit(spec(published(20), 20))
    assert (result.clean, result.upto, result.rows) == (True, 20, 10)


def test_the_whole_audit_misses_what_was_never_published():
    result = audit(spec(published(20), 20, whole=True))
    assert (result.upto, result.rows, result.differences) == (30, 10, 10)
    assert str(result.first).startswith("row 20:0 missing")


def test_without_progress_there_is_nothing_to_compare():
    result = audit(spec([], None))
    assert (result.clean, result.upto, result.rows) == (True, ORIGIN, 0)


@pytest.mark.parametrize(
    ("plant", "first"),
    [
        (lambda rows: rows[:4] + rows[6:], "row 12:0 missing"),
        (lambda rows: [*rows[:4], replace(rows[4], value=b'{"total": 3.1}'), *rows[5:]], "row 12:0 is "),
        (lambda rows: [*rows[:5], rows[4], *rows[5:]], "row 12:0 repeated"),
        (
            lambda rows: [*rows[:5], replace(rows[4], headers=row_headers(TupleId(12, 1), 5)), *rows[5:]],
            "row 12:1 is not",
        ),
        (lambda rows: [*rows[:5], replace(rows[4], headers=()), *rows[5:]], "row ? has no readable id"),
    ],
)
def test_planted_rows_are_found(plant, first):
    result = audit(spec(plant(published(30)), 30))
    assert not result.clean
    assert result.differences == 1
    assert str(result.first).startswith(first)


def test_a_stream_that_says_more_than_its_sources_close_is_an_error():
    result = audit(spec(published(30), 35))
    assert not result.clean
    assert "source s up to offset 21 closes only the buckets before 30, not those before 35" in result.error


CHAIN_LOGS = {"s": flights_world.log(3, 6), "t": flights_world.log(4, 6)}


def chain() -> AppSpec:
    """Sources s, t -> cleaned -> sums -> totals, and s -> relay -> totals."""
    app = App("chain", bucket="100ms")
    s, t = (app.source(n, schema={"key": "string", "x": "double"}) for n in ("s", "t"))
    cleaned = app.union(s, t).filter("x IS NOT NULL").map(key="key", x="x / 3.0").node("cleaned")
    sums = cleaned.window("500ms").group_by("key").agg(x="sum(x)").map(key="key", x="x").node("sums")
    both = app.union(sums, s.node("relay"))
    app.query("totals", both.window("1s").group_by("key").agg(total="sum(x)", n="count(*)"))
    return app.describe()


def lived(spec: AppSpec) -> tuple[list[Record | None], list[Record], int]:
    """What the nodes make of it, one after the other: the corrected stream, all dead letters, the bucket it ends at."""
    letters: list[Record] = []
    first, end = flights_world.ORIGIN, flights_world.ORIGIN + 60
    streams: dict[str, Mapping[int, Output]] = {}
    for name, node in spec.all_nodes.items():
        kernel = compile_query(spec, name)
        if set(node.inputs) <= CHAIN_LOGS.keys():
            logs = {source: CHAIN_LOGS[source] for source in node.inputs}
            tells = all(of.letters for of in spec.inputs_of(name))
            made = Replica(kernel, logs, first, flights_world.WIDTH_US, flights_world.AHEAD_US, tells)
            streams[name] = made.outputs
        else:
            parts = {
                b: tuple(streams[i][b].rows if b in streams[i] else None for i in node.inputs)
                for b in range(first, end)
            }
            _, streams[name] = kernel.step(kernel.initial(), first, end, parts)
        records = [
            Record(Feed("chain.totals"), 0, 0, None, value, row_headers(TupleId(bucket, i), stime))
            for bucket, output in streams[name].items()
            if output.rows is not None
            for i, (value, stime) in enumerate(
                zip(kernel.to_json(output.rows), kernel.stimes(output.rows), strict=True)
            )
        ]
        kernel.close()
        rejects = [(bucket, reject) for bucket, output in streams[name].items() for reject in output.rejects]
        told = [dead_letter("chain", name, bucket, reject) for bucket, reject in rejects if bucket < end]
        letters += [Record(Feed("chain.deadletter"), 0, 0, None, new.value, new.headers) for new in told]
    return records, letters, end


def test_a_query_that_was_cut_into_nodes_is_recomputed_from_its_sources():
    spec = chain()
    records, letters, end = lived(spec)
    progress = [msgspec.json.encode(Progress("a1", end, 0, 1))]
    logs = {f"chain.{n}": values for n, values in CHAIN_LOGS.items()}
    logs |= {"chain.totals": records} | {f"chain.{n}.progress": progress for n in spec.all_nodes}

    def result(rows, told=letters):
        log = CorrectedLog({**logs, "chain.totals": rows, "chain.deadletter": told})
        (todo,) = audit_specs(spec, "totals", log, flights_world.ORIGIN, flights_world.AHEAD_US, "a1")
        return audit(todo)

    good = result(records)
    assert (good.error, good.differences, good.rows, good.upto) == (None, 0, len(records), end)
    assert len(records) > 10
    assert (good.letters, good.letter_differences, good.clean) == (len(letters), 0, True)
    assert {dict(r.headers)["query"] for r in letters} == {b"cleaned"}, "the first that reads s tells of it"
    less, more = result(records, letters[1:]), result(records, [*letters, letters[0]])
    assert [(r.clean, r.letter_differences, r.first_letter.kind) for r in (less, more)] == [
        (False, 1, "missing"), (False, 1, "extra"),
    ]  # fmt: skip
    assert result(records[:7] + records[8:]).differences == 1
    other = replace(records[7], value=records[7].value.replace(b'"n":', b'"n":1'))
    assert str(result([*records[:7], other, *records[8:]]).first).startswith(f"row {row_id(records[7])} is ")


def test_a_source_without_its_beginning_is_an_error():
    result = audit(spec(published(30), 30, lost=4))
    assert result.error.startswith("source s no longer has its beginning (first kept offset is 4)")
