"""How replicas are shown on a terminal: the table and lines of `borealis status` and `borealis top`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from borealis_py.cli.shared.tables import KEPT, FittingTable

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from borealis_py.app.replica_health import ReplicaHealth
    from borealis_py.app.replicas import ProcessName
    from borealis_py.app.state import AppState, ReplicaKey, Statuses
    from borealis_py.app.supervision import Fate
    from borealis_py.log.messages import InputStatus, Status
    from borealis_py.observe.process_tree import Footprint
    from borealis_py.query.ingress_spec import IngressSpec

SILENT_S = 2.0
DAY_S = 86_400
LOW_RATE = 9.95
"""Rates below this are shown with one decimal."""
COLUMNS = (
    *("r>", "state", "inc>", "stable until", "lag>", "live until", "live lag>", "to correct>", "X>", "grant"),
    *("publishes", "stable>", "tentative>", "tentative buckets>", "checkpoint>", "tuples in>", "rejected>", "memory>"),
    "inputs",
)
"""Columns after the node's name. X is the delay threshold; "to correct" counts the buckets between the frontiers,
"stable" and "tentative" are rows.
"""
EXPENDABLE = (
    *("live until", "tentative buckets>", "memory>", "checkpoint>", "of query", "stable until", "publishes"),
    *("rejected>", "tuples in>", "recovery", "inc>", "X>", "grant", "live lag>", "stable>", "tentative>", "restarts>"),
    "to correct>",
)
"""Columns that a narrow terminal leaves out, the first ones first."""
PARTS = ("process", "what", "pid>", "memory>", "threads>")
STYLES = {
    "STABLE": "green", "UPSTREAM_FAILURE": "yellow", "STABILIZATION": "cyan", "RECOVERING": "magenta",
    "STANDBY": "blue",
}  # fmt: skip


def replica_table(
    state: AppState,
    statuses: Statuses,
    now_us: int,
    rates: Mapping[tuple[str, int], Sequence[float]] | None = None,
    fates: Mapping[ProcessName, Fate] | None = None,
) -> FittingTable:
    """Every replica of an app, in the order of its nodes.

    Args:
        now_us: wall time.
        rates: tuples per second of each input, by (node, replica), as far as they are known.
        fates: of the processes on this machine that have ended since `up`.
    """
    from borealis_py.app.replica_health import health_of
    from borealis_py.app.replicas import process_of
    from borealis_py.observe.overview import keys, queries_of

    columns = ["node" if state.spec.nodes else "query", *COLUMNS]
    rows: list[list[str | Text]] = []
    for query, k in keys(state, statuses):
        found = statuses.get((query, k))
        if found is None:
            rows.append([query, str(k), Text("not running", "red"), *[""] * (len(columns) - 3)])
        else:
            rows.append(row(health_of(found, state.spec.bucket_us, now_us), now_us, (rates or {}).get((query, k), ())))
    if fates:
        columns.insert(-1, "restarts>")
        for (query, k), cells in zip(keys(state, statuses), rows, strict=True):
            fate = fates.get(process_of(fates, query, k))
            cells.insert(-1, "" if fate is None else str(fate.restarts))
    ways = [status.recovery if (status := statuses.get(key)) is not None else "" for key in keys(state, statuses)]
    if {*ways} - {"", "active"}:
        columns.insert(3, "recovery")
        for way, cells in zip(ways, rows, strict=True):
            cells.insert(3, "" if way == "active" else way)
    if state.spec.nodes:
        columns.insert(1, "of query")
        for cells in rows:
            cells.insert(1, ", ".join(queries_of(state.runs, str(cells[0]))))
    return FittingTable(title(state), columns, rows, EXPENDABLE)


def title(state: AppState) -> str:
    """The app and its queries' settings."""
    xs = ", ".join(f"{query} {_set(state, query)}" for query in state.spec.queries)
    return f"app {state.name}: delay thresholds {xs}"


def remarks(state: AppState, statuses: Statuses, now_us: int) -> list[str]:
    """Why replicas do not run, or nothing is published, and which processes have no Spark for redos."""
    from borealis_py.observe.overview import apart_sources, diverged, gaps, inline_reasons, late_sources, stop_reasons

    stopped = [f"not running: {', '.join(them)}: {why}" for why, them in stop_reasons(statuses).items()]
    inline = [
        f"redos run inline in {', '.join(map(str, sorted(them)))}: {why}"
        for why, them in inline_reasons(state, statuses, now_us).items()
    ]
    late = [_lateness(source, _ingress(state, source), now_us) for source in late_sources(statuses).values()]
    apart = [
        _apart(query, least, most, _kind(_ingress(state, most)))
        for query, (least, most) in apart_sources(state, statuses).items()
    ]
    differ = [
        f"DIVERGED: nothing of {query} is published: {why}. `borealis audit {query}` recomputes it; then `borealis "
        f"resume {query}` goes on, or `borealis up --reset` begins anew"
        for query, why in diverged(state, statuses, now_us).items()
    ]
    lost = [
        f"lost, and named so: buckets {first} to {end - 1} of {node}, {_span(state, first, end)}: no replica ran, or "
        "the log held them no more"
        for node, (first, end) in gaps(statuses).items()
    ]
    clocks = [
        f"{said}: results are right all the same; times in logs and `status` are off, and so is a publisher there that "
        "goes by the clock"
        for said in _clocks(statuses)
    ]
    return differ + stopped + lost + inline + late + apart + clocks + _untrimmed(statuses, now_us)


def _clocks(statuses: Statuses) -> list[str]:
    """Which machines' clocks differ from the broker's, by how much they do, and whose replicas run there."""
    from borealis_py.log.clock import apart

    hosts: dict[str, list[Status]] = {}
    for status in statuses.values():
        if status.event != "STOPPED" and apart(status.clock_ahead_us):
            hosts.setdefault(status.host, []).append(status)
    found = []
    for host, them in hosts.items():
        names = ", ".join(sorted(f"{status.node}.r{status.replica}" for status in them))
        whose = f"the clock of {names}" + (f" on {host}" if host else "")
        found.append(apart(max((status.clock_ahead_us or 0 for status in them), key=abs), whose))
    return found


def apart_lines(statuses: Statuses, places: Mapping[ReplicaKey, str], now_us: int) -> list[str]:
    """Which standbys would not find the state of the replica that runs, and what to do. `places`: `standbys_apart`."""
    from borealis_py.observe.overview import standbys_apart

    return [
        f"{standby} stands by, and the checkpoints of the replica that runs lie on another machine, {where}: where it "
        "cannot read them, it reads again all since its own last one after a crash, and all of that is kept until "
        "then. Give both one place: `checkpoints: kafka`, or a shared volume as file:///..."
        for standby, where in standbys_apart(statuses, places, now_us).items()
    ]


def _span(state: AppState, first: int, end: int) -> str:
    """The stimes of buckets [first, end)."""
    from borealis_py.app.origin import show

    return " to ".join(show(bucket * state.spec.bucket_us) for bucket in (first, end))


def _untrimmed(statuses: Statuses, now_us: int) -> list[str]:
    """Which topics replicas would trim and cannot, and why."""
    from borealis_py.observe.overview import forgetting, held_trims, waiting_trims

    waiting = [f"nothing of {topic} is trimmed: {why}" for topic, why in waiting_trims(statuses, now_us).items()]
    held = [
        f"{topic} is trimmed only up to what {' and '.join(names)} needs, which reports nothing: {forgetting(names)}"
        for topic, names in held_trims(statuses).items()
    ]
    return waiting + held


def _ingress(state: AppState, source: InputStatus) -> IngressSpec | None:
    """The ingress that writes a source; None: a publisher does."""
    from borealis_py.query.names import base_name

    return state.spec.ingresses.get(base_name(source.name))


def _kind(ingress: IngressSpec | None) -> str:
    """What writes a source, and waits for its late rows."""
    return "publisher" if ingress is None else "ingress"


def _apart(query: str, least: InputStatus, most: InputStatus, writer: str) -> str:
    waits = f"{most.lateness_us / 1e6:.3g} s for late rows, that of {least.name} {least.lateness_us / 1e6:.3g} s"
    return (
        f"{query}: the {writer} of {most.name} waits {waits}: more than the threshold lies between, so buckets run "
        f"without {most.name}"
    )


def _lateness(source: InputStatus, ingress: IngressSpec | None, now_us: int) -> str:
    from borealis_py.query.units import WRONG_UNIT_US

    if source.late_us[2] >= WRONG_UNIT_US:
        return _misread(source, ingress, now_us)
    half, most, longest = (f"{late_us / 1e6:.3g} s" for late_us in source.late_us)
    enough = "" if source.late_us[2] <= source.lateness_us else ": later ones are dead letters"
    return (
        f"rows of {source.name} come late: 50% within {half}, 99% within {most}, all within {longest}; its "
        f"{_kind(ingress)} waits {source.lateness_us / 1e6:.3g} s{enough}"
    )


def too_late(state: AppState, query: str, statuses: Statuses) -> list[str]:
    """Of the sources of a query, whose rows came after their results: they are dead letters, and sums are short."""
    from borealis_py.observe.overview import late_sources
    from borealis_py.query.names import base_name
    from borealis_py.query.units import DURATION_MAX_US, format_duration

    of, found = state.spec.sources_of(query), []
    for source in late_sources(statuses).values():
        latest_us = -(-source.late_us[2] // 100_000) * 100_000
        if base_name(source.name) in of and source.lateness_us < source.late_us[2] and latest_us <= DURATION_MAX_US:
            kind, latest = _kind(_ingress(state, source)), format_duration(latest_us)
            found.append(
                f"rows of {source.name} came too late and are dead letters, so results lack them: the latest by "
                f'{latest}, and its {kind} waits {source.lateness_us / 1e6:.3g} s. lateness="{latest}" would have been '
                "enough"
            )
    return found


def _misread(source: InputStatus, ingress: IngressSpec | None, now_us: int) -> str:
    """Of a source with rows so late that their times must be read wrong."""
    from borealis_py.query.units import TIME_UNITS, looks_like, of_year

    # Which one of them it was, only its ingress knows; its unit can be told from about when it was.
    stime = max(0, now_us - source.lateness_us - source.late_us[2])
    unit = "us" if ingress is None else ingress.stime_unit
    number = stime * TIME_UNITS[unit][1] // 1_000_000
    where = "" if ingress is None else f" in topic {ingress.topic}"
    said = looks_like(number, unit)
    if said and ingress is None:
        said = f"{said.partition(':')[0]}: convert the column"
    said = f"one near {said}" if said else "check the column of their times and its unit"
    return f"rows of {source.name}{where} have times of {of_year(stime)}, and are dead letters: {said}"


def parts_table(parts: Sequence[Footprint]) -> FittingTable:
    """The processes on this machine and their memory."""
    rows = [
        [str(part.process), part.role, str(part.pid), memory(part.pss_bytes, part.rss_bytes), str(part.threads)]
        for part in parts
    ]
    known = [part.pss_bytes for part in parts if part.pss_bytes is not None]
    pss_bytes = sum(known) if len(known) == len(parts) else None
    total = [
        "all",
        "",
        "",
        memory(pss_bytes, sum(part.rss_bytes for part in parts)),
        str(sum(part.threads for part in parts)),
    ]
    return FittingTable("on this machine", PARTS, [*rows, total], ("threads>", "pid>"))


def memory(pss_bytes: int | None, rss_bytes: int) -> str:
    """What a process takes, in MB: PSS, which counts shared pages by their share. RSS, named so, where that is not
    known."""
    return f"{rss_bytes / 1e6:.0f} MB RSS" if pss_bytes is None else f"{pss_bytes / 1e6:.0f} MB"


def fate_lines(fates: Mapping[ProcessName, Fate], now_us: int, supervised: bool) -> list[str]:
    """How processes on this machine ended, and what becomes of them. `now_us`: wall time. `supervised`: the supervisor
    that would start them again runs."""
    return [f"{name} {_fate(fate, now_us, supervised)}" for name, fate in fates.items()]


def _fate(fate: Fate, now_us: int, supervised: bool) -> str:
    ended = f"ended {duration((now_us - fate.at_wall_us) / 1e6)} ago ({fate.how})"
    if fate.final:
        return f"{ended} and is not started again"
    if fate.next_wall_us is not None and not supervised:
        return f"{ended}, and the supervisor that would start it again is gone, too: run `borealis up`"
    if fate.next_wall_us is not None:
        return f"{ended} and is started again in {duration(max(fate.next_wall_us - now_us, 0) / 1e6)}"
    times = "once" if fate.restarts == 1 else f"{fate.restarts} times"
    return f"was started again {times}; the last one {ended}"


def _set(state: AppState, query: str) -> str:
    """The threshold, and the policies unless they are the defaults."""
    from borealis_py.observe.overview import policies
    from borealis_py.query import format_duration

    x, (failure, stabilization) = format_duration(state.threshold_us(query)), policies(state, query)
    usual = failure == stabilization == "process"
    return x if usual else f"{x} (failure {failure}, stabilization {stabilization})"


def row(seen: ReplicaHealth, now_us: int, rates: Sequence[float] = ()) -> list[str | Text]:
    """One replica's cells. `rates`: tuples per second of each of its inputs; empty: not known."""
    from borealis_py.app.replica_health import idles
    from borealis_py.query import format_duration

    s = seen.status
    shown = Text(f"gone, was {s.state}", "red") if seen.gone else Text(s.state, STYLES.get(s.state, ""))
    grant = "granted" if s.granted else f"waits for {s.head}" if s.asking else ""
    idle = idles(s)
    checkpoint = duration((now_us - s.checkpoint_wall_us) / 1e6) if s.checkpoint_wall_us else "none"
    return [
        s.node,
        str(s.replica),
        shown,
        str(s.inc),
        clock(seen.stable_until, seen.stable_lag_s),
        "" if idle else duration(seen.stable_lag_s),
        clock(seen.live_until, seen.live_lag_s) if s.f_l != s.f_s else "",
        duration(seen.live_lag_s) if s.f_l != s.f_s and not idle else "",
        str(seen.uncorrected_buckets or ""),
        format_duration(s.threshold_us),
        grant,
        "yes" if s.publishing and not seen.gone else "",
        f"{s.stable_rows}",
        f"{s.tentative_rows}",
        f"{s.tentative_buckets}",
        checkpoint,
        f"{s.tuples_in}",
        f"{s.rejected}",
        memory(s.pss_kb * 1024 or None, s.rss_kb * 1024),
        Text("not read", "dim")
        if idle
        else Text(" ").join(
            _kept(_input(i, seen.behind_s(i), rate)) for i, rate in zip(s.inputs, _shown(seen, rates), strict=True)
        ),
    ]


def _shown(seen: ReplicaHealth, rates: Sequence[float]) -> list[str]:
    """The rate of each input as text; empty if it is not known, or outdated."""
    inputs = seen.status.inputs
    known = len(rates) == len(inputs) and not seen.gone
    return [f" {per_second(rate)}" for rate in rates] if known else [""] * len(inputs)


def per_second(rate: float) -> str:
    """A rate, human-readable: 0/s, 0.3/s, 1,250/s."""
    return f"{rate:.1f}/s" if 0 < rate < LOW_RATE else f"{rate:,.0f}/s"


def _kept(said: Text) -> Text:
    """On one line: a rate is not taken for that of the next input."""
    return Text(said.plain.replace(" ", KEPT), said.style)


def _input(source: InputStatus, behind_s: float, rate: str = "") -> Text:
    if source.ended:
        return Text(f"{source.name}:ended", "dim")
    if not source.reachable:
        return Text(f"{source.name}:UNREACHABLE", "red")
    if source.late:
        return Text(f"{source.name}:late{rate}", "yellow")
    # Silence of all sources makes nothing late (no bucket is created): it is visible only here.
    behind = behind_s > SILENT_S
    return (
        Text(f"{source.name}:{duration(behind_s)} behind{rate}", "yellow")
        if behind
        else Text(f"{source.name}:ok{rate}", "green")
    )


def clock(shown: str, lag_s: float | None) -> str:
    """The time of day of an ISO time, to a tenth of a second; for history, the whole ISO time."""
    if lag_s is None or abs(lag_s) >= DAY_S:
        return shown
    time_of_day = shown.partition("T")[2].removesuffix("Z")
    whole, _, fraction = time_of_day.partition(".")
    return f"{whole}.{(fraction or '0')[0]}"


def duration(seconds: float | None) -> str:
    """A duration, human-readable: 0.2 s, 3 min, 2 h, 5 d."""
    if seconds is None:
        return ""
    for unit, name in ((DAY_S, "d"), (3_600, "h"), (60, "min")):
        if abs(seconds) >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.1f} s"
