"""The effect of a silence on readers, computed from what they received and what was published. Pure.

The truth is computed here, from the plan of what was published, in the simplest way, without the product. A *word* is a
change of the live view that covers the bucket with which a window ends, so it carries that window's results. It is
*partial* if these differ from the truth, whatever its label; *labelled* if it is TENTATIVE and names a source: for a
window that reaches into the silence, the silent one.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from borealis_py.bench import events
from borealis_py.bench.events import BUCKET_US, WINDOW_US, Totals
from borealis_py.bench.figures import Percentiles, percentiles
from borealis_py.client.subscriber import LiveChange
from borealis_py.demo.measure import STARTUP_US
from borealis_py.demo.watch import SPAN_MAX, Story
from tests.harness.event_feeders import SOURCES, FeedPlan
from tests.harness.readers import Got, Heard

TENTATIVE = "TENTATIVE"
FINAL = ("STABLE", "BOUNDARY")
PHASES = ("before", "during", "after")

WindowDelays = Mapping[int, int]
"""Start of a window -> from its end to the event in question, microseconds."""
SILENT = SOURCES - 1
EDGE_US = events.BUCKET_US
"""The silence begins this long before a window's end, so that its result must wait longest."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Partials:
    """Words during a silence. `windows`: with a partial word; `words`: partial ones; `labelled` of them; `tentative`:
    all tentative words of those windows; `whole`: tentative words of any window that were not partial; `records`: all
    words, tentative and stable, of all windows; `finals`: stable ones of them.
    """

    windows: int
    words: int
    labelled: int
    tentative: int
    whole: int
    records: int
    finals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Healing:
    """Seconds from when the silent source began to send again; None: nothing had to be corrected, or it was not
    corrected.

    `live`: until no bucket of the live view was tentative. `corrected`: until the corrected stream had all windows that
    had been tentative. `replicas`: until the last replica was STABLE. `uncorrected`: buckets that stayed tentative.
    `engines`: how often corrections ran on each engine.
    """

    live: float | None
    corrected: float | None
    replicas: float | None
    uncorrected: int
    engines: dict[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class LostCase:
    """`rate`: events per second of all sources together. `before_s`, `after_s`: around the silence, without the
    start-up phase.
    """

    threshold_s: float
    silence_s: int
    rate: int = 900
    before_s: int = 7
    after_s: int = 7
    run: int = 1
    startup_s: float = STARTUP_US / 1e6

    @property
    def app(self) -> str:
        """Its name."""
        return f"lost-{self.threshold_us // 1000}-{self.silence_s}-{self.rate}-{self.run}"

    @property
    def threshold_us(self) -> int:
        """X."""
        return round(self.threshold_s * 1e6)

    @property
    def startup_us(self) -> int:
        return round(self.startup_s * 1e6)

    @property
    def length_s(self) -> int:
        """From the first row to the last."""
        return math.ceil(self.startup_s) + self.before_s + self.silence_s + self.after_s

    def plan(self, t0_us: int) -> FeedPlan:
        """The plan of what is published if the first row is due at `t0_us`."""
        silent_us = t0_us + (math.ceil(self.startup_s) + self.before_s) * 1_000_000 - EDGE_US
        return FeedPlan(
            rate=self.rate // SOURCES,
            t0_us=t0_us,
            seconds=self.length_s,
            silent=SILENT,
            silent_from_us=silent_us,
            silent_until_us=silent_us + self.silence_s * 1_000_000,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LostFound:
    """One case.

    Attributes:
        live, corrected: usable delay by phase. unheard: windows without a result, live or corrected, which these omit.
        published: events. dropped: those that no result of the corrected stream counts. refused: those of them that are
            dead letters or that a publisher rejected.
        burst_s: how long it took until the held-back rows were in the log.
        curve: for each window, its end relative to the beginning of the silence, live and corrected delay, all in
            seconds.
    """

    case: LostCase
    live: dict[str, Percentiles | None]
    corrected: dict[str, Percentiles | None]
    unheard: int
    published: int
    partials: Partials
    live_finals: Finals
    corrected_finals: Finals
    dropped: int
    refused: int
    healing: Healing
    burst_s: float
    curve: list[tuple[float, float, float]]


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
            for start in _windows_of(change):
                found.setdefault(start, at_us - start - WINDOW_US)
    return found


def tentative_windows(heard: Heard) -> set[int]:
    """The windows with a tentative word."""
    return {start for _, change in heard if change.kind == TENTATIVE for start in _windows_of(change)}


def corrected_delays(got: Got) -> dict[int, int]:
    """For each window, the delay of its last row."""
    return {row.value["window_start"]: at_us - row.value["window_start"] - WINDOW_US for at_us, row in got}


def by_phase(delays: WindowDelays, phases: Mapping[str, Sequence[int]]) -> dict[str, Percentiles | None]:
    """Percentiles by phase. None: no window of that phase was covered."""
    found = {phase: [delays[start] for start in starts if start in delays] for phase, starts in phases.items()}
    return {phase: percentiles(each) if each else None for phase, each in found.items()}


def unheard(delays: WindowDelays, phases: Mapping[str, Sequence[int]]) -> int:
    """Number of windows that no word covered."""
    return sum(start not in delays for starts in phases.values() for start in starts)


def partials(heard: Heard, true: Totals, plan: FeedPlan) -> Partials:
    """The words about windows before all of their input was there."""
    expected = _by_window(true)
    words, tentative = Counter[int](), Counter[int]()
    labelled = whole = finals = 0
    for _, change in heard:
        if change.kind not in (TENTATIVE, "STABLE"):
            continue
        said = _by_window(totals(change.rows))
        for start in _windows_of(change):
            tentative[start] += change.kind == TENTATIVE
            finals += change.kind != TENTATIVE
            if said.get(start, {}) != expected.get(start, {}):
                words[start] += 1
                labelled += change.kind == TENTATIVE and change.completeness < 1 and _names(change, plan, start)
            else:
                whole += change.kind == TENTATIVE
    return Partials(
        windows=len(words),
        words=words.total(),
        labelled=labelled,
        tentative=sum(tentative[start] for start in words),
        whole=whole,
        records=tentative.total() + finals,
        finals=finals,
    )


def _names(change: LiveChange, plan: FeedPlan, start: int) -> bool:
    """Whether the change names what a window that begins at `start` lacks."""
    if start < plan.silent_until_us and start + WINDOW_US > plan.silent_from_us:
        return f"s{plan.silent}" in change.missing_sources
    return bool(change.missing_sources)


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


def healing(heard: Heard, got: Got, story: Story, healed_us: int) -> Healing:
    """How long corrections took. `healed_us`: wall time at which the silent source began to send again."""
    open_buckets: set[int] = set()
    told: set[int] = set()
    done_us: int | None = None
    for at_us, change in heard:
        if change.kind == TENTATIVE:
            open_buckets.add(change.bucket)
            if done_us is None:
                told.update(_windows_of(change))
        elif change.kind in FINAL:
            replaced = {b for b in open_buckets if change.bucket <= b < change.end}
            open_buckets -= replaced
            if replaced and not open_buckets and at_us >= healed_us and done_us is None:
                done_us = at_us
    last_row = corrected_delays(got)
    late = [start + WINDOW_US + last_row[start] for start in told if start in last_row]
    stable = [_stable_again(states, healed_us) for states in story.states.values()]
    known = [at for at in stable if at is not None]
    return Healing(
        live=_since(done_us, healed_us),
        corrected=_since(max(late, default=None), healed_us),
        replicas=_since(max(known, default=None), healed_us) if len(known) == len(stable) else None,
        uncorrected=len(open_buckets),
        engines=dict(Counter(each.engine for each in story.reconciliations)),
    )


def _stable_again(states: Sequence[tuple[int, str]], since_us: int) -> int | None:
    return next((at_us for at_us, state in states if state == "STABLE" and at_us >= since_us), None)


def _since(at_us: int | None, healed_us: int) -> float | None:
    return None if at_us is None else (at_us - healed_us) / 1e6


def _windows_of(change: LiveChange) -> Iterator[int]:
    """Starts of the windows that end with a bucket of a change."""
    end = min(change.end, change.bucket + SPAN_MAX)
    first = -(-(change.bucket + 1) * BUCKET_US // WINDOW_US)
    return ((window - 1) * WINDOW_US for window in range(first, end * BUCKET_US // WINDOW_US + 1))


def _by_window(of: Totals) -> dict[int, Totals]:
    found: dict[int, Totals] = {}
    for key, value in of.items():
        found.setdefault(key[0], {})[key] = value
    return found


def _results(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[tuple[int, str], tuple[int, float]]]:
    return (((row["window_start"], row["customer"]), (row["n"], row["total"])) for row in rows)
