"""The report of `make bench NAME=recovery` on a broker. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from benchmarks.experiments.recovery.cases import (
    ACTIVE,
    AMNESIA,
    BUSY_RATE,
    BUSY_WINDOW_S,
    MEASURED,
    PASSIVE,
    RATE,
    STANDBY,
    UPSTREAM,
    BeyondX,
    WayBytes,
    WayCores,
    WayStills,
)
from benchmarks.report.goals import published
from benchmarks.report.outcome import Curve, Outcome, Panel

BYTES_MOST = {STANDBY.value: 10, PASSIVE.value: 35, UPSTREAM.value: 10}
CPU_MOST = {PASSIVE.value: 25, UPSTREAM.value: 25}
"""Percent beside one replica."""
ACTIVE_LARGEST_S, STANDBY_S, PASSIVE_S, FLAT_S, UPSTREAM_S = 0.2, 0.6, 0.8, 0.25, 3.0
LONGEST_S = 60
Ended = dict[str, bool]
"""What was to be reached, in words, and whether it was."""


def outcome(
    stills: Sequence[WayStills], written: Sequence[WayBytes], busy: Sequence[WayCores], beyond: BeyondX | None = None
) -> Outcome:
    """All of it. `written`, `busy`: with one replica alone among them. `beyond`: None: it was not measured."""
    goals = judged(stills, written, busy, beyond)
    missed = [what for what, met in goals.items() if not met]
    return Outcome(
        name="recovery",
        title="Ways to survive a crash: how long a reader waits, and what a standby costs",
        published=(published("recovery")),
        setup=_setup(stills, beyond),
        worse=f"Of {len(goals)} goals {len(goals) - len(missed)} are reached"
        + (f", not: {'; '.join(missed)}" if missed else ""),
        columns=[
            "way",
            "window>",
            "kills>",
            "stands still p50 s>",
            "longest s>",
            "predicted s>",
            "without a kill s>",
            "tentative>",
            "repeated, missing>",
            "bytes %>",
            "predicted>",
            "control kB/s>",
            "CPU %>",
            "predicted>",
        ],
        rows=[
            *(_row(one, written, busy) for one in stills),
            *(_beyond_row(one) for one in (beyond,) if one is not None),
        ],
        ratios=_ratios(stills),
        data={
            "stills": [{**asdict(one), "median_s": one.usual_s, "longest_s": one.longest_s} for one in stills],
            "bytes_per_s": [asdict(one) for one in written],
            "cores": [asdict(one) for one in busy],
            "beyond_x": None if beyond is None else asdict(beyond),
            "goals": [{"goal": what, "reached": met} for what, met in goals.items()],
        },
        panels=_panels(stills, written, busy),
    )


def _setup(stills: Sequence[WayStills], beyond: BeyondX | None) -> str:
    return (
        f"Two replicas in processes of their own, {RATE:,} tuples/s of three sources, count and sum by 100 keys every "
        f"second; {min(len(one.stills_s) for one in stills)} kill -9 a line of the replica that runs, windows full. "
        "Stands still: the longest time in which the live view of a subscriber (X = 3 s) did not get on, less the "
        "usual time between two buckets; without a kill: the largest in the 1.2 s before each. Predicted: as `borealis "
        "explain` does. "
        "Tentative: buckets that the view showed before they were stable. By amnesia what came while nobody ran is "
        "lost, and results that overlap it are tentative. Bytes: of sources, replica streams, "
        "corrected stream and checkpoints in Kafka's log beside one replica alone; control: the app's control, status "
        "and progress topics, all queries together. Passive standby and upstream backup have `checkpoints: kafka`. "
        f"CPU, told once for each way: all replicas beside one alone, {BUSY_RATE:,} tuples/s, a window of "
        f"{BUSY_WINDOW_S} s; with one replica, a passive standby and upstream backup the smaller of two measurements"
        f"{'' if beyond is None else _beyond_setup(beyond)}"
    )


def _beyond_setup(of: BeyondX) -> str:
    return (
        f". Last line: readers that wait for less than recovery takes, X = {of.x_s} s. A node with a window of "
        f"{of.stills.window_s} s over two sources is killed; a query reads it and the third source. It goes on "
        f"tentatively ({of.predicted_tentative:.0f} buckets predicted) and corrects that; `borealis verify` and "
        "`audit` in the end"
    )


def _row(one: WayStills, written: Sequence[WayBytes], busy: Sequence[WayCores]) -> list[str]:
    of = next((by for by in written if (by.way, by.window_s) == (one.way, one.window_s)), None)
    alone = next((by for by in written if (by.way, by.window_s) == ("", one.window_s)), None)
    data, foreseen, control = "", "", ""
    if of is not None and alone is not None:
        data, control = f"{_more(of.data, alone.data):+.1f}", f"{(of.control - alone.control) / 1e3:+.1f}"
        foreseen = f"{100 * of.predicted / alone.data:+.1f}"
    first = one.window_s == min(by.window_s for by in written)
    cpu, cpu_foreseen = _cpu(one.way, busy) if first else ("", "")
    return [
        one.way,
        f"{one.window_s} s",
        str(len(one.stills_s)),
        f"{one.usual_s:.2f}",
        f"{one.longest_s:.2f}",
        f"{one.predicted_s:.2f}",
        f"{max(one.quiet_s):.2f}",
        str(one.tentative),
        f"{one.repeated}, {one.missing}",
        data,
        foreseen,
        control,
        cpu,
        cpu_foreseen,
    ]


def _cpu(way: str, busy: Sequence[WayCores]) -> tuple[str, str]:
    """Processor time beside one replica alone, measured and predicted, in percent."""
    measured, of = cpu_percent(busy).get(way), {one.way: one for one in busy}
    if measured is None:
        return "", ""
    return f"{measured:+.0f}", f"{100 * of[way].predicted / of[''].cores:+.0f}"


def _beyond_row(of: BeyondX) -> list[str]:
    one = of.stills
    return [
        f"{one.way}, X = {of.x_s} s",
        f"{one.window_s} s",
        str(len(one.stills_s)),
        f"{one.usual_s:.2f}",
        f"{one.longest_s:.2f}",
        f"{one.predicted_s:.2f}",
        f"{max(one.quiet_s):.2f}",
        str(one.tentative),
        f"{one.repeated}, {one.missing}",
        *[""] * 5,
    ]


def _more(value: float, than: float) -> float:
    return 100 * (value / than - 1)


def bytes_percent(written: Sequence[WayBytes]) -> dict[tuple[str, int], float]:
    """Data beside one replica alone, by way and window, in percent."""
    alone = {by.window_s: by.data for by in written if not by.way}
    return {(by.way, by.window_s): _more(by.data, alone[by.window_s]) for by in written if by.way}


def cpu_percent(busy: Sequence[WayCores]) -> dict[str, float]:
    """Processor time beside one replica alone, by way, in percent."""
    alone = [one.cores for one in busy if not one.way]
    return {one.way: _more(one.cores, alone[0]) for one in busy if one.way} if alone else {}


def judged(
    stills: Sequence[WayStills], written: Sequence[WayBytes], busy: Sequence[WayCores], beyond: BeyondX | None = None
) -> Ended:
    """Every goal that what was measured can tell of."""
    found: Ended = {}
    of = {way.value: {one.window_s: one for one in stills if one.way == way.value} for way in MEASURED}
    for one in of[ACTIVE.value].values():
        goal = f"active, {one.window_s} s: the longest below {ACTIVE_LARGEST_S} s ({one.longest_s:.2f})"
        found[goal] = one.longest_s < ACTIVE_LARGEST_S
    for way, most_s in ((STANDBY.value, STANDBY_S), (PASSIVE.value, PASSIVE_S), (AMNESIA.value, STANDBY_S)):
        for one in of[way].values():
            found[f"{way}, {one.window_s} s: p50 below {most_s} s ({one.usual_s:.2f})"] = one.usual_s < most_s
    passive = [one.usual_s for one in of[PASSIVE.value].values()]
    if len(passive) > 1:
        apart_s = max(passive) - min(passive)
        found[f"{PASSIVE}: p50 within {FLAT_S} s over windows ({apart_s:.2f})"] = apart_s <= FLAT_S
    long = of[UPSTREAM.value].get(LONGEST_S)
    if long is not None:
        found[f"{UPSTREAM}, {LONGEST_S} s: p50 below {UPSTREAM_S:g} s ({long.usual_s:.2f})"] = long.usual_s < UPSTREAM_S
    ends = [of[UPSTREAM.value][window_s] for window_s in sorted(of[UPSTREAM.value])]
    for one in ends[1:-1]:
        line_s = _between(ends[0], ends[-1], one.window_s)
        what = f"{UPSTREAM}, {one.window_s} s: p50 within {FLAT_S} s of a line over windows ({line_s:.2f})"
        found[what] = abs(one.usual_s - line_s) <= FLAT_S
    for one in stills:
        loses = one.way == AMNESIA.value
        if not loses:
            found[f"{one.way}, {one.window_s} s: X = 3 s hides it ({one.tentative} tentative)"] = not one.tentative
        what = f"{one.way}, {one.window_s} s: {one.predicted_s:.2f} s predicted, {one.usual_s:.2f} s measured"
        found[what] = one.foreseen
        what = f"{one.way}, {one.window_s} s: nothing repeated{'' if loses else ' or missing'}"
        found[what] = not one.repeated and (loses or not one.missing)
    for (way, window_s), percent in bytes_percent(written).items():
        if way in BYTES_MOST:
            most = BYTES_MOST[way]
            found[f"{way}, {window_s} s: bytes at most {most} % more ({percent:.1f})"] = percent <= most
    for way, percent in cpu_percent(busy).items():
        if way in CPU_MOST:
            found[f"{way}: CPU at most {CPU_MOST[way]} % more ({percent:.0f})"] = percent <= CPU_MOST[way]
    return found if beyond is None else found | _judged_beyond(beyond)


def _judged_beyond(of: BeyondX) -> Ended:
    one = of.stills
    what = f"{one.way}, {one.window_s} s, X = {of.x_s} s"
    return {
        f"{what}: the reader waits for at most X ({one.longest_s:.2f})": one.longest_s <= of.x_s,
        f"{what}: tentative while nobody runs ({one.tentative})": one.tentative > 0,
        f"{what}: {one.predicted_s:.2f} s predicted, {one.usual_s:.2f} s measured": one.foreseen,
        f"{what}: {of.predicted_tentative:.0f} tentative buckets predicted, {one.tentative} measured": of.foreseen,
        f"{what}: nothing repeated or missing": not one.repeated and not one.missing,
        f"{what}: verified, audit clean": of.verify == of.audit == 0,
    }


def _between(first: WayStills, last: WayStills, window_s: int) -> float:
    """The median of a window if medians grow evenly from the shortest window to the longest."""
    part = (window_s - first.window_s) / (last.window_s - first.window_s)
    return first.usual_s + part * (last.usual_s - first.usual_s)


def _ratios(stills: Sequence[WayStills]) -> dict[str, float]:
    """How near the predictions are: 1 is what was measured."""
    return {
        f"{one.way}, {one.window_s} s: prediction": min(one.predicted_s, one.usual_s)
        / max(one.predicted_s, one.usual_s, 1e-3)
        for one in stills
    }


def _panels(stills: Sequence[WayStills], written: Sequence[WayBytes], busy: Sequence[WayCores]) -> list[Panel]:
    more, cpu, windows = bytes_percent(written), cpu_percent(busy), sorted({one.window_s for one in stills})
    return [
        Panel(
            title="Standing still after kill -9: median",
            x="window (s)",
            y="seconds; points: predicted",
            curves=list(_still_curves(stills)),
            log_x=True,
        ),
        Panel(
            title="The same: longest",
            x="window (s)",
            y="seconds",
            curves=[
                Curve(label=way, x=[float(one.window_s) for one in some], y=[one.longest_s for one in some])
                for way in dict.fromkeys(one.way for one in stills)
                if (some := [one for one in stills if one.way == way])
            ],
            log_x=True,
        ),
        Panel(
            title="Bytes in Kafka beside one replica",
            x=f"window: {', '.join(f'{w} s' for w in windows)}",
            y="%",
            curves=[
                Curve(
                    label=way,
                    x=[float(i) for i in range(len(windows))],
                    y=[more.get((way, w), 0.0) for w in windows],
                    style="bars",
                )
                for way in dict.fromkeys(way for way, _ in more)
            ],
        ),
        Panel(
            title=f"CPU beside one replica, {BUSY_RATE:,} tuples/s",
            x="way",
            y="%",
            curves=[
                Curve(label=way, x=[float(i)], y=[percent], style="bars")
                for i, (way, percent) in enumerate(cpu.items())
            ],
        ),
    ]


def _still_curves(stills: Sequence[WayStills]) -> Iterator[Curve]:
    for way in dict.fromkeys(one.way for one in stills):
        some = [one for one in stills if one.way == way]
        x = [float(one.window_s) for one in some]
        yield Curve(label=way, x=x, y=[one.usual_s for one in some])
        yield Curve(label=f"{way}, predicted", x=x, y=[one.predicted_s for one in some], style="points")
