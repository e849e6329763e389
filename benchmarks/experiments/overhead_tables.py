"""The report of `make bench NAME=overhead`. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import fmean, median, pstdev

from benchmarks.load.evenly import EVERY_US
from benchmarks.measure.loop.closing import THRESHOLD_S, Closed
from benchmarks.measure.loop.stalls import CHECKPOINT_US, Held
from benchmarks.report.outcome import Curve, Outcome, Panel
from borealis_py.bench.figures import percentiles
from borealis_py.protocol.settings import Timing

MS = 1_000
SILENT_MS = 400
"""The goal: at most so long may pass without the end of a turn or a heartbeat."""
PUBLISHED = (
    "DPC (SIGMOD 2005; figures not recovered): against a plain union a tuple's latency grows linearly with the sum of "
    "bucket size and boundary interval, on average by half of it, at most by all of it and a constant; a checkpoint of "
    "up to 2 500 tuples takes under 0.65 ms of processor time, half of it for markers (axis of micro3). A window of "
    "1 000 000 keys, at 83be9b7: 1.1 s in one turn, 2.4 s as JSON. Goal: no 400 ms without the end of a turn or a "
    "heartbeat, results handed over within X."
)
COLUMNS = [
    "bucket ms>",
    "boundary every ms>",
    "rows>",
    "mean ms>",
    "p50 ms>",
    "p99 ms>",
    "longest ms>",
    "past the boundary: p50 ms>",
    "p99 ms>",
    "plain union: p50 ms>",
    "p99 ms>",
    "replica CPU %>",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One run. `said_ms`: boundary interval, a multiple of the bucket width. `seconds`: after the start-up phase, which
    does not count.
    """

    width_ms: int
    said_ms: int
    seconds: int
    run: int = 1
    startup_s: float = 2.0

    @property
    def app(self) -> str:
        """Its name."""
        return f"overhead-{self.width_ms}-{self.said_ms}-{self.run}"

    @property
    def said_us(self) -> int:
        return self.said_ms * MS

    @property
    def length_s(self) -> float:
        """From the first row to the last."""
        return self.startup_s + self.seconds

    def said_at(self, bucket: int) -> int:
        """Wall time of the boundary that closes a bucket, microseconds."""
        return -(-(bucket + 1) * self.width_ms // self.said_ms) * self.said_us


@dataclass(slots=True)
class Came:
    """Rows by the time at which they were sent: wall times of their first arrival, and of their buckets' boundaries.

    `times`: how often each is in the corrected stream. `tentative`: those that were tentative first.
    """

    live: dict[int, int] = field(default_factory=dict)
    closes: dict[int, int] = field(default_factory=dict)
    corrected: dict[int, int] = field(default_factory=dict)
    times: Counter[int] = field(default_factory=Counter)
    tentative: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """One run: microseconds of each row from its publisher to the live subscriber, from its bucket's boundary to there,
    from its publisher to a reader of the corrected stream, and through the plain union.
    """

    setting: Setting
    live_us: list[int]
    after_us: list[int]
    corrected_us: list[int]
    plain_us: list[int]
    tentative: int
    cpu_percent: float


Group = Sequence[Passed]
"""Runs of one bucket width and boundary interval: the report has their medians."""


def outcome(found: Sequence[Passed], held: Sequence[Held], closed: Sequence[Closed], host: str) -> Outcome:
    """All of it."""
    pairs = dict.fromkeys((f.setting.width_ms, f.setting.said_ms) for f in found)
    groups = [[f for f in found if (f.setting.width_ms, f.setting.said_ms) == pair] for pair in pairs]
    return Outcome(
        name="overhead",
        title="What it costs while nothing fails: delay of a row against bucket width and boundary interval",
        published=PUBLISHED,
        setup=(
            f"Three sources of {round(1e6 / EVERY_US)} rows/s each, one node that passes them on, one replica on "
            f"host {host}; medians of {len(groups[0])} runs of {found[0].setting.seconds} s. Boundaries are at ends of "
            "buckets only, so an interval is the bucket's width, as a publisher has it, or a multiple, by `hold`; none "
            "is shorter. The plain union runs beside each: bare Kafka clients, as many hops, a record a row. "
            f"{checkpoints(held)} {ends(closed)}"
        ),
        worse=f"{worse(groups, held)} {over(closed)}".strip(),
        columns=COLUMNS,
        rows=[_row(group) for group in groups],
        ratios={
            **{k: v for group in groups for k, v in ratios(group).items()},
            **held_ratios(held),
            **closed_ratios(closed),
        },
        data={
            "host": host,
            "runs": [_told(each) for each in found],
            "checkpoints": [asdict(h) for h in held],
            "closed": [asdict(c) for c in closed],
        },
        panels=[*_panels(groups, held), _ends_panel(closed)],
    )


def middle(group: Group, of: Callable[[Passed], float]) -> float:
    """Median over the runs."""
    return median(of(each) for each in group)


def ratios(group: Group) -> dict[str, float]:
    """Of the same runs: what boundary and plain union take in the middle, to what a row takes; and of that alone which
    is not waiting for the boundary.
    """
    setting = group[0].setting
    name = f"bucket {setting.width_ms} ms, boundary every {setting.said_ms} ms"
    plain = middle(group, lambda f: percentiles(f.plain_us).p50_ms)
    return {
        f"{name}: half the interval and the plain union / a row, p50": (setting.said_ms / 2 + plain)
        / middle(group, lambda f: percentiles(f.live_us).p50_ms),
        f"{name}: plain union / past the boundary, p50": plain
        / middle(group, lambda f: percentiles(f.after_us).p50_ms),
    }


def held_ratios(held: Sequence[Held]) -> dict[str, float]:
    """Relative to the time that a turn may take, so that a few milliseconds more on a busy machine do not matter."""
    turn_ms = Timing().turn_us / MS
    return {
        f"{h.keys:,} keys: {turn_ms:g} ms / that and the longest turn beside a checkpoint": turn_ms
        / (turn_ms + h.beside_ms)
        for h in held
    }


def closed_ratios(closed: Sequence[Closed]) -> dict[str, float]:
    """Relative to the goal, likewise."""
    return {
        f"{c.keys:,} keys: {SILENT_MS} ms / that and the longest silence of a window's end": SILENT_MS
        / (SILENT_MS + c.silent_ms)
        for c in closed
    }


def ends(closed: Sequence[Closed]) -> str:
    """What ends of windows do, in words."""
    told = [
        f"{c.keys:,} keys: longest turn {c.turn_ms:,.0f} ms, longest time without the end of a turn or a heartbeat "
        f"{c.silent_ms:,.0f} ms, without a heartbeat {c.beat_ms:,.0f} ms, live results handed to Kafka after "
        f"{c.handed_ms:,.0f} and corrected ones committed after {c.corrected_ms:,.0f} ms"
        for c in closed
    ]
    return f"The end of a window with one result a key, X = {THRESHOLD_S} s: " + "; ".join(told) + "."


def over(closed: Sequence[Closed]) -> str:
    """What ends of windows cost, and which miss the goals."""
    late = [f"with {c.keys:,} keys live results were handed over later than X" for c in closed if not c.within]
    silent = [
        f"with {c.keys:,} keys a replica was silent for {c.silent_ms:,.0f} ms (goal: {SILENT_MS})"
        for c in closed
        if c.silent_ms > SILENT_MS
    ]
    most = max(closed, key=lambda c: c.keys)
    said = f"a window of {most.keys:,} keys is committed after {most.corrected_ms / 1000:.1f} s"
    return f"At a window's end: {', '.join([said, *late, *silent])}."


def checkpoints(held: Sequence[Held]) -> str:
    """The checkpoint measurements in words: the table is about delays."""
    told = [
        f"{h.keys:,} keys: {h.count} of {h.bytes / 1e6:,.1f} MB, durable in {h.durable_ms:,.0f} ms, of that "
        f"{h.written_ms:,.0f} ms writing; longest turn until then {h.beside_ms:.1f} ms (once {h.worst_ms:.1f}), of "
        f"others p50 {h.turn_ms:.1f} and p99 {h.turn_p99_ms:.1f} ms"
        for h in held
    ]
    return f"Checkpoints every {CHECKPOINT_US / 1e6:g} s, medians: " + "; ".join(told) + "."


def worse(groups: Sequence[Group], held: Sequence[Held]) -> str:
    """What it costs, according to the measurement."""
    said = []
    for group in groups:
        setting = group[0].setting
        if setting.width_ms == setting.said_ms:
            over = middle(group, lambda f: percentiles(f.after_us).p50_ms - percentiles(f.plain_us).p50_ms)
            said.append(f"{over:.1f} ms at {setting.width_ms} ms")
    early = sum(f.tentative for group in groups for f in group)
    late = f"; {early} rows came tentative first: the machine did not keep up" if early else ""
    largest = held[-1]
    return (
        f"Beyond waiting for its boundary a row takes longer than through the plain union (p50, by bucket): "
        f"{', '.join(said)}. The whole state is written at each checkpoint: with {largest.keys:,} keys the longest "
        f"turn until that is done takes {largest.beside_ms:.1f} ms, half of the others at most {largest.turn_ms:.1f} ms"
        f"{late}."
    )


def _row(group: Group) -> list[str]:
    setting = group[0].setting
    live = [_middle_of(group, "live_us", p) for p in ("p50_ms", "p99_ms", "max_ms")]
    rest = [_middle_of(group, way, p) for way in ("after_us", "plain_us") for p in ("p50_ms", "p99_ms")]
    return [
        str(setting.width_ms),
        str(setting.said_ms),
        str(sum(len(f.live_us) for f in group)),
        f"{middle(group, lambda f: fmean(f.live_us)) / MS:.1f}",
        *(f"{ms:.1f}" for ms in (*live, *rest)),
        f"{middle(group, lambda f: f.cpu_percent):.0f}",
    ]


def _middle_of(group: Group, way: str, percentile: str) -> float:
    """Milliseconds."""
    return middle(group, lambda each: float(getattr(percentiles(getattr(each, way)), percentile)))


def _told(found: Passed) -> dict[str, object]:
    """Percentiles of a run; its rows are too many."""
    ways = {"live": found.live_us, "past_boundary": found.after_us, "corrected": found.corrected_us}
    each = {
        way: {**asdict(percentiles(us)), "mean_ms": fmean(us) / MS, "deviation_ms": pstdev(us) / MS}
        for way, us in {**ways, "plain_union": found.plain_us}.items()
    }
    rest = {"tentative": found.tentative, "cpu_percent": found.cpu_percent}
    return {"setting": asdict(found.setting), **each, **rest}


def _panels(groups: Sequence[Group], held: Sequence[Held]) -> list[Panel]:
    by_width = [g for g in groups if g[0].setting.width_ms == g[0].setting.said_ms]
    narrow = min(g[0].setting.width_ms for g in groups)
    by_interval = [g for g in groups if g[0].setting.width_ms == narrow]
    panels = [
        Panel(title=title, x=x, y="ms from publisher to live subscriber", curves=_curves(some))
        for title, x, some in (
            ("Boundaries at each bucket's end", "bucket width (ms)", by_width),
            (f"Buckets of {narrow} ms", "between boundaries (ms)", by_interval),
        )
    ]
    keys = [float(max(1, h.keys)) for h in held]
    curves = {
        "until durable": [h.durable_ms for h in held],
        "longest turn until then": [h.beside_ms for h in held],
        "turns without one, p99": [h.turn_p99_ms for h in held],
    }
    shown = [Curve(label=label, x=keys, y=y) for label, y in curves.items()]
    return [
        *panels,
        Panel(title="Checkpoints", x="keys in the state", y="ms", curves=shown, log_x=True, log_y=True),
        Panel(
            title="Checkpoints",
            x="keys in the state",
            y="bytes",
            curves=[Curve(label="bytes", x=keys, y=[float(h.bytes) for h in held])],
            log_x=True,
            log_y=True,
        ),
    ]


def _ends_panel(closed: Sequence[Closed]) -> Panel:
    keys = [float(c.keys) for c in closed]
    curves = {
        "longest turn": [c.turn_ms for c in closed],
        "no turn's end, no heartbeat": [c.silent_ms for c in closed],
        "no heartbeat": [c.beat_ms for c in closed],
        "until handed over": [c.handed_ms for c in closed],
        "until corrected": [c.corrected_ms for c in closed],
    }
    shown = [Curve(label=label, x=keys, y=y) for label, y in curves.items()]
    return Panel(title="The end of a window", x="keys", y="ms", curves=shown, log_x=True, log_y=True)


def _curves(groups: Sequence[Group]) -> list[Curve]:
    groups = sorted(groups, key=lambda g: g[0].setting.said_ms)
    x = [float(g[0].setting.said_ms) for g in groups]
    shown: list[tuple[str, Callable[[Passed], float]]] = [
        ("mean", lambda f: fmean(f.live_us) / MS),
        ("p99", lambda f: percentiles(f.live_us).p99_ms),
        ("plain union, mean", lambda f: fmean(f.plain_us) / MS),
        ("plain union, p99", lambda f: percentiles(f.plain_us).p99_ms),
    ]
    return [Curve(label=label, x=x, y=[middle(g, of) for g in groups]) for label, of in shown]
