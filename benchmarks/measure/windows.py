"""The results of windows, as readers received them: what came first, how late, and whether the final ones are right."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from borealis_py.bench import events
from borealis_py.bench.events import BUCKET_US, WINDOW_US, Totals
from borealis_py.client.subscriber import LiveChange
from borealis_py.demo.watch import SPAN_MAX
from tests.harness.event_feeders import SOURCES, FeedPlan
from tests.harness.readers import Got, Heard

TENTATIVE = "TENTATIVE"
FINAL = ("STABLE", "BOUNDARY")
PHASES = ("before", "during", "after")


@dataclass(frozen=True, slots=True, kw_only=True)
class Finals:
    """Results of one reader compared with the truth. `counted`: events in them."""

    right: int
    wrong: int
    missing: int
    repeated: int
    counted: int

    @property
    def bad(self) -> int:
        return self.wrong + self.missing + self.repeated


def truth(plan: FeedPlan) -> Totals:
    """Count and sum by window and key of everything that was to be published."""
    found: Totals = {}
    for source in range(SOURCES):
        for n in range(plan.count):
            customer, amount, _, _ = events.values(n * SOURCES + source)
            key = plan.stime(source, n) // WINDOW_US * WINDOW_US, customer
            count, total = found.get(key, (0, 0.0))
            found[key] = count + 1, total + amount
    return found


def windows(plan: FeedPlan, startup_us: int) -> dict[str, list[int]]:
    """Phase -> starts of the windows that end in it. The first ones, during which code is compiled, are in none; nor is
    the last, which END closes.
    """
    found: dict[str, list[int]] = {phase: [] for phase in PHASES}
    last_us = plan.t0_us + (plan.seconds - 1) * 1_000_000
    for start in range(plan.t0_us + startup_us, last_us, WINDOW_US):
        end = start + WINDOW_US
        phase = "before" if end <= plan.silent_from_us else "during" if end <= plan.silent_until_us else "after"
        found[phase].append(start)
    return found


def live_delays(heard: Heard) -> dict[int, int]:
    """For each window, the delay of the first word that covers it."""
    found: dict[int, int] = {}
    for at_us, change in heard:
        if change.kind in (TENTATIVE, *FINAL):
            for start in windows_of(change):
                found.setdefault(start, at_us - start - WINDOW_US)
    return found


def tentative_windows(heard: Heard) -> set[int]:
    """The windows with a tentative word."""
    return {start for _, change in heard if change.kind == TENTATIVE for start in windows_of(change)}


def corrected_delays(got: Got) -> dict[int, int]:
    """For each window, the delay of its last row."""
    return {row.value["window_start"]: at_us - row.value["window_start"] - WINDOW_US for at_us, row in got}


def finals(rows: Iterable[Mapping[str, Any]], true: Totals) -> Finals:
    """Compare stable rows, however read, with the truth."""
    each = Counter[tuple[int, str]]()
    right = wrong = counted = 0
    for key, value in _results(rows):
        each[key] += 1
        counted += value[0]
        if each[key] == 1:
            right, wrong = right + (true.get(key) == value), wrong + (true.get(key) != value)
    return Finals(
        right=right,
        wrong=wrong,
        missing=len(true.keys() - each.keys()),
        repeated=each.total() - len(each),
        counted=counted,
    )


def stable_rows(heard: Heard) -> Iterator[Mapping[str, Any]]:
    """The rows that the live view reported as stable."""
    return (row for _, change in heard if change.kind in FINAL for row in change.rows)


def totals(rows: Iterable[Mapping[str, Any]]) -> Totals:
    return dict(_results(rows))


def windows_of(change: LiveChange) -> Iterator[int]:
    """Starts of the windows that end with a bucket of a change."""
    end = min(change.end, change.bucket + SPAN_MAX)
    first = -(-(change.bucket + 1) * BUCKET_US // WINDOW_US)
    return ((window - 1) * WINDOW_US for window in range(first, end * BUCKET_US // WINDOW_US + 1))


def _results(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[int, str], tuple[int, float]]]:
    return (((row["window_start"], row["customer"]), (row["n"], row["total"])) for row in rows)
