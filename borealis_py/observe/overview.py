"""The status of a running app for people, programs and probes: its replicas' statuses and what follows from them. The
one model behind `borealis status`, `borealis top` and a replica process's `/api/v1/status`.

Pure: the statuses are passed in. Knows no log, no clock and no terminal.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from borealis_py.app.replica_health import STANDBY, health_of, idles
from borealis_py.app.replicas import ProcessName
from borealis_py.app.state import GONE_S, AppState, IngressStatuses, ReplicaKey, Statuses
from borealis_py.log.messages import InputStatus, Status
from borealis_py.node.delays import reader_wait_us
from borealis_py.observe.ingress_overview import ingress_overview
from borealis_py.query.names import base_name
from borealis_py.query.spec import AppSpec
from sunion.bucket import Buckets

TRIM_WAIT_US = 60_000_000
"""Trimming that waits for so long is told: at first replicas have said nothing yet."""
_REPLICA, _AUDIT = re.compile(r"(\S+)\.r(\d+)(?= |$)"), re.compile(r"audit of (\S+) \(none ")


def overview(
    state: AppState,
    statuses: Statuses,
    now_us: int,
    only: Sequence[ReplicaKey] | None = None,
    ingresses: IngressStatuses | None = None,
) -> dict[str, Any]:
    """Everything known, as JSON values: what `status --json` prints.

    Args:
        now_us: wall time.
        only: restrict it to these replicas and the queries they serve, for one process; None: the whole app.
        ingresses: the newest status of each ingress; None: they are left out.
    """
    shown = keys(state, statuses) if only is None else list(only)
    told = {q for node, _ in shown for q in queries_of(state.runs, node)}
    queries = [q for q in state.spec.queries if only is None or q in told]
    buckets = Buckets(state.spec.bucket_us)
    return {
        "app": state.name,
        "hash": state.hash,
        "bucket_us": state.spec.bucket_us,
        "origin_us": buckets.start(state.origin),
        "at_wall_us": now_us,
        "thresholds_us": {query: state.threshold_us(query) for query in queries},
        "policies": {query: list(policies(state, query)) for query in queries},
        "apart_sources": {
            query: [least.name, most.name]
            for query, (least, most) in apart_sources(state, statuses).items()
            if query in queries
        },
        "failed_sources_until_wall_us": {
            state.runs.shown(s): until for s, until in state.failed_until.items() if until > now_us
        },
        "replicas": [_one(state, statuses.get(key), key, now_us) for key in shown],
        "ingresses": [] if ingresses is None else ingress_overview(state, ingresses, now_us),
    }


def _one(state: AppState, found: Status | None, key: ReplicaKey, now_us: int) -> dict[str, Any]:
    node, replica = key
    of = queries_of(state.runs, node)
    if found is None:
        return {"node": node, "of_queries": of, "replica": replica, "running": False, "ready": False, "state": None}
    seen = health_of(found, state.spec.bucket_us, now_us)
    return {
        "running": not seen.gone,
        "ready": seen.ready,
        "age_s": seen.age_s,
        "stable_until": seen.stable_until,
        "live_until": seen.live_until,
        "stable_lag_s": seen.stable_lag_s,
        "live_lag_s": seen.live_lag_s,
        "uncorrected_buckets": seen.uncorrected_buckets,
        "of_queries": of,
        **msgspec.to_builtins(found),
    }


def queries_of(spec: AppSpec, node: str) -> list[str]:
    """The queries that read a node; none for a node that the app does not (or no longer) have."""
    return [s.query for s in spec.serves(node)] if node in spec.all_nodes else []


def keys(state: AppState, statuses: Statuses) -> list[ReplicaKey]:
    """The replicas that should run, and others that reported, in the order of the app."""
    expected = state.replicas()
    return expected + [key for key in statuses if key not in set(expected)]


def policies(state: AppState, query: str) -> tuple[str, str]:
    """The policies for failure and stabilization: the setting, else the app's file."""
    policy, spec = state.policies.get(query), state.spec.queries[query]
    return (spec.on_failure, spec.on_stabilization) if policy is None else (policy.failure, policy.stabilization)


def late_sources(statuses: Statuses) -> dict[str, InputStatus]:
    """Sources with late rows, each as reported by the replica that has read most of it."""
    found: dict[str, InputStatus] = {}
    for status in statuses.values():
        for source in status.inputs:
            known = found.get(source.name)
            if source.late_us[2] > 0 and (known is None or source.tuples > known.tuples):
                found[source.name] = source
    return found


def waiting_trims(statuses: Statuses, now_us: int) -> dict[str, str]:
    """Topics of which nothing may be deleted for a minute now, or which the log does not let replicas delete, and why,
    in words."""
    found: dict[str, str] = {}
    for status in statuses.values():
        for trim in status.trims if status.event != "STOPPED" else ():
            if trim.refused:
                found[trim.topic] = trim.refused
            elif trim.waits_since_wall_us and now_us - trim.waits_since_wall_us >= TRIM_WAIT_US:
                found[trim.topic] = f"it waits for {', '.join(trim.held_by)}{_to_do(trim.held_by)}"
    return found


def held_trims(statuses: Statuses) -> dict[str, list[str]]:
    """Topics of which no more is deleted than what replicas do not need that report nothing: each by name, as given to
    `borealis retain --forget`."""
    found: dict[str, list[str]] = {}
    for status in statuses.values():
        for trim in status.trims if status.event != "STOPPED" else ():
            if trim.below is None or trim.refused:
                continue
            named = _replicas(trim.held_by)
            if named and all((match[1], int(match[2])) not in statuses for match in named):
                found[trim.topic] = [match[0] for match in named]
    return found


def forgetting(names: Sequence[str]) -> str:
    """What to do about replicas that topics are kept for, in words."""
    return "; ".join(f"if {name} will not come back, `borealis retain --forget {name}`" for name in names)


def _replicas(held_by: Sequence[str]) -> list[re.Match[str]]:
    """The replicas among those who need what stays: the name, its node and its number."""
    return [match for who in held_by if (match := _REPLICA.match(who)) is not None]


def _to_do(held_by: Sequence[str]) -> str:
    """What ends a wait that does not end by itself."""
    audits = [match[1] for who in held_by if (match := _AUDIT.match(who)) is not None]
    found = [f"`borealis audit {query} --advance` verifies more" for query in audits]
    named = [match[0] for match in _replicas(held_by)]
    found += [forgetting(named)] if named else []
    return f": {'; '.join(found)}" if found else ""


def standbys_apart(statuses: Statuses, places: Mapping[ReplicaKey, str], now_us: int) -> dict[str, str]:
    """Standbys that do not compute, on another machine than the replica that runs, whose checkpoints lie below its data
    directory there: each by name, and where, in words.

    Args:
        places: where the checkpoints of replicas lie, as they have said (`protocol.trimming.Need.place`).
    """
    live = {
        key: s for key, s in statuses.items() if s.event != "STOPPED" and now_us - s.at_wall_us < round(GONE_S * 1e6)
    }
    return {
        f"{node}.r{k}": f"{runs.host} ({node}.r{j})"
        for (node, k), standby in live.items()
        if idles(standby)
        for (other, j), runs in live.items()
        if other == node and runs.state != STANDBY and runs.host != standby.host
        if runs.host and places.get((other, j), "").startswith(f"{runs.host}:")
    }


def apart_sources(state: AppState, statuses: Statuses) -> dict[str, tuple[InputStatus, InputStatus]]:
    """Queries in which one source waits so much longer for late rows than another that buckets run without it: (the
    source that waits least, the one that waits most).

    A replica reports such sources among its own node's inputs (DRIFT); here they may be inputs of different nodes of a
    chain.
    """
    found: dict[str, tuple[InputStatus, InputStatus]] = {}
    for query in state.spec.queries:
        behind = state.spec.sources_of(query)
        told = [s for status in statuses.values() for s in status.inputs if base_name(s.name) in behind]
        alive = [s for s in told if not s.ended and (s.tuples or s.lateness_us)]
        if len(alive) < 2:
            continue
        least, most = (pick(alive, key=lambda s: s.lateness_us) for pick in (min, max))
        wait_us = reader_wait_us(state.spec, query, state.timing, state.threshold_us(query))
        if most.lateness_us - least.lateness_us > wait_us:
            found[query] = least, most
    return found


def inline_reasons(state: AppState, statuses: Statuses, now_us: int) -> dict[str, set[ProcessName]]:
    """Why redos do not run on Spark, with the running processes concerned."""
    told: dict[str, set[ProcessName]] = {}
    for (_, k), s in statuses.items():
        if s.why_inline and not health_of(s, state.spec.bucket_us, now_us).gone:
            told.setdefault(s.why_inline, set()).add(ProcessName(k))
    return told


def diverged(state: AppState, statuses: Statuses, now_us: int) -> dict[str, str]:
    """Nodes and queries, as users named them, of which nothing is published since replicas differ, and how they do."""
    told = {
        base_name(node): s.diverged
        for (node, _), s in statuses.items()
        if s.diverged and not health_of(s, state.spec.bucket_us, now_us).gone
    }
    return {**told, **state.diverged}


def gaps(statuses: Statuses) -> dict[str, tuple[int, int]]:
    """Of each node whose replica found buckets lost when it started: the newest [first, end) (R18.3)."""
    told: dict[str, tuple[int, int]] = {}
    for (node, _), s in statuses.items():
        if s.lost_buckets:
            told[node] = max(told.get(node, (0, 0)), (s.lost_from, s.lost_from + s.lost_buckets))
    return told


def stop_reasons(statuses: Statuses) -> dict[str, list[str]]:
    """Why replicas do not run, as reported by them or their host, with the replicas concerned (`sales.r0`)."""
    told: dict[str, list[str]] = {}
    for (node, k), s in statuses.items():
        if s.event == "STOPPED" and s.detail:
            told.setdefault(s.detail, []).append(f"{node}.r{k}")
    return told
