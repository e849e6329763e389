"""Histories made by hand: each planted fault must be flagged by its own field and by no other."""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from borealis_py.demo import checker
from borealis_py.demo.checker import (
    QUERIES,
    ContentReport,
    CorrectedRecord,
    FlightsTruth,
    HistoryRecord,
    JudgedCase,
    judge,
)
from borealis_py.demo.checker.history import Raw, ReplicaHistory, Unreadable, corrected, published_stimes, replay
from borealis_py.demo.checker.judge import Failure, judge_published
from borealis_py.demo.checker.truth import FlightRow
from borealis_py.demo.flights import app
from borealis_py.engine.kernel import compile_query
from borealis_py.log import records

W = 100_000
T0 = 1_700_000_000_000_000
B0 = T0 // W
CUT = B0 + 8
"""First bucket without LGA."""
HEAL = B0 + 25
"""First bucket with LGA again."""
END = B0 + 30


def flights() -> pd.DataFrame:
    """Three seconds: in every bucket one flight of each source, and LGA's second one there is very late."""
    rows = []
    for b in range(30):
        for source in range(3):
            for n in range(2 if source == 2 else 1):
                delay = 121.0 + b if (source == 2 and n) else float(b - 7 * source)
                rows.append((source, T0 + b * W + 1_000 * source + n, ["UA", "B6", "DL"][(b + source) % 3], delay))
    rows.append((0, T0 + 15 * W + 99_000, "UA", math.nan))  # cancelled
    rows.append((1, T0 + 16 * W + 99_000, "AA", 300.0))  # very late without LGA
    table = pd.DataFrame(rows, columns=["source", "stime", "carrier", "dep_delay"])
    return table.sort_values("stime", kind="stable").reset_index(drop=True)


@dataclass
class World:
    """What lies in the topics of one query."""

    truth: FlightsTruth
    replicas: list[list[HistoryRecord]] = field(default_factory=list)
    corrected: list[CorrectedRecord] = field(default_factory=list)

    def judge(self) -> ContentReport:
        failure = Failure("lga", CUT * W, HEAL * W)
        return judge([JudgedCase(self.truth, [ReplicaHistory(r) for r in self.replicas], self.corrected)], failure)


def stable_run(truth: FlightsTruth, first: int, end: int, inc: int = 1) -> list[HistoryRecord]:
    found = truth.stable()
    out = []
    for b in range(first, end):
        if b in found:
            out.append(HistoryRecord("STABLE", inc, b, b + 1, tuple(found[b])))
        else:
            out.append(HistoryRecord("BOUNDARY", inc, b, b + 1))
    return out


def tentative_run(truth: FlightsTruth, inc: int = 1, partial: int = 0) -> list[HistoryRecord]:
    """[CUT, END) live; LGA is lacking in [CUT, HEAL); `partial` of its rows were there in the first bucket."""
    missing = {b: ("lga",) if b < HEAL else () for b in range(CUT, END)}
    out = []
    for b in range(CUT, END):
        rows = truth.tentative(b, missing, {(CUT, "lga"): partial}) if truth.has_results(b) else []
        missing_sources = ("lga",) if min(truth.depends(b)) < HEAL else ()
        share = 2 / 3 if missing_sources else 1.0
        out.append(HistoryRecord("TENTATIVE", inc, b, b + 1, tuple(rows), missing_sources, missing[b], share, CUT))
    return out


def good(name: str, partial: int = 0) -> World:
    truth = FlightsTruth(QUERIES[name], flights(), W)
    undo, done = HistoryRecord("UNDO", 1, CUT, CUT), HistoryRecord("REC_DONE", 1, END, END)
    history = [
        *stable_run(truth, B0, CUT),
        *tentative_run(truth, partial=partial),
        undo,
        *stable_run(truth, CUT, END),
        done,
        HistoryRecord("BOUNDARY", 1, END, 2**62 // W),
    ]
    rows = [
        CorrectedRecord(f"{b}:{i}", str(row[-1]), dict(zip(truth.query.columns, row[:-1], strict=True)))
        for b, found in sorted(truth.stable().items())
        for i, row in enumerate(found)
    ]
    return World(truth, [list(history), list(history)], rows)


BOTH = pytest.mark.parametrize("name", list(QUERIES))


@BOTH
def test_a_good_history_is_good(name: str) -> None:
    world = good(name)
    report = world.judge()
    assert report.ok, report.differences
    assert report.differences == []
    assert report.corrected_results == report.stable_results == len(world.corrected)
    assert report.tentative_buckets == END - CUT
    assert report.tentative_results == sum(len(r.rows) for r in world.replicas[0] if r.kind == "TENTATIVE") > 0
    assert (report.tentative_lacking_others, report.tentative_outside_failure) == (0, 0)


def test_truth_is_what_a_plain_loop_computes() -> None:
    table = flights()
    seconds: dict[tuple[int, str], list[float]] = {}
    late: list[FlightRow] = []
    for row in table.sort_values(["stime", "source"]).itertuples():
        if not math.isnan(row.dep_delay):
            seconds.setdefault((row.stime // 1_000_000, row.carrier), []).append(row.dep_delay / 60)
        if row.dep_delay > 120:
            late.append((row.carrier, row.dep_delay, row.stime))
    found = [r for rows in FlightsTruth(QUERIES["carrier_delays"], table, W).stable().values() for r in rows]
    assert [(r[0] // 1_000_000, r[2], r[3]) for r in found] == [(s, c, len(v)) for (s, c), v in sorted(seconds.items())]
    for r, (_, values) in zip(found, sorted(seconds.items()), strict=True):
        assert r[4] == pytest.approx(sum(values) / len(values), rel=1e-12)
        assert (r[1] - r[0], r[5]) == (1_000_000, r[1] - 1)
    assert [r for rows in FlightsTruth(QUERIES["very_late"], table, W).stable().values() for r in rows] == late


# One fault each ------------------------------------------------------------------------------------------------------

Fault = Callable[[World], None]


def last_with_rows(world: World, k: int, kind: str) -> int:
    return max(i for i, r in enumerate(world.replicas[k]) if r.kind == kind and r.rows)


def nudge(row: FlightRow) -> FlightRow:
    """The same row, its double moved by the last bit."""
    return tuple(math.nextafter(v, math.inf) if isinstance(v, float) else v for v in row)


def wrong(row: FlightRow) -> FlightRow:
    return tuple(v + 1.0 if isinstance(v, float) else v for v in row)


def change(world: World, k: int, i: int, edit: Callable[[FlightRow], FlightRow]) -> None:
    record = world.replicas[k][i]
    world.replicas[k][i] = replace(record, rows=(*record.rows[:-1], edit(record.rows[-1])))


def missing(world: World) -> None:
    world.corrected.pop()


def duplicated(world: World) -> None:
    world.corrected.append(world.corrected[0])


def other_double(world: World) -> None:
    row = dict(world.corrected[0].row or {})
    name = "dep_delay" if "dep_delay" in row else "mean_delay_hours"
    world.corrected[0] = replace(world.corrected[0], row={**row, name: float(row[name] or 0.0) + 1e-6})


def other_carrier(world: World) -> None:
    world.corrected[0] = replace(world.corrected[0], row={**(world.corrected[0].row or {}), "carrier": "ZZ"})


def extra_column(world: World) -> None:
    world.corrected[0] = replace(world.corrected[0], row={**(world.corrected[0].row or {}), "x": 1})


def other_stime(world: World) -> None:
    world.corrected[0] = replace(world.corrected[0], stime=str(int(world.corrected[0].stime or 0) + 1))


def invented(world: World) -> None:
    world.corrected.append(replace(world.corrected[-1], id=f"{END}:0"))


def without_id(world: World) -> None:
    world.corrected.append(replace(world.corrected[-1], id=None))


def out_of_order(world: World) -> None:
    world.corrected[0], world.corrected[1] = world.corrected[1], world.corrected[0]


def partial_called_stable(world: World) -> None:
    for k in (0, 1):
        change(world, k, last_with_rows(world, k, "STABLE"), wrong)


def result_left_out_of_stable(world: World) -> None:
    for k in (0, 1):
        i = last_with_rows(world, k, "STABLE")
        record = world.replicas[k][i]
        world.replicas[k][i] = replace(record, kind="BOUNDARY", rows=())


def stable_changed_later(world: World) -> None:
    for k in (0, 1):
        record = world.replicas[k][last_with_rows(world, k, "STABLE")]
        world.replicas[k].append(replace(record, inc=2, rows=tuple(map(nudge, record.rows))))


def replicas_differ_in_a_bit(world: World) -> None:
    change(world, 1, last_with_rows(world, 1, "STABLE"), nudge)


def hole_in_a_replica(world: World) -> None:
    del world.replicas[1][2]


def tentative_wrong(world: World) -> None:
    change(world, 1, last_with_rows(world, 1, "TENTATIVE"), wrong)


def tentative_lost_a_row(world: World) -> None:
    i = last_with_rows(world, 0, "TENTATIVE")
    world.replicas[0][i] = replace(world.replicas[0][i], rows=world.replicas[0][i].rows[:-1])


def tentative_blames_another(world: World) -> None:
    for i, record in enumerate(world.replicas[0]):
        if record.kind == "TENTATIVE" and record.missing_sources:
            world.replicas[0][i] = replace(record, missing_sources=("ewr",), missing=("ewr",) if record.missing else ())


def tentative_window_names_nobody(world: World) -> None:
    """The last that lacked something: where there are windows its own bucket had all sources."""
    i = max(i for i, r in enumerate(world.replicas[0]) if r.missing_sources)
    world.replicas[0][i] = replace(world.replicas[0][i], missing_sources=())


def tentative_claims_to_be_complete(world: World) -> None:
    i = next(i for i, r in enumerate(world.replicas[0]) if r.missing_sources)
    world.replicas[0][i] = replace(world.replicas[0][i], completeness=1.0)


def tentative_forgot_when_it_diverged(world: World) -> None:
    i = next(i for i, r in enumerate(world.replicas[0]) if r.missing_sources)
    world.replicas[0][i] = replace(world.replicas[0][i], diverged_from=CUT - 1)


FAULTS: list[tuple[Fault, dict[str, object]]] = [
    (missing, {"corrected_missing": 1}),
    (duplicated, {"corrected_duplicated": 1}),
    (other_double, {"corrected_different": 1}),
    (other_carrier, {"corrected_different": 1}),
    (extra_column, {"corrected_different": 1}),
    (other_stime, {"corrected_different": 1}),
    (invented, {"corrected_different": 1}),
    (without_id, {"corrected_different": 1}),
    (out_of_order, {"corrected_different": 1}),
    (partial_called_stable, {"unlabelled_partial_results": 2}),
    (result_left_out_of_stable, {"unlabelled_partial_results": ...}),
    (stable_changed_later, {"stable_results_changed": ...}),
    (replicas_differ_in_a_bit, {"replicas_identical": False}),
    (hole_in_a_replica, {"replicas_identical": False}),
    (tentative_wrong, {"tentative_wrong": 1, "tentative_content_right": False}),
    (tentative_lost_a_row, {"tentative_wrong": 1, "tentative_content_right": False}),
    (tentative_blames_another, {"tentative_wrong": ..., "tentative_content_right": False}),
    (tentative_window_names_nobody, {"tentative_wrong": 1, "tentative_content_right": False}),
    (tentative_claims_to_be_complete, {"tentative_wrong": 1, "tentative_content_right": False}),
    (tentative_forgot_when_it_diverged, {"tentative_wrong": 1, "tentative_content_right": False}),
]
JUDGED = (
    "stable_results_changed",
    "unlabelled_partial_results",
    "tentative_wrong",
    "tentative_content_right",
    "replicas_identical",
    "corrected_missing",
    "corrected_duplicated",
    "corrected_different",
    "unreadable_records",
    "published_different",
)


@BOTH
@pytest.mark.parametrize(("fault", "flagged"), FAULTS, ids=[f.__name__ for f, _ in FAULTS])
def test_a_fault_is_flagged_by_its_own_field_alone(name: str, fault: Fault, flagged: dict[str, object]) -> None:
    world = good(name)
    fault(world)
    report = world.judge()
    clean = ContentReport()
    odd = {f: getattr(report, f) for f in JUDGED if getattr(report, f) != getattr(clean, f)}
    assert odd.keys() == flagged.keys(), report.differences
    assert all(want is ... or odd[f] == want for f, want in flagged.items()), odd
    assert not report.ok
    assert report.differences


# What is not a fault -------------------------------------------------------------------------------------------------


@BOTH
def test_first_rows_of_the_bucket_in_which_a_source_was_cut_are_right(name: str) -> None:
    report = good(name, partial=2).judge()
    assert report.ok, report.differences
    assert report.tentative_with_part_of_lacked == 2  # one result in each replica


@BOTH
def test_a_restart_that_says_the_same_again_is_right(name: str) -> None:
    world = good(name)
    again = [replace(r, inc=2) for r in world.replicas[1][: CUT - B0]]
    zombie = tentative_run(world.truth)[:1]
    world.replicas[1] += [*again, *zombie]
    report = world.judge()
    assert report.ok, report.differences


@BOTH
def test_a_second_failure_starts_from_the_corrected_state(name: str) -> None:
    """LGA is complete in the buckets before it, though they had been tentative once."""
    truth = good(name).truth
    lga = ("lga",), ("lga",)
    first = HistoryRecord("TENTATIVE", 1, B0 + 5, B0 + 6, (), *lga, 2 / 3, B0 + 5)
    rows = truth.tentative(B0 + 5, {B0 + 5: ("lga",)})
    first = replace(first, rows=tuple(rows))
    later = dict.fromkeys(range(B0 + 7, B0 + 10), ("lga",))
    live = [
        HistoryRecord("TENTATIVE", 1, b, b + 1, tuple(truth.tentative(b, later)), *lga, 2 / 3, B0 + 7) for b in later
    ]
    history = [*stable_run(truth, B0, B0 + 5), first, *stable_run(truth, B0 + 5, B0 + 7), *live]
    history += stable_run(truth, B0 + 7, END)
    world = replace(good(name), replicas=[list(history), list(history)])
    report = world.judge()
    assert report.ok, report.differences


# Bytes ---------------------------------------------------------------------------------------------------------------


def arrow(rows: list[FlightRow], name: str = "very_late") -> bytes:
    schema = QUERIES[name].schema
    columns = [pa.array(list(c), t) for c, t in zip(zip(*rows, strict=True), schema.types, strict=True)]
    return bytes(pa.RecordBatch.from_arrays(columns, schema=schema).serialize())


def test_envelopes_of_the_product_are_read_as_they_were_meant() -> None:
    one, two = [("UA", 121.5, 7)], [("B6", 300.0, 8)]
    values = [
        records.pack(records.RangeHeader("a1", 3, 0, 5, 0)),
        records.pack(records.StableHeader("a1", 3, 5, 0, 0, 2, "h"), arrow(one)),
        records.pack(records.StableHeader("a1", 3, 5, 0, 1, 2, "h"), arrow(two)),
        records.pack(records.TentativeHeader("a1", 3, 6, 0, 0, 1, "h", ("ewr", "lga"), ("lga",), 0.5, 6), arrow(one)),
        records.pack(records.UndoHeader("a1", 3, 6)),
        records.pack(records.StableHeader("a1", 3, 6, 0, 0, 1, "h")),
        records.pack(records.RecDoneHeader("a1", 3, 7)),
    ]
    found = replay([Raw(i, v) for i, v in enumerate(values)], QUERIES["very_late"].schema)
    assert found.records == [
        HistoryRecord("BOUNDARY", 3, 0, 5),
        HistoryRecord("STABLE", 3, 5, 6, (*one, *two)),
        HistoryRecord("TENTATIVE", 3, 6, 7, tuple(one), ("ewr", "lga"), ("lga",), 0.5, 6),
        HistoryRecord("UNDO", 3, 6, 6),
        HistoryRecord("STABLE", 3, 6, 7),
        HistoryRecord("REC_DONE", 3, 7, 7),
    ]
    assert (found.unreadable, found.torn) == ([], 0)


def test_unreadable_records_are_counted_and_torn_buckets_are_not_taken_for_whole() -> None:
    whole = records.pack(records.StableHeader("a1", 1, 5, 0, 0, 1, "h"), arrow([("UA", 121.5, 7)]))
    half = records.pack(records.StableHeader("a1", 1, 6, 0, 0, 2, "h"), arrow([("UA", 121.5, 7)]))
    orphan = records.pack(records.StableHeader("a1", 1, 7, 0, 1, 2, "h"), arrow([("UA", 121.5, 7)]))
    values = [b"{}", whole[:-40], whole, half, orphan, None]
    found = replay([Raw(i, v) for i, v in enumerate(values)], QUERIES["very_late"].schema)
    assert [r.bucket for r in found.records] == [5]
    assert [text.split(":")[0] for text in found.unreadable] == ["offset 0", "offset 1", "offset 4", "offset 5"]
    assert found.torn == 1
    world = good("very_late")
    case = JudgedCase(world.truth, [ReplicaHistory(r, found.unreadable) for r in world.replicas], world.corrected)
    report = judge([case])
    assert report.unreadable_records == 8
    assert not report.ok


def test_corrected_rows_are_read_with_their_headers() -> None:
    headers = (("id", b"7:0"), ("stime", b"700"))
    found = corrected([Raw(0, b'{"carrier":"UA","dep_delay":null}', headers), Raw(1, b"{", headers), Raw(2, b"[]", ())])
    assert found == [
        CorrectedRecord("7:0", "700", {"carrier": "UA", "dep_delay": None}),
        CorrectedRecord("7:0", "700", None),
        CorrectedRecord(None, None, None),
    ]


def test_published_tuples_are_counted_by_the_rules_of_the_log() -> None:
    def batch(epoch: int, uid: str, seq: int, stimes: list[int], boundary: int | None = None) -> bytes:
        return records.pack(
            records.BatchHeader("a1", epoch, uid, seq, records.pack_stimes(stimes), boundary, "json"), b"[]"
        )

    values = [
        records.pack(records.ClaimHeader("a1", 1, "a")),
        batch(1, "a", 0, [10, 11], 20),
        batch(1, "a", 1, [11, 21]),  # seq 1 again
        batch(1, "a", 3, [19]),  # late
        records.pack(records.ClaimHeader("a1", 2, "b")),
        batch(1, "a", 4, [30]),  # fenced
        batch(2, "b", 3, [22], 2**62),
    ]
    stimes, dropped = published_stimes([Raw(i, v) for i, v in enumerate(values)])
    assert (stimes, dropped) == ([10, 11, 21, 22], 3)
    with pytest.raises(Unreadable):
        published_stimes([Raw(0, b"{}")])
    report = ContentReport()
    judge_published(report, {"ewr": [10, 11, 21, 23, 24]}, {"ewr": stimes})
    assert (report.tuples_expected, report.tuples_published, report.published_different) == (5, 4, 2)


def test_it_shares_no_code_with_the_product() -> None:
    for file in Path(checker.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom):
                assert node.level == 0, file
                names = [node.module or ""]
            ours = [n for n in names if n.split(".")[0] in ("borealis_py", "sunion", "reconcile")]
            assert all(n.startswith("borealis_py.demo.checker") for n in ours), (file, ours)


def test_the_schemas_are_those_of_the_app() -> None:
    spec = app.describe()
    for name, query in QUERIES.items():
        assert compile_query(spec, name).output_schema.equals(query.schema)
