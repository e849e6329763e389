"""The demo's model in pandas and the checker on histories made by hand: each fault is in its own figure alone."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pandas as pd
import pytest

from borealis_py.demo.content import ContentReport, content_of
from borealis_py.demo.flights import app
from borealis_py.demo.model import NETWORKS, SOURCES, tuples_of
from borealis_py.demo.weather import TABLE
from borealis_py.engine.kernel import compile_query
from borealis_py.engine.keyed.table_file import known
from borealis_py.verify import Evidence, judge
from borealis_py.verify.envelope import Row
from borealis_py.verify.evidence import CommittedRow, ProgressRecord
from borealis_py.verify.history import HistoryRecord, ReplicaHistory
from borealis_py.verify.network import Network, Truth, by_bucket, stime_of
from borealis_py.verify.partitions import Piece
from borealis_py.verify.source_log import END as ENDED
from borealis_py.verify.source_log import SourceHistory

W = 100_000
T0 = 1_700_000_000_000_000
B0 = T0 // W
CUT = B0 + 8
"""First bucket without LGA."""
HEAL = B0 + 25
"""First bucket with LGA again."""
END = B0 + 30
FOREVER = ENDED // W
PIECE = Piece(0)


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
    table["origin"] = [SOURCES[source].upper() for source in table.source]
    table["sched"] = [f"2013-01-{1 + n % 28:02}T{n % 24:02}:{n % 60:02}" for n in range(len(table))]
    return table.sort_values("stime", kind="stable").reset_index(drop=True)


def bucket_of(row: Row) -> int:
    return stime_of(row) // W


@dataclass
class Flown:
    """What lies in the topics of one query."""

    network: Network
    tuples: dict[str, list[Row]]
    replicas: list[list[HistoryRecord]] = field(default_factory=list)
    corrected: list[CommittedRow] = field(default_factory=list)

    def stable(self) -> dict[int, tuple[Row, ...]]:
        """By bucket, on complete input."""
        return Truth(self.network, self.tuples).stable(PIECE)

    def lacking(self, missing: dict[int, tuple[str, ...]], partial: int = 0) -> dict[int, tuple[Row, ...]]:
        """By bucket, without what was missing; of LGA `partial` rows of the first bucket were there."""
        left = {s: [r for r in rows if s not in missing.get(bucket_of(r), ())] for s, rows in self.tuples.items()}
        first = [r for r in self.tuples["lga"] if bucket_of(r) == CUT][:partial]
        left["lga"] = sorted([*left["lga"], *first], key=stime_of)
        return by_bucket(self.network.run(left), W)

    def depends(self, bucket: int) -> range:
        """The buckets whose input a result in it depends on."""
        return range(min(bucket, ((bucket + 1) * W - self.network.stages[0].reach_us) // W), bucket + 1)

    def evidence(self) -> Evidence:
        logs = {s: SourceHistory(list(rows), list(range(len(rows))), boundary=ENDED) for s, rows in self.tuples.items()}
        histories = [ReplicaHistory(list(r)) for r in self.replicas]
        progress = [[ProgressRecord(0, FOREVER)]]
        given = tuples_of(flights())
        rows = self.corrected
        return Evidence(self.network, B0, logs, {PIECE: histories}, rows, rows, progress, published=given)

    def judge(self) -> ContentReport:
        return content_of([judge(self.evidence())])


def stable_run(world: Flown, first: int, end: int, inc: int = 1) -> list[HistoryRecord]:
    found = world.stable()
    out = []
    for b in range(first, end):
        if b in found:
            out.append(HistoryRecord("STABLE", inc, b, b + 1, found[b]))
        else:
            out.append(HistoryRecord("BOUNDARY", inc, b, b + 1))
    return out


def tentative_run(world: Flown, inc: int = 1, partial: int = 0) -> list[HistoryRecord]:
    """[CUT, END) live; LGA is lacking in [CUT, HEAL); `partial` of its rows were there in the first bucket."""
    missing = {b: ("lga",) if b < HEAL else () for b in range(CUT, END)}
    rows = world.lacking(missing, partial)
    out = []
    for b in range(CUT, END):
        missing_sources = ("lga",) if max(CUT, min(world.depends(b))) < HEAL else ()
        share = 2 / 3 if missing_sources else 1.0
        out.append(HistoryRecord("TENTATIVE", inc, b, b + 1, rows.get(b, ()), missing_sources, missing[b], share, CUT))
    return out


def good(name: str, partial: int = 0) -> Flown:
    world = Flown(NETWORKS[name], tuples_of(flights()))
    undo, done = HistoryRecord("UNDO", 1, CUT, CUT), HistoryRecord("REC_DONE", 1, END, END)
    history = [
        *stable_run(world, B0, CUT),
        *tentative_run(world, partial=partial),
        undo,
        *stable_run(world, CUT, END),
        done,
        HistoryRecord("BOUNDARY", 1, END, FOREVER),
    ]
    columns = world.network.stages[0].columns
    ids = [((b, i), row) for b, found in sorted(world.stable().items()) for i, row in enumerate(found)]
    world.corrected = [
        CommittedRow(n, row_id, stime_of(row), dict(zip(columns, row[:-1], strict=True)))
        for n, (row_id, row) in enumerate(ids)
    ]
    world.replicas = [list(history), list(history)]
    return world


BOTH = pytest.mark.parametrize("name", list(NETWORKS))


@BOTH
def test_a_good_history_is_good(name: str) -> None:
    world = good(name)
    report = world.judge()
    assert report.ok, report.differences
    assert report.differences == []
    assert report.corrected_results == report.stable_results == len(world.corrected)
    assert report.tentative_buckets == END - CUT
    assert report.tentative_results == sum(len(r.rows) for r in world.replicas[0] if r.kind == "TENTATIVE") > 0
    assert report.tuples_expected == report.tuples_published == len(flights())


def test_the_model_is_what_a_plain_loop_computes() -> None:
    table = flights()
    seconds: dict[tuple[int, str], list[float]] = {}
    late: list[Row] = []
    with TABLE.open() as file:
        observed = {(o, hour): (float(miles), float(rain)) for o, hour, miles, rain in list(csv.reader(file))[1:]}
    for row in table.sort_values(["stime", "source"]).itertuples():
        if not math.isnan(row.dep_delay):
            seconds.setdefault((row.stime // 1_000_000, row.carrier), []).append(row.dep_delay / 60)
        if row.dep_delay > 120:
            weather = observed.get((row.origin, row.sched[:13]), (None, None))
            late.append((row.carrier, row.dep_delay, row.origin, row.sched[:13], *weather, row.stime))
    found = NETWORKS["carrier_delays"].run(tuples_of(table))
    assert [(int(str(r[0])) // 1_000_000, r[2], r[3]) for r in found] == [
        (s, c, len(v)) for (s, c), v in sorted(seconds.items())
    ]
    for (start, end, _, _, mean, stime), (_, values) in zip(found, sorted(seconds.items()), strict=True):
        assert mean == pytest.approx(sum(values) / len(values), rel=1e-12)
        assert (int(str(end)) - int(str(start)), stime) == (1_000_000, int(str(end)) - 1)
    assert NETWORKS["very_late"].run(tuples_of(table)) == late
    assert len({row[4:6] for row in late}) > 3


# One fault each ------------------------------------------------------------------------------------------------------

Fault = Callable[[Flown], None]


def last_with_rows(world: Flown, k: int, kind: str) -> int:
    return max(i for i, r in enumerate(world.replicas[k]) if r.kind == kind and r.rows)


def nudge(row: Row) -> Row:
    """The same row, its double moved by the last bit."""
    return tuple(math.nextafter(v, math.inf) if isinstance(v, float) else v for v in row)


def wrong(row: Row) -> Row:
    return tuple(v + 1.0 if isinstance(v, float) else v for v in row)


def change(world: Flown, k: int, i: int, edit: Callable[[Row], Row]) -> None:
    record = world.replicas[k][i]
    world.replicas[k][i] = replace(record, rows=(*record.rows[:-1], edit(record.rows[-1])))


def missing(world: Flown) -> None:
    world.corrected.pop()


def duplicated(world: Flown) -> None:
    world.corrected.append(world.corrected[0])


def other_double(world: Flown) -> None:
    row = dict(world.corrected[0].row or {})
    name = "dep_delay" if "dep_delay" in row else "mean_delay_hours"
    world.corrected[0] = replace(world.corrected[0], row={**row, name: float(row[name] or 0.0) + 1e-6})


def other_carrier(world: Flown) -> None:
    world.corrected[0] = replace(world.corrected[0], row={**(world.corrected[0].row or {}), "carrier": "ZZ"})


def extra_column(world: Flown) -> None:
    world.corrected[0] = replace(world.corrected[0], row={**(world.corrected[0].row or {}), "x": 1})


def other_stime(world: Flown) -> None:
    world.corrected[0] = replace(world.corrected[0], stime=(world.corrected[0].stime or 0) + 1)


def invented(world: Flown) -> None:
    world.corrected.append(replace(world.corrected[-1], id=(END, 0)))


def without_id(world: Flown) -> None:
    world.corrected.append(replace(world.corrected[-1], id=None))


def out_of_order(world: Flown) -> None:
    world.corrected[0], world.corrected[1] = world.corrected[1], world.corrected[0]


def partial_called_stable(world: Flown) -> None:
    for k in (0, 1):
        change(world, k, last_with_rows(world, k, "STABLE"), wrong)


def result_left_out_of_stable(world: Flown) -> None:
    for k in (0, 1):
        i = last_with_rows(world, k, "STABLE")
        record = world.replicas[k][i]
        world.replicas[k][i] = replace(record, kind="BOUNDARY", rows=())


def stable_changed_later(world: Flown) -> None:
    for k in (0, 1):
        record = world.replicas[k][last_with_rows(world, k, "STABLE")]
        world.replicas[k].append(replace(record, inc=2, rows=tuple(map(nudge, record.rows))))


def replicas_differ_in_a_bit(world: Flown) -> None:
    change(world, 1, last_with_rows(world, 1, "STABLE"), nudge)


def hole_in_a_replica(world: Flown) -> None:
    del world.replicas[1][2]


def tentative_wrong(world: Flown) -> None:
    change(world, 1, last_with_rows(world, 1, "TENTATIVE"), wrong)


def tentative_lost_a_row(world: Flown) -> None:
    i = last_with_rows(world, 0, "TENTATIVE")
    world.replicas[0][i] = replace(world.replicas[0][i], rows=world.replicas[0][i].rows[:-1])


def tentative_blames_another(world: Flown) -> None:
    for i, record in enumerate(world.replicas[0]):
        if record.kind == "TENTATIVE" and record.missing_sources:
            world.replicas[0][i] = replace(record, missing_sources=("ewr",), missing=("ewr",) if record.missing else ())


def tentative_window_names_nobody(world: Flown) -> None:
    """The last that lacked something: where there are windows its own bucket had all sources."""
    i = max(i for i, r in enumerate(world.replicas[0]) if r.missing_sources)
    world.replicas[0][i] = replace(world.replicas[0][i], missing_sources=())


def tentative_claims_to_be_complete(world: Flown) -> None:
    i = next(i for i, r in enumerate(world.replicas[0]) if r.missing_sources)
    world.replicas[0][i] = replace(world.replicas[0][i], completeness=1.0)


def tentative_forgot_when_it_diverged(world: Flown) -> None:
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
@pytest.mark.parametrize("partial", [1, 2])
def test_first_rows_of_the_bucket_in_which_a_source_was_cut_are_right(name: str, partial: int) -> None:
    world = good(name, partial)
    assert world.replicas != good(name).replicas or (name, partial) == ("very_late", 1)
    report = world.judge()
    assert report.ok, report.differences


@BOTH
def test_a_restart_that_says_the_same_again_is_right(name: str) -> None:
    world = good(name)
    again = [replace(r, inc=2) for r in world.replicas[1][: CUT - B0]]
    zombie = tentative_run(world)[:1]
    world.replicas[1] += [*again, *zombie]
    report = world.judge()
    assert report.ok, report.differences


@BOTH
def test_a_second_failure_starts_from_the_corrected_state(name: str) -> None:
    """LGA is complete in the buckets before it, though they had been tentative once."""
    world = good(name)
    lga = ("lga",), ("lga",)
    rows = world.lacking({B0 + 5: ("lga",)}).get(B0 + 5, ())
    first = HistoryRecord("TENTATIVE", 1, B0 + 5, B0 + 6, rows, *lga, 2 / 3, B0 + 5)
    later = dict.fromkeys(range(B0 + 7, B0 + 10), ("lga",))
    found = world.lacking(later)
    live = [HistoryRecord("TENTATIVE", 1, b, b + 1, found.get(b, ()), *lga, 2 / 3, B0 + 7) for b in later]
    history = [*stable_run(world, B0, B0 + 5), first, *stable_run(world, B0 + 5, B0 + 7), *live]
    history += [*stable_run(world, B0 + 7, END), HistoryRecord("BOUNDARY", 1, END, FOREVER)]
    world.replicas = [list(history), list(history)]
    report = world.judge()
    assert report.ok, report.differences


def test_tuples_that_were_not_published_as_they_were_given_are_told() -> None:
    world = good("very_late")
    carrier, *others = world.tuples["ewr"][0]
    world.tuples["ewr"][0] = ("ZZ", *others)
    del world.tuples["jfk"][-1]
    report = world.judge()
    assert report.published_different == 2
    assert report.tuples_published == report.tuples_expected - 1
    assert any(f"published was ('{carrier}'" in text for text in report.differences)


def test_the_schemas_are_those_of_the_app() -> None:
    spec = app.describe().with_files(known)
    assert tuple(spec.sources) == SOURCES
    for name, network in NETWORKS.items():
        assert compile_query(spec, name).output_schema.equals(network.stages[0].schema)
        assert spec.bucket_us == network.bucket_us
