"""Changes how much of a stream is kept while the app runs, and gives up replicas that will not come back (R16).

Blocking; for commands. Works on any log, knows no terminal.
"""

from __future__ import annotations

import re
import time
from contextlib import closing

from borealis_py.app.state import AppState, NoSuchApp, put_settings, read_all_statuses
from borealis_py.log.acks import forget_record
from borealis_py.log.base import Log, LogError
from borealis_py.log.messages import RetainSetting
from borealis_py.protocol.settings import SettingsError
from borealis_py.protocol.trimming import ReplicaName
from borealis_py.query.errors import did_you_mean
from borealis_py.query.retention import format_retain
from borealis_py.query.units import format_duration

GONE_US = 10_000_000
"""A replica without a status for so long does not run."""
WRITTEN_S = 15.0
_REPLICA = re.compile(r"(.+)\.r(0|[1-9][0-9]?)")


def set_retain(log: Log, state: AppState, name: str, lag_us: int | None) -> None:
    """Write how much of a source's or node's stream is kept; replicas obey as they read it.

    Args:
        lag_us: microseconds of stime behind the stable frontier; None: all.

    Raises:
        NoSuchApp: the app has no such stream. SettingsError: shorter than the query's delay threshold.
        LogError: it could not be written.
    """
    known = (*state.spec.sources, *state.spec.all_nodes)
    if name not in known:
        hint = did_you_mean(name, known) or ";"
        raise NoSuchApp(f"app {state.name!r} has no source, node or query {name!r}{hint} it has {', '.join(known)}")
    least_us = state.threshold_us(name) if name in state.spec.queries else 0
    if lag_us is not None and 0 < lag_us < least_us:
        raise SettingsError(
            f"{name}: {format_retain(lag_us)} is shorter than its delay threshold, {format_duration(least_us)}: live "
            'readers wait that long. Choose a longer one, or "needed"'
        )
    put_settings(log, state.name, {f"retain/{name}": RetainSetting(lag_us)})


def forget(log: Log, state: AppState, replica: str) -> None:
    """Give a replica up: while a peer lives, nothing is kept for it any more, until it speaks again.

    Args:
        replica: its name, such as "clean.r1".

    Raises:
        NoSuchApp: the app has no such node. SettingsError: the replica runs.
        LogError: it could not be written.
    """
    match = _REPLICA.fullmatch(replica)
    if match is None or match[1] not in state.runs.all_nodes:
        known = ", ".join(f"{node}.r{k}" for node, k in state.replicas())
        raise NoSuchApp(f"app {state.name!r} has no replica {replica!r}; it has {known}")
    name, now_us = ReplicaName(match[1], int(match[2])), time.time_ns() // 1000
    statuses, _ = read_all_statuses(log, state, now_us // 1000)
    last = statuses.get((name.node, name.index))
    if last is not None and last.event != "STOPPED" and now_us - last.at_wall_us < GONE_US:
        raise SettingsError(f"replica {replica} runs: it reported {(now_us - last.at_wall_us) / 1e6:.1f} s ago")
    with closing(log.appender(lambda: None)) as appender:
        appender.append(forget_record(state.name, state.app_uid, name), replica)
        written = appender.flush(WRITTEN_S)
        refused = [delivery.error for delivery in appender.deliveries() if delivery.error is not None]
    if refused or not written:
        raise LogError(f"{replica} was not given up: {refused[0] if refused else 'the log did not answer'}")
