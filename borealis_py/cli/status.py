"""`borealis status`: every replica of an app, from the status topic."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.text import Text

from borealis_py.cli.console import print_json, print_table, say
from borealis_py.cli.context import open_context
from borealis_py.cli.options import AppName, Bootstrap, Json

if TYPE_CHECKING:
    from borealis_py.host.appstate import AppState, Statuses
    from borealis_py.host.replicas import ProcessName
    from borealis_py.log.messages import InputStatus, Status

GONE_S = 5.0
"""A replica says something every second; one that was silent for so long does not run, or cannot reach the broker."""
SILENT_S = 2.0
DAY_S = 86_400
_STYLES = {"STABLE": "green", "UPSTREAM_FAILURE": "yellow", "STABILIZATION": "cyan", "RECOVERING": "magenta"}


def status(bootstrap: Bootstrap = None, app: AppName = None, json: Json = False) -> None:
    """Show state, frontiers, grant, counts, checkpoint and inputs of each replica. Frontiers are times (UTC)."""
    from borealis_py.host.appstate import read_statuses

    context = open_context(bootstrap)
    state = context.app(app)
    now_us = time.time_ns() // 1000
    statuses = read_statuses(context.log, state, now_us // 1000)
    now_us = max([now_us, *(s.at_wall_us for s in statuses.values())])
    if json:
        print_json(as_json(state, statuses, now_us))
        return
    _print(state, statuses, now_us)


@dataclass(frozen=True)
class Sight:
    """One status and what follows from it. `lag_s` None: the sources have ended, nothing is left to do."""

    status: Status
    age_s: float
    stable_lag_s: float | None
    live_lag_s: float | None
    stable_until: str
    live_until: str
    bucket_us: int

    def behind_s(self, source: InputStatus) -> float:
        """How far the source's last boundary lies behind the clock of the replica."""
        return (self.status.at_wall_us - source.closed * self.bucket_us) / 1e6

    @property
    def gone(self) -> bool:
        return self.age_s > GONE_S or self.status.event == "STOPPED"


def sight(status: Status, bucket_us: int, now_us: int) -> Sight:
    """A status as seen at wall time `now_us`."""
    s = status
    (stable_until, stable_lag), (live_until, live_lag) = (_frontier(b, bucket_us, s.at_wall_us) for b in (s.f_s, s.f_l))
    return Sight(s, (now_us - s.at_wall_us) / 1e6, stable_lag, live_lag, stable_until, live_until, bucket_us)


def _frontier(bucket: int, bucket_us: int, wall_us: int) -> tuple[str, float | None]:
    from borealis_py.host.origin import show
    from sunion.bucket import Buckets

    buckets = Buckets(bucket_us)
    if bucket >= buckets.last:
        return "END", None
    return show(buckets.start(bucket)), (wall_us - buckets.start(bucket)) / 1e6


def as_json(state: AppState, statuses: Statuses, now_us: int) -> dict[str, Any]:
    """Everything known, for programs."""
    import msgspec

    from sunion.bucket import Buckets

    def one(query: str, replica: int) -> dict[str, Any]:
        found, of = statuses.get((query, replica)), _queries(state, query)
        if found is None:
            return {"query": query, "of_queries": of, "replica": replica, "running": False, "state": None}
        seen = sight(found, state.spec.bucket_us, now_us)
        return {
            "running": not seen.gone,
            "age_s": seen.age_s,
            "stable_until": seen.stable_until,
            "live_until": seen.live_until,
            "stable_lag_s": seen.stable_lag_s,
            "live_lag_s": seen.live_lag_s,
            "of_queries": of,
            **msgspec.to_builtins(found),
        }

    buckets = Buckets(state.spec.bucket_us)
    return {
        "app": state.name,
        "hash": state.hash,
        "bucket_us": state.spec.bucket_us,
        "origin_us": buckets.start(state.origin),
        "at_wall_us": now_us,
        "thresholds_us": {query: state.threshold_us(query) for query in state.spec.queries},
        "policies": {query: list(_policies(state, query)) for query in state.spec.queries},
        "failed_sources_until_wall_us": {s: until for s, until in state.failed_until.items() if until > now_us},
        "replicas": [one(query, k) for query, k in keys(state, statuses)],
    }


def _queries(state: AppState, node: str) -> list[str]:
    """The queries that read a node."""
    return [s.query for s in state.spec.serves(node)] if node in state.spec.all_nodes else []


def keys(state: AppState, statuses: Statuses) -> list[tuple[str, int]]:
    """The replicas that should be, and others that spoke, in the order of the app."""
    expected = state.replicas()
    return expected + [key for key in statuses if key not in set(expected)]


def _print(state: AppState, statuses: Statuses, now_us: int) -> None:
    name = "node" if state.spec.nodes else "query"
    columns = [name, "r>", "state", "stable until", "lag>", "live until", "lag>", "grant", "publishes", "stable>"]
    columns += ["tentative>", "checkpoint>", "tuples in>", "rejected>", "memory>", "inputs"]
    rows: list[list[str | Text]] = []
    for query, k in keys(state, statuses):
        found = statuses.get((query, k))
        if found is None:
            rows.append([query, str(k), Text("not running", "red"), *[""] * (len(columns) - 3)])
        else:
            rows.append(_row(sight(found, state.spec.bucket_us, now_us), now_us))
    if state.spec.nodes:
        columns.insert(1, "of query")
        for row in rows:
            row.insert(1, ", ".join(_queries(state, str(row[0]))))
    _tell_inline(state, statuses, now_us)
    xs = ", ".join(f"{query} {_set(state, query)}" for query in state.spec.queries)
    print_table(f"app {state.name}: delay thresholds {xs}", columns, rows)


def _set(state: AppState, query: str) -> str:
    """Threshold, and policies where they are not the usual ones."""
    from borealis_py.query import format_duration

    x, (failure, stabilization) = format_duration(state.threshold_us(query)), _policies(state, query)
    usual = failure == stabilization == "process"
    return x if usual else f"{x} (failure {failure}, stabilization {stabilization})"


def _policies(state: AppState, query: str) -> tuple[str, str]:
    """For failure and stabilization: what was set, else the app's file."""
    policy, spec = state.policies.get(query), state.spec.queries[query]
    return (spec.on_failure, spec.on_stabilization) if policy is None else (policy.failure, policy.stabilization)


def _tell_inline(state: AppState, statuses: Statuses, now_us: int) -> None:
    """Which processes have no Spark, and why."""
    from borealis_py.host.replicas import process_of

    told: dict[str, set[ProcessName]] = {}
    for (node, k), s in statuses.items():
        if s.why_inline and not sight(s, state.spec.bucket_us, now_us).gone:
            told.setdefault(s.why_inline, set()).add(process_of(state.spec, node, k))
    for why, processes in told.items():
        say(f"redos run inline in {', '.join(map(str, sorted(processes)))}: {why}", "yellow")


def _row(seen: Sight, now_us: int) -> list[str | Text]:
    s = seen.status
    shown = Text(f"gone, was {s.state}", "red") if seen.gone else Text(s.state, _STYLES.get(s.state, ""))
    grant = "granted" if s.granted else f"waits for {s.head}" if s.asking else ""
    checkpoint = duration((now_us - s.checkpoint_wall_us) / 1e6) if s.checkpoint_wall_us else "none"
    return [
        s.query,
        str(s.replica),
        shown,
        _clock(seen.stable_until, seen.stable_lag_s),
        duration(seen.stable_lag_s),
        _clock(seen.live_until, seen.live_lag_s) if s.f_l != s.f_s else "",
        duration(seen.live_lag_s) if s.f_l != s.f_s else "",
        grant,
        "yes" if s.publishing and not seen.gone else "",
        f"{s.stable_rows}",
        f"{s.tentative_rows}",
        checkpoint,
        f"{s.tuples_in}",
        f"{s.rejected}",
        f"{s.rss_kb / 1000:.0f} MB",
        Text(" ").join(_input(i, seen.behind_s(i)) for i in s.inputs),
    ]


def _input(source: InputStatus, behind_s: float) -> Text:
    if source.ended:
        return Text(f"{source.name}:ended", "dim")
    if not source.reachable:
        return Text(f"{source.name}:UNREACHABLE", "red")
    if source.late:
        return Text(f"{source.name}:late", "yellow")
    # Silence of all sources makes nothing late (no bucket is created): it shows here and nowhere else.
    behind = behind_s > SILENT_S
    return (
        Text(f"{source.name}:{duration(behind_s)} behind", "yellow") if behind else Text(f"{source.name}:ok", "green")
    )


def _clock(shown: str, lag_s: float | None) -> str:
    """The time of an ISO time to a tenth of a second, without the day; of history, as it is."""
    if lag_s is None or abs(lag_s) >= DAY_S:
        return shown
    time_of_day = shown.partition("T")[2].removesuffix("Z")
    whole, _, fraction = time_of_day.partition(".")
    return f"{whole}.{(fraction or '0')[0]}"


def duration(seconds: float | None) -> str:
    """A duration for people: 0.2 s, 3 min, 2 h, 5 d."""
    if seconds is None:
        return ""
    for unit, name in ((DAY_S, "d"), (3_600, "h"), (60, "min")):
        if abs(seconds) >= 2 * unit:
            return f"{seconds / unit:.0f} {name}"
    return f"{seconds:.1f} s"
