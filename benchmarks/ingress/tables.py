"""The report of `make bench NAME=ingress`. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.ingress.delay import RATE
from benchmarks.ingress.figures import BothWays, Catching, CopyFigures, KilledFigures
from benchmarks.report.goals import published
from benchmarks.report.outcome import Curve, Outcome, Panel
from borealis_py.bench.figures import Percentiles, percentiles
from borealis_py.demo.measure import percentile

MORE_P50_MS, MORE_P99_MS = 5.0, 25.0
LEAST = {"json": 0.35, "avro": 0.15}
TENTATIVE_MOST = 0.03
COLUMNS = ["", "found>", "goal>", ""]
CURVE = (1, 5, 10, 20, 30, 40, 50, 60, 70, 80, 90, 95, 99)


@dataclass(frozen=True, slots=True)
class Goal:
    """A line of the table. `met`: None: no goal."""

    what: str
    found: str
    goal: str = ""
    met: bool | None = None

    @property
    def cells(self) -> list[str]:
        """Of the table."""
        return [self.what, self.found, self.goal, "" if self.met is None else "met" if self.met else "MISSED"]


def outcome(
    delays: Sequence[BothWays],
    copies: Sequence[CopyFigures],
    catching: Catching,
    sparse: Catching,
    killed: KilledFigures | None,
) -> Outcome:
    """The whole report. `killed`: None: none were killed."""
    ours, plain = _of_runs([run.ours.delays_us for run in delays]), _of_runs([run.plain.delays_us for run in delays])
    goals = [
        *_delay_goals(delays, ours, plain),
        *(goal for copy in copies for goal in _copy_goals(copy)),
        *_catching_goals(catching),
        *_catching_goals(sparse),
        *(() if killed is None else _killed_goals(killed)),
    ]
    missed = [goal.what for goal in goals if goal.met is False]
    ratios = {"our publisher's p50 to a plain topic's": ours.p50_ms / plain.p50_ms}
    for copy in copies:
        ratios[f"copying {copy.form}, rows/s to the hand loop's"] = copy.ratio
        ratios[f"copying {copy.form}, rows a CPU second to the hand loop's"] = copy.cpu_ratio
    ratios["full topics: share of rows counted"] = catching.counted / sum(catching.rows)
    ratios["full topics: rows/s with few rows a second to those with many"] = sparse.rows_per_s / catching.rows_per_s
    return Outcome(
        name="ingress",
        title="Topics that others write: delay, copying, catching up, and ingresses that are killed",
        published=published("ingress"),
        setup=(
            f"Broker, replicas, ingresses, producers and readers share the machine. Delay: {RATE} rows/s, lateness 0, "
            "the broker's timestamps, each bucket of 100 ms from its end to the live subscriber, the same rows by our "
            f"publisher and into a plain topic in turn, medians of {len(delays)} runs' percentiles each. Copying: one "
            "full partition, from the first row in the source to the last; the hand loop (raw_loop.py) decodes with "
            "orjson or fastavro and keeps sums; Avro by a writer schema, since a registry is asked once a schema. Full "
            "topics, with many rows a second and with 900: 60, 30 and 10% of the rows over 100, 60 and 30% of the "
            "time, two replicas, X = 3 s. Kills: kill -9 of the owner, restarted before the next."
        ),
        worse=f"Missed: {', '.join(missed)}." if missed else "No goal is missed.",
        columns=COLUMNS,
        rows=[goal.cells for goal in goals],
        ratios=ratios,
        data={
            "delay": {"ours": asdict(ours), "plain": asdict(plain)},
            "copying": [{**asdict(copy), "ratio": copy.ratio, "cpu_ratio": copy.cpu_ratio} for copy in copies],
            **{
                name: {key: value for key, value in asdict(one).items() if key != "fronts"}
                for name, one in (("catching", catching), ("sparse", sparse))
            },
            "killed": None if killed is None else asdict(killed),
        },
        panels=list(_panels(delays, copies, catching, killed)),
    )


def _of_runs(delays_us: Sequence[list[int]]) -> Percentiles:
    """Medians of the runs' percentiles."""
    each = [percentiles(run) for run in delays_us]
    p50_ms, p99_ms, max_ms = (median(getattr(p, name) for p in each) for name in ("p50_ms", "p99_ms", "max_ms"))
    return Percentiles(sum(p.count for p in each), p50_ms, p99_ms, max_ms)


def _delay_goals(delays: Sequence[BothWays], ours: Percentiles, plain: Percentiles) -> Iterator[Goal]:
    for name, most in (("p50", MORE_P50_MS), ("p99", MORE_P99_MS)):
        a, b = getattr(ours, f"{name}_ms"), getattr(plain, f"{name}_ms")
        found = f"{b - a:+.1f} ms: {b:.1f} beside {a:.1f}"
        yield Goal(f"plain topic to result, {name} above our publisher", found, f"<= {most:g} ms", b - a <= most)
    each = [figures for run in delays for figures in (run.ours, run.plain)]
    late, tentative = sum(run.late for run in each), sum(run.tentative for run in each)
    yield Goal("rows late, buckets tentative, in all runs", f"{late}, {tentative}")


def _copy_goals(copy: CopyFigures) -> Iterator[Goal]:
    rates = [max(run.events_per_s for run in copy.loops), median(run.events_per_s for run in copy.copies)]
    what = f"copying {copy.form}, {copy.record_bytes:.0f} B a record"
    found = f"{copy.ratio:.2f}: {rates[1]:,.0f} of {rates[0]:,.0f} rows/s"
    yield Goal(f"{what}, of the hand loop", found, f">= {LEAST[copy.form]}", copy.ratio >= LEAST[copy.form])
    cpu_us = median(run.cpu_s for run in copy.copies) / copy.rows * 1e6
    yield Goal(f"{what}, CPU", f"{cpu_us:.1f} us a row, {copy.cpu_ratio:.2f} of the hand loop's rows a CPU second")


def _catching_goals(c: Catching) -> Iterator[Goal]:
    what = f"{sum(c.rows):,} rows of {c.spans_s[0]} s in three full topics"
    yield Goal(f"{what}: dropped", f"{c.dropped} ({c.dead} dead letters)", "0", c.dropped == 0)
    yield Goal(f"{what}: tentative buckets", str(c.tentative), "0", c.tentative == 0)
    lead = f"{c.lead_s:.2f} s" if c.lead_s <= c.step_s else f"{c.lead_s:.6g} s"  # not "1.00 s, MISSED"
    yield Goal(f"{what}: ahead of the slowest", lead, f"<= {c.step_s:.3g} s", c.lead_s <= c.step_s)
    yield Goal(f"{what}: all counted after", f"{c.seconds:.1f} s: {c.rows_per_s:,.0f} rows/s")


def _killed_goals(k: KilledFigures) -> Iterator[Goal]:
    what = f"ingress killed {k.kills} times"
    yield Goal(
        f"{what}: lost, repeated of {k.sent:,} rows", f"{k.missing}, {k.repeated}", "0, 0", not k.missing + k.repeated
    )
    yield Goal(f"{what}: late by the broker's own stamp", f"{k.late} dead letters")
    few = k.with_tentative <= TENTATIVE_MOST * k.kills and not k.unlabelled
    goal = f"<= {TENTATIVE_MOST:.0%}, labelled"
    yield Goal(f"{what}: with tentative results", f"{k.with_tentative}, {k.unlabelled} buckets unlabelled", goal, few)
    gaps = sorted(round(ms * 1e3) for ms in k.gaps_ms)
    p50, p99 = (percentile(gaps, p) / 1e3 for p in (50, 99))
    yield Goal(f"{what}: live view silent", f"p50 {p50:.0f}, p99 {p99:.0f}, longest {gaps[-1] / 1e3:.0f} ms")


def _panels(
    delays: Sequence[BothWays], copies: Sequence[CopyFigures], catching: Catching, killed: KilledFigures | None
) -> Iterator[Panel]:
    ways = {
        "our publisher": [run.ours.delays_us for run in delays],
        "plain topic": [run.plain.delays_us for run in delays],
    }
    curves = [
        Curve(
            label=label, x=[float(p) for p in CURVE], y=[median(percentile(us, p) / 1e3 for us in runs) for p in CURVE]
        )
        for label, runs in ways.items()
    ]
    yield Panel(title="From a bucket's end to its result", x="percentile", y="ms", curves=curves)
    rates = {
        "hand loop": [max(run.events_per_s for run in copy.loops) for copy in copies],
        "ingress": [median(run.events_per_s for run in copy.copies) for copy in copies],
    }
    bars = [
        Curve(label=label, x=[float(i) for i in range(len(copies))], y=[rate / 1e3 for rate in found], style="bars")
        for label, found in rates.items()
    ]
    what = ", ".join(f"{i}: {copy.form}" for i, copy in enumerate(copies))
    yield Panel(title="Rows a second", x=what, y="thousand rows/s", curves=bars)
    fronts = [
        Curve(label=f"{rows:,} rows over {span} s", x=[x for x, _ in line], y=[y for _, y in line])
        for rows, span, line in zip(catching.rows, catching.spans_s, catching.fronts, strict=True)
    ]
    yield Panel(
        title="Full topics: how far each is copied", x="seconds", y="stime, s since the first row", curves=fronts
    )
    if killed is not None:
        gaps = Curve(label="gap", x=[float(n + 1) for n in range(killed.kills)], y=killed.gaps_ms, style="points")
        yield Panel(title="Live view silent around each kill", x="kill", y="ms", curves=[gaps])
