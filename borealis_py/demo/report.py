"""The demo's end: report.json, timeline.svg, a table, and the verdict."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from borealis_py.demo.measure import AddedDelays
from borealis_py.demo.picture import Band, Cell, PicturedJob, PicturePanel, PicturePoint, Strip, Timeline, draw, spans
from borealis_py.demo.sight import POOR_MILES, sight_of
from borealis_py.demo.watch import ObservedReconciliation, Story
from reconcile.audit import AuditResult

LOOKED_UP = "very_late"
"""The query whose rows have the weather."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What a run found out. `very_late`: its stable rows; `content`: the checker's report. Times: wall microseconds."""

    threshold_s: float
    source: str
    cut_us: tuple[int, int]
    t0_us: int
    days: int
    published: dict[str, int]
    story: Story
    delays: dict[str, AddedDelays]
    very_late: list[dict[str, Any]]
    content: Path
    audits: list[AuditResult]
    spark: bool
    bucket_us: int


@dataclass(slots=True)
class DemoVerdict:
    """The report, and each promise with whether it held."""

    report: dict[str, Any]
    promises: list[tuple[str, bool, str]] = field(default_factory=list)
    files: list[Path] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return all(held for _, held, _ in self.promises)

    def print(self, console: Console) -> None:
        table = Table("promise", "held", "figure", title="borealis demo")
        for name, held, figure in self.promises:
            table.add_row(name, "[green]yes[/]" if held else "[bold red]NO[/]", figure)
        console.print(table)
        weather = self.report["weather"]
        console.print(
            f"{weather['poor_visibility']} of {weather['very_late_flights']} very late flights were to leave at a "
            f"visibility below {POOR_MILES:g} miles: weather.csv, by lookup"
        )
        for file in self.files:
            console.print(f"wrote {file}")
        for text in self.report.get("differences", []):
            console.print(f"[red]{text}[/]")


def finish(facts: Facts, out: Path) -> DemoVerdict:
    """Write both files and judge."""
    report = _report(facts)
    verdict = DemoVerdict(report, list(_promises(facts, report)), [out / "report.json", out / "timeline.svg"])
    report["ok"] = verdict.ok
    verdict.files[0].write_text(json.dumps(report, indent=2) + "\n")
    verdict.files[1].write_text(draw(_timeline(facts)))
    return verdict


def _report(facts: Facts) -> dict[str, Any]:
    content = json.loads(facts.content.read_text())
    clean = list(facts.delays.values())
    newest = facts.story.newest.values()
    tuples = sorted({s.tuples_in for s in newest})
    sight = sight_of(facts.very_late, facts.bucket_us)
    return {
        "threshold_s": facts.threshold_s,
        "max_added_delay_s": max(d.max_added_us for d in clean) / 1e6,
        "buckets_without_any_result": sum(len(d.silent) for d in clean),
        **{k: content[k] for k in content if k != "ok"},
        "audit_differences": sum(a.differences for a in facts.audits) if facts.audits else None,
        "audit": [
            {"query": a.query, "rows": a.rows, "differences": a.differences, "seconds": a.seconds, "error": a.error}
            for a in facts.audits
        ],
        "reconciliations": [_reconciliation(r, facts.t0_us) for r in facts.story.reconciliations],
        "overlap_of_reconciliations_s": facts.story.overlap_us() / 1e6,
        "states": {
            f"{query}.r{k}": [[round((at - facts.t0_us) / 1e6, 3), state] for at, state in line]
            for (query, k), line in sorted(facts.story.states.items())
        },
        "delay_p50_ms": max(d.p50_ms for d in clean),
        "delay_p99_ms": max(d.p99_ms for d in clean),
        "delays": {q: {"p50_ms": d.p50_ms, "p99_ms": d.p99_ms} for q, d in facts.delays.items()},
        "weather": {
            "very_late_flights": sight.flights,
            "with_weather": sight.reported,
            "poor_visibility": sight.poor,
        },
        "tuples_in": tuples[0] if len(tuples) == 1 else tuples,
        "failure_s": [(t - facts.t0_us) / 1e6 for t in facts.cut_us],
        "versions": _versions(),
    }


def _reconciliation(r: ObservedReconciliation, t0_us: int) -> dict[str, Any]:
    return {
        "query": r.query,
        "replica": r.replica,
        "start": round((r.start_us - t0_us) / 1e6, 3),
        "end": round((r.end_us - t0_us) / 1e6, 3),
        "rows": r.rows,
        "buckets": r.buckets,
        "engine": r.engine,
        "jobs": r.spark_jobs,
        "failed": r.failed,
        "seconds": round((r.end_us - r.start_us) / 1e6, 3),
    }


def _versions() -> dict[str, str]:
    names = ("borealis-py", "pyspark", "confluent-kafka", "kafka-python", "duckdb", "pyarrow", "pandas")
    return {"python": platform.python_version(), **{n: version(n) for n in names}}


def _promises(facts: Facts, r: dict[str, Any]) -> Iterator[tuple[str, bool, str]]:
    bound = r["max_added_delay_s"] <= facts.threshold_s and not r["buckets_without_any_result"]
    yield "every bucket has a result within X", bound, f"{r['max_added_delay_s']:.3f} s of {facts.threshold_s:g} s"
    seen = r["tentative_results"] > 0 and r["tentative_content_right"]
    yield "tentative results were seen, and right", seen, f"{r['tentative_results']} rows"
    yield "nothing partial is unlabelled", r["unlabelled_partial_results"] == 0, str(r["unlabelled_partial_results"])
    changed = r["stable_results_changed"]
    yield "no stable result changed", changed == 0, f"{changed} of {r['stable_results']}"
    wrong = [r["corrected_missing"], r["corrected_duplicated"], r["corrected_different"]]
    yield "corrected: none missing, repeated, different", not any(wrong), " / ".join(map(str, wrong))
    found = f"{r['anomalies']}, {r['unreadable_records']} records unreadable"
    yield "the checker found no anomaly", r["anomalies"] == 0, found
    yield "replicas agree bit for bit", bool(r["replicas_identical"]), str(r["replicas_identical"]).lower()
    if facts.spark:
        clean = bool(facts.audits) and all(a.clean for a in facts.audits)
        yield "audit on Spark finds no difference", clean, f"{sum(a.rows for a in facts.audits)} rows compared"
    yield _corrected_by_turns(facts, r)
    published = sum(facts.published.values())
    arrived = r["tuples_in"] == published and r["published_different"] == 0
    yield "every published tuple came in", arrived, f"{r['tuples_in']} of {published}"


def _corrected_by_turns(facts: Facts, r: dict[str, Any]) -> tuple[str, bool, str]:
    """Each replica redid the failure in its own turn, or took it over from one that had. Where: no promise, since on a
    machine that is too busy for Spark a replica goes on by itself."""
    own = {(x["query"], x["replica"]) for x in r["reconciliations"] if x["engine"] != "peer"}
    spark = {(x["query"], x["replica"]) for x in r["reconciliations"] if x["jobs"] > 0}
    taken = {(x["query"], x["replica"]) for x in r["reconciliations"] if x["engine"] == "peer"}
    everyone = own | taken == set(facts.story.newest) and {q for q, _ in own} == {q for q, _ in facts.story.newest}
    held = everyone and r["overlap_of_reconciliations_s"] == 0
    both = f" ({len(own & taken)} both ways)" if own & taken else ""  # a replica may take over what is left of its redo
    where = [f"{len(spark)} on Spark"] * bool(spark) + [f"{len(own - spark)} inline"] * bool(own - spark or not own)
    detail = f"{', '.join(where)}, {len(taken)} from a peer{both}, of {len(facts.story.newest)}"
    if facts.spark and (slow := sorted({why for x in r["reconciliations"] for why in x["failed"]})):
        detail += f". Spark was slow: {'; '.join(slow)}"
    return "each replica was corrected, one after the other", held, detail


def _timeline(facts: Facts) -> Timeline:
    end_s = max([float(facts.days), *((line[-1][0] - facts.t0_us) / 1e6 for line in facts.story.states.values())])
    panels = []
    for query, delays in facts.delays.items():
        points = tuple(
            PicturePoint(((d.bucket + 1) * facts.bucket_us - facts.t0_us) / 1e6, d.added_us / 1e6, d.kind)
            for d in delays.buckets
        )
        keys = [key for key in sorted(facts.story.states) if key[0] == query]
        bands = tuple(_band(facts, key, end_s) for key in keys)
        panels.append(PicturePanel(query, points, bands, _strip(facts) if query == LOOKED_UP else None))
    cut = tuple((t - facts.t0_us) / 1e6 for t in facts.cut_us)
    title = f"{facts.source.upper()} cut off for {cut[1] - cut[0]:.0f} s, threshold {facts.threshold_s:g} s"
    return Timeline(title, tuple(panels), facts.threshold_s, facts.source.upper(), (cut[0], cut[1]), end_s)


def _strip(facts: Facts) -> Strip:
    """The weather that the very late flights had."""
    width = facts.bucket_us / 1e6
    worst = sight_of(facts.very_late, facts.bucket_us).worst
    cells = tuple(
        Cell(at, at + width, miles < POOR_MILES, f"very late flights in {miles:g} miles of visibility")
        for at, miles in worst
    )
    return Strip("visibility", f"visibility < {POOR_MILES:g} miles", cells)


def _band(facts: Facts, key: tuple[str, int], end_s: float) -> Band:
    changes = [((at - facts.t0_us) / 1e6, state) for at, state in facts.story.states[key]]
    changes = [(max(0.0, at), state) for at, state in changes]
    jobs = tuple(
        PicturedJob(
            (s.at_wall_us - facts.t0_us) / 1e6 - s.redo.seconds,
            (s.at_wall_us - facts.t0_us) / 1e6,
            s.redo.rows,
            s.redo.engine,
        )
        for r in facts.story.reconciliations
        if (r.query, r.replica) == key
        for s in r.jobs
        if s.redo is not None
    )
    return Band(f"replica {key[1]}", spans(changes, end_s), jobs)
