"""What a soak measures and how it judges it: memory, threads, files and Kafka clients of the second half against the
first. Pure, but for `take`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import psutil

BOUND = 0.05
"""The second half may differ from the first by so much."""
OURS = ("replicas", "publishers", "supervisor")
"""Groups that are judged. The broker, which is not ours, is shown."""
WARM = 1 / 12
"""Share of the run that nothing is measured in: ten minutes of two hours."""
KINDS = ("memory_kb", "threads", "files", "clients")
CLIENT_THREAD = "rdk:main"
"""librdkafka has one such thread for each client."""


@dataclass(frozen=True, slots=True)
class Figures:
    """Of some processes: proportional set size, threads, open files, clients of Kafka."""

    memory_kb: int = 0
    threads: int = 0
    files: int = 0
    clients: int = 0

    def plus(self, other: Figures) -> Figures:
        return Figures(*(getattr(self, kind) + getattr(other, kind) for kind in KINDS))


@dataclass(frozen=True, slots=True)
class Sample:
    """All groups of processes at one time, when everything was well. `at_s`: since the run began."""

    at_s: float
    groups: Mapping[str, Figures]


@dataclass(frozen=True, slots=True)
class Drift:
    """One kind of one group: medians of both halves, and by how much they differ."""

    group: str
    kind: str
    first: float
    second: float

    @property
    def change(self) -> float:
        return self.second / self.first - 1 if self.first else float(self.second > 0)

    @property
    def good(self) -> bool:
        return self.group not in OURS or abs(self.change) <= BOUND

    def __str__(self) -> str:
        return f"{self.group}: {self.kind} {self.first:.0f}, then {self.second:.0f} ({self.change:+.1%})"


def drifts(samples: Sequence[Sample], run_s: float) -> list[Drift]:
    """First half, without its beginning, against the second. Raises ValueError when a half has no sample."""
    first = [s for s in samples if run_s * WARM <= s.at_s < run_s / 2]
    second = [s for s in samples if s.at_s >= run_s / 2]
    if not first or not second:
        raise ValueError(f"{len(first)} samples in the first half and {len(second)} in the second: nothing to compare")
    groups = sorted({group for s in (*first, *second) for group in s.groups})
    return [
        Drift(group, kind, *(_median(half, group, kind) for half in (first, second)))
        for group in groups
        for kind in KINDS
        if any(getattr(s.groups.get(group, Figures()), kind) for s in (*first, *second))
    ]


def _median(half: Sequence[Sample], group: str, kind: str) -> float:
    return float(median(getattr(s.groups.get(group, Figures()), kind) for s in half))


def take(processes: Iterable[psutil.Process], below: bool = True) -> Figures:
    """Of these and, with `below`, all below them."""
    total = Figures()
    for process in processes:
        with suppress(psutil.Error):
            for one in [process, *(process.children(recursive=True) if below else ())]:
                with suppress(psutil.Error, OSError):
                    total = total.plus(_of(one))
    return total


def _of(process: psutil.Process) -> Figures:
    task = Path(f"/proc/{process.pid}/task")
    names = [(thread / "comm").read_text().strip() for thread in task.iterdir()]
    return Figures(process.memory_full_info().pss // 1024, len(names), process.num_fds(), names.count(CLIENT_THREAD))
