"""`make bench NAME=lost-input`: one of three inputs falls silent, and later sends everything at once.

Each case is a separate app on one broker: two replicas, one publisher process per source, a live subscriber and a
reader of the corrected stream. `figures` judges what they received, with the corrected stream as another Kafka
client reads it.
"""

from __future__ import annotations

import json
import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby, product
from statistics import median
from typing import Any

from benchmarks.measure.windows import (
    FINAL,
    PHASES,
    TENTATIVE,
    Finals,
    corrected_delays,
    finals,
    live_delays,
    stable_rows,
    totals,
    truth,
    windows,
    windows_of,
)
from benchmarks.report.goals import goals, published
from benchmarks.report.outcome import Curve, Outcome, Panel
from benchmarks.report.runner import ExperimentOptions
from borealis_py.bench import events
from borealis_py.bench.console import Bars
from borealis_py.bench.events import WINDOW_US, Totals
from borealis_py.bench.figures import BenchError, Percentiles, percentiles
from borealis_py.bench.stage import Stage, stage_for
from borealis_py.client.subscriber import LiveChange
from borealis_py.demo.measure import STARTUP_US
from borealis_py.demo.watch import Story
from borealis_py.log import topics
from borealis_py.verify.kafka_reader import CannotRead, read_all
from tests.harness.event_feeders import SOURCES, Fed, Feeders, FeedPlan
from tests.harness.readers import Got, Heard, Hearing

WindowDelays = Mapping[int, int]
"""Start of a window -> from its end to the event in question, microseconds."""
SILENT = SOURCES - 1
EDGE_US = events.BUCKET_US
"""The silence begins this long before a window's end, so that its result must wait longest."""


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
        for start in windows_of(change):
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


def healing(heard: Heard, got: Got, story: Story, healed_us: int) -> Healing:
    """How long corrections took. `healed_us`: wall time at which the silent source began to send again."""
    open_buckets: set[int] = set()
    told: set[int] = set()
    done_us: int | None = None
    for at_us, change in heard:
        if change.kind == TENTATIVE:
            open_buckets.add(change.bucket)
            if done_us is None:
                told.update(windows_of(change))
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


def _by_window(of: Totals) -> dict[int, Totals]:
    found: dict[int, Totals] = {}
    for key, value in of.items():
        found.setdefault(key[0], {})[key] = value
    return found


COLUMNS = [
    "events/s>",
    "X s>",
    "silent s>",
    "read at",
    *(f"{phase} ms>" for phase in PHASES),
    "labelled>",
    "wrong>",
    "dropped>",
    "per partial>",
    "per final>",
    "corrected in s>",
]

SLOW_RATE = 900
A_PARTIAL = 1.05
"""Tentative records for each partial window, at most."""
GOALS_S: dict[int, float] = {int(silence_s): most_s for silence_s, most_s in goals("lost-input").items()}
"""At most so many events a second: seconds of silence -> seconds until all is corrected."""
Key = tuple[int, float, int]
"""Rate, X and silence: the report has medians of several runs of one case."""


def outcome(found: Sequence[LostFound], host: str) -> Outcome:
    """All of it."""
    groups = grouped(found)
    return Outcome(
        name="lost-input",
        title="One of three inputs silent, then everything at once: from a window's end to its result, p50/p99/longest",
        published=published("lost-input"),
        setup=(
            f"Three topics of JSON rows, count and sum of 100 keys by second, two replicas (host {host}). Boundaries "
            "go by the rows' own times. The silence begins a tenth of a second before a window ends. Broker, replicas, "
            "publishers and readers share the machine; no peer runs here. Of fewer than 100 windows p99 is the "
            "longest. Per partial: tentative records of a window that is partial. Per final: tentative and final ones "
            "of all windows for each final one."
        ),
        worse=worse(found),
        columns=COLUMNS,
        rows=[row for key, each in groups for row in (_live_row(key, each), _corrected_row(key, each))],
        ratios={name: value for key, each in groups for name, value in ratios(key, each).items()},
        data={"host": host, "cases": [_json(each) for each in found]},
        panels=_panels(groups),
    )


def grouped(found: Iterable[LostFound]) -> list[tuple[Key, list[LostFound]]]:
    """The runs of each case, in the order of rate, X and silence."""

    def key(each: LostFound) -> Key:
        return each.case.rate, each.case.threshold_s, each.case.silence_s

    return [(k, list(runs)) for k, runs in groupby(sorted(found, key=key), key)]


def ratios(key: Key, runs: Sequence[LostFound]) -> dict[str, float]:
    """What must not get worse: shares of what is promised."""
    rate, x, silence = key
    longest = median(_longest_ms(run) for run in runs)
    healed = _middle(_corrected_s(run) for run in runs)
    all_true = sum(
        run.corrected_finals.right + run.corrected_finals.wrong + run.corrected_finals.missing for run in runs
    )
    words = sum(run.partials.words for run in runs)
    name = f"{rate}/s, X {x:g} s, silent {silence} s"
    found = {
        f"{name}: X / longest live delay": x * 1000 / longest if longest else 0.0,
        f"{name}: partial results that are labelled": sum(r.partials.labelled for r in runs) / words if words else 0.0,
        f"{name}: final results that are right": sum(r.corrected_finals.right for r in runs) / all_true,
        f"{name}: events that are counted": 1 - sum(r.dropped for r in runs) / sum(r.published for r in runs),
    }
    if healed is not None:  # at the goal or better is 1: shorter times differ by chance
        found[f"{name}: goal / time to correct"] = min(1.0, goal_s(rate, silence) / healed)
    return found


def goal_s(rate: int, silence_s: int) -> float:
    """How long corrections may take, live and in the corrected stream, after a silence of this length."""
    slowest = 0.5 + silence_s / 50
    return GOALS_S.get(silence_s, slowest) if rate <= SLOW_RATE else slowest


def _corrected_s(run: LostFound) -> float | None:
    """From the end of the silence to the last correction, whoever reads."""
    ends = [s for s in (run.healing.live, run.healing.corrected) if s is not None]
    return max(ends, default=None)


def worse(found: Sequence[LostFound]) -> str:
    """What it costs, according to the measurement."""
    beyond = [each for each in found if _longest_ms(each) > each.case.threshold_s * 1000]
    slow = [each for each in found if (_corrected_s(each) or 0.0) > _goal_s(each)]
    ahead = median(_p50(each.live["before"]) for each in found)
    while_silent = median(_p50(each.live["during"]) for each in found)
    said = (
        f"While an input is silent a result comes {while_silent:.0f} ms after its window's end instead of {ahead:.0f} "
        "(medians), and the first ones wait for X; who drops what is late goes on at once, with a state that is wrong "
        f"for good. A corrected result of the silence comes after it, as a peer's does that waits. A result waited "
        f"longer than X in {len(beyond)} of {len(found)} cases; corrections were done later than the goal in "
        f"{len(slow)}"
    )
    return said + (f": {', '.join(map(_late, slow))}." if slow else ".") + _broken(found)


def _goal_s(found: LostFound) -> float:
    return goal_s(found.case.rate, found.case.silence_s)


def _late(found: LostFound) -> str:
    case = found.case
    return (
        f"{_corrected_s(found):.2f} s after {case.silence_s} s at {case.rate:,}/s with X = {case.threshold_s:g} s "
        f"({_goal_s(found):g})"
    )


def _broken(found: Sequence[LostFound]) -> str:
    """What was promised and not kept."""
    bad = sum(each.live_finals.bad + each.corrected_finals.bad for each in found)
    unlabelled = sum(each.partials.words - each.partials.labelled for each in found)
    dropped, unheard = sum(each.dropped for each in found), sum(each.unheard for each in found)
    words, windows = (sum(getattr(each.partials, name) for each in found) for name in ("tentative", "windows"))
    said = [
        f"{bad} final results were not as they should be" if bad else "",
        f"{unlabelled} partial results were not labelled" if unlabelled else "",
        f"{dropped} events were not counted" if dropped else "",
        f"{unheard} windows had no result" if unheard else "",
        f"{words / windows:.2f} tentative records came for each partial window (goal: {A_PARTIAL})"
        if windows and words > A_PARTIAL * windows
        else "",
    ]
    return "".join(f" {each}." for each in said if each)


def _live_row(key: Key, runs: Sequence[LostFound]) -> list[str]:
    words, windows = (sum(getattr(r.partials, name) for r in runs) for name in ("words", "windows"))
    records, finals = (sum(getattr(r.partials, name) for r in runs) for name in ("records", "finals"))
    labelled, tentative = (sum(getattr(r.partials, name) for r in runs) for name in ("labelled", "tentative"))
    return [
        *_named(key),
        "live",
        *_phases([run.live for run in runs]),
        f"{labelled} of {words}",
        str(sum(run.live_finals.bad for run in runs)),
        "",
        f"{tentative / windows:.2f}" if windows else "",
        f"{records / finals:.2f}" if finals else "",
        _seconds(_middle(run.healing.live for run in runs)),
    ]


def _corrected_row(key: Key, runs: Sequence[LostFound]) -> list[str]:
    return [
        *_named(key),
        "corrected",
        *_phases([run.corrected for run in runs]),
        "",
        str(sum(run.corrected_finals.bad for run in runs)),
        str(sum(run.dropped for run in runs)),
        "",
        "",
        _seconds(_middle(run.healing.corrected for run in runs)),
    ]


def _named(key: Key) -> list[str]:
    rate, x, silence = key
    return [f"{rate:,}", f"{x:g}", str(silence)]


def _phases(delays: Sequence[dict[str, Percentiles | None]]) -> list[str]:
    return [_percentiles([each[phase] for each in delays]) for phase in PHASES]


def _percentiles(runs: Sequence[Percentiles | None]) -> str:
    """Medians of the runs."""
    there = [each for each in runs if each is not None]
    if not there:
        return "none"
    return "/".join(f"{median(getattr(p, name) for p in there):.0f}" for name in ("p50_ms", "p99_ms", "max_ms"))


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _middle(values: Iterable[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return median(there) if there else None


def _p50(of: Percentiles | None) -> float:
    return 0.0 if of is None else of.p50_ms


def _longest_ms(found: LostFound) -> float:
    return max((p.max_ms for p in found.live.values() if p is not None), default=0.0)


def _json(found: LostFound) -> dict[str, Any]:
    told = asdict(found)
    told["healing_s"] = told.pop("healing")
    told["curve_s"] = told.pop("curve")
    return told


def _panels(groups: Sequence[tuple[Key, list[LostFound]]]) -> list[Panel]:
    """The longest silence of each X at the first rate, and how long corrections took."""
    rate = groups[0][0][0]
    first = [(key, runs) for key, runs in groups if key[0] == rate]
    xs = sorted({x for (_, x, _), _ in first})
    found = [_over_time(x, max((k for k in first if k[0][1] == x), key=lambda k: k[0][2])[1][0]) for x in xs]
    times = [_healing_curve(name, value, xs_of) for name, value, xs_of in _healings(groups)]
    bound = "silence, s", "from its end to the end of corrections, s"
    return [*found, Panel(title="Corrections", x=bound[0], y=bound[1], curves=times)]


def _over_time(x: float, found: LostFound) -> Panel:
    at = [end for end, _, _ in found.curve]
    curves = [
        Curve(label="live", x=at, y=[live for _, live, _ in found.curve], style="points"),
        Curve(label="corrected", x=at, y=[corrected for _, _, corrected in found.curve], style="points"),
    ]
    return Panel(
        title=f"X = {x:g} s, silent for {found.case.silence_s} s",
        x="end of the window past the beginning of the silence, s",
        y="until its result, s",
        curves=curves,
        bound=x,
        log_y=True,
    )


Healed = Callable[[LostFound], float | None]


def _healings(
    groups: Sequence[tuple[Key, list[LostFound]]],
) -> list[tuple[str, Healed, list[tuple[Key, list[LostFound]]]]]:
    found: list[tuple[str, Healed, list[tuple[Key, list[LostFound]]]]] = []
    for rate, x in dict.fromkeys(key[:2] for key, _ in groups):
        mine = [(key, runs) for key, runs in groups if key[:2] == (rate, x)]
        found.append((f"live, X = {x:g} s, {rate:,}/s", lambda run: run.healing.live, mine))
        found.append((f"corrected, X = {x:g} s, {rate:,}/s", lambda run: run.healing.corrected, mine))
    return found


def _healing_curve(label: str, of: Healed, groups: Sequence[tuple[Key, list[LostFound]]]) -> Curve:
    points = [(float(key[2]), _middle(of(run) for run in runs)) for key, runs in groups]
    there = [(silence, value) for silence, value in points if value is not None]
    return Curve(label=label, x=[silence for silence, _ in there], y=[value for _, value in there])


REPLICAS = 2
FAST_RATE = 10_000
LEAD_S = 3
"""Time from scheduling the first row until it is due: the readers open their streams in it."""


def cases(size: str) -> list[LostCase]:
    """The cases, the shortest first."""
    xs = (0.5, 3.0)
    if size == "short":
        return [LostCase(threshold_s=x, silence_s=15, before_s=4, after_s=4) for x in xs]
    if size == "full":
        grid = product((900, FAST_RATE), (1, 2, 3), xs, (15, 30, 60))
        return [LostCase(threshold_s=x, silence_s=s, rate=rate, run=run) for rate, run, x, s in grid]
    slow = (LostCase(threshold_s=x, silence_s=s) for x, s in product(xs, (15, 30, 60)))
    return [*slow, LostCase(threshold_s=max(xs), silence_s=60, rate=FAST_RATE, before_s=3, after_s=3)]


def run(options: ExperimentOptions, bars: Bars) -> Outcome:
    """Measure every case.

    Raises:
        BenchError: a case could not be measured.
        BrokerError, LaunchError, LogError, SparkUnavailable: something to be measured did not start.
    """
    with stage_for(options.work, bars) as stage:
        found = [measure(stage, case, options.host, bars) for case in cases(options.size)]
    return outcome(found, options.host)


def measure(stage: Stage, case: LostCase, host: str, bars: Bars) -> LostFound:
    """One case, on a separate app, which is deleted at the end.

    Raises:
        BenchError: a publisher or a reader failed, or the streams did not come to their end.
        LaunchError: a replica did not start.
    """
    what = f"X = {case.threshold_s:g} s, {case.silence_s} s of silence, {case.rate:,} events/s"
    bars.say(f"starting {REPLICAS} replicas: {what}")
    running = stage.start_replicas(
        stage.describe(events.app(case.app, SOURCES, REPLICAS, f"{case.threshold_us // 1000}ms")), host
    )
    stage.wait_ready(running)
    feeders = Feeders(stage, case.app)
    feeders.wait_ready()
    with Hearing(stage.log, running.state, events.QUERY) as hearing, bars.bar(what, case.length_s) as at:
        plan = case.plan((math.ceil(time.time()) + LEAD_S) * 1_000_000)
        feeders.begin(plan)
        hearing.to_the_end(feeders.processes, plan.t0_us, case.length_s, at)
    running.processes.stop()
    found = judge(stage, case, plan, feeders.fed(), hearing)
    stage.forget(running.state)
    return found


def judge(stage: Stage, case: LostCase, plan: FeedPlan, fed: Sequence[Fed], hearing: Hearing) -> LostFound:
    """Judge the result.

    Raises:
        BenchError: the corrected stream cannot be read back.
    """
    true, phases = truth(plan), windows(plan, case.startup_us)
    heard, got = hearing.heard, hearing.got
    live, corrected = live_delays(heard), corrected_delays(got)
    try:
        records = read_all(stage.log.bootstrap, topics.stream(case.app, events.QUERY))
    except CannotRead as exc:
        raise BenchError(str(exc)) from exc
    ends = finals([json.loads(record.value or b"null") for record in records], true)
    healed = fed[plan.silent]
    judged = [start for starts in phases.values() for start in starts if start in live and start in corrected]
    return LostFound(
        case=case,
        live=by_phase(live, phases),
        corrected=by_phase(corrected, phases),
        unheard=unheard(live, phases) + unheard(corrected, phases),
        partials=partials(heard, true, plan),
        live_finals=finals(stable_rows(heard), true),
        corrected_finals=ends,
        published=SOURCES * plan.count,
        dropped=SOURCES * plan.count - ends.counted,
        refused=len(stage.read(topics.deadletter(case.app))) + sum(each.rejected for each in fed),
        healing=healing(heard, got, hearing.story, healed.healed_us),
        burst_s=(healed.delivered_us - healed.healed_us) / 1e6,
        curve=[
            ((start + events.WINDOW_US - plan.silent_from_us) / 1e6, live[start] / 1e6, corrected[start] / 1e6)
            for start in judged
        ],
    )
