"""What `make bench NAME=ingress` finds, as values. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from benchmarks.ingress.apps import Form
from borealis_py.bench.figures import RunFigures

STEP_S, STEP_ROWS = (1.0, 10.0), 10_000
"""What A8.10 states of partitions that catch up."""


@dataclass(frozen=True, slots=True)
class WayDelays:
    """One run of one query: microseconds from each bucket's end to the live subscriber. `late`: rows that came too late
    for their bucket; `tentative`: buckets that did not wait."""

    delays_us: list[int]
    late: int
    tentative: int


@dataclass(frozen=True, slots=True)
class BothWays:
    """A run of each way, one after the other: together they would wait for each other's turns."""

    ours: WayDelays
    plain: WayDelays


@dataclass(frozen=True, slots=True)
class CopyFigures:
    """Copying one topic: the hand loop before and after, and the ingress in between."""

    form: Form
    rows: int
    record_bytes: float
    loops: tuple[RunFigures, ...]
    copies: tuple[RunFigures, ...]

    @property
    def ratio(self) -> float:
        """Rows a second, of the median run to the faster hand loop."""
        return median([run.events_per_s for run in self.copies]) / max(run.events_per_s for run in self.loops)

    @property
    def cpu_ratio(self) -> float:
        """Rows a second of processor time, likewise."""
        return min(run.cpu_s for run in self.loops) / median([run.cpu_s for run in self.copies])


@dataclass(frozen=True, slots=True)
class Catching:
    """Topics that were full before the app began. `rows` and `spans_s`: of each topic; `counted`: rows in the results;
    `dead`: dead letters; `tentative`: buckets; `lead_s`: how far in stime a topic ran ahead of the slowest one with a
    backlog, by their logs' ends at one moment; `fronts`: of each topic, (seconds, stime in seconds since the start)."""

    rows: list[int]
    spans_s: list[int]
    seconds: float
    counted: int
    dead: int
    tentative: int
    lead_s: float
    fronts: list[list[tuple[float, float]]] = field(default_factory=list)

    @property
    def dropped(self) -> int:
        """Rows that are in no result."""
        return sum(self.rows) - self.counted

    @property
    def rows_per_s(self) -> float:
        """Until all were counted."""
        return sum(self.rows) / self.seconds

    @property
    def step_s(self) -> float:
        """How far a topic may run ahead while the two longest ones have a backlog."""
        per_s = sum(rows / span for rows, span in list(zip(self.rows, self.spans_s, strict=True))[:2])
        return min(max(STEP_ROWS / per_s, STEP_S[0]), STEP_S[1])


@dataclass(frozen=True, slots=True)
class KilledFigures:
    """Owners that were killed. `gaps_ms`: of each kill, the longest silence of the live view until results flow again;
    `with_tentative`: after how many kills a result was tentative; `unlabelled`: tentative buckets that name no missing
    source; `sent`: rows written; `late`: dead letters, since a broker appends a row up to milliseconds after
    it has stamped it; `rows`: in the corrected stream; `repeated`, `missing`: there, dead letters apart."""

    gaps_ms: list[float]
    with_tentative: int
    unlabelled: int
    sent: int
    rows: int
    repeated: int
    missing: int
    late: int = 0

    @property
    def kills(self) -> int:
        return len(self.gaps_ms)
