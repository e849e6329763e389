"""When an app's timing may change, and the messages about it.

Timing is part of the app's description, which `up` writes. Replicas and subscribers read it from there when they start,
so that all use the same slack and judge thresholds alike: it changes only between runs. Knows no commands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from borealis_py.app.errors import LaunchError
from borealis_py.app.replica_health import health_of
from borealis_py.app.state import GONE_S, AppState, read_statuses
from borealis_py.config.config import shown, written
from borealis_py.log.base import Log
from borealis_py.protocol.settings import Timing
from borealis_py.query import format_duration


def differences(before: Timing, after: Timing) -> list[str]:
    """Each setting that differs, like "slack 250ms -> 2s"."""
    wanted = asdict(after)
    return [f"{written(n)} {shown(n, v)} -> {shown(n, wanted[n])}" for n, v in asdict(before).items() if v != wanted[n]]


def ignored(configured: Mapping[str, int], timing: Timing) -> list[str]:
    """What a configuration sets but the app does not run with, like "slack 2s (250ms)".

    Args:
        configured: the fields of `Timing` that it sets.
    """
    runs = asdict(timing)
    return [f"{written(n)} {shown(n, v)} ({shown(n, runs[n])})" for n, v in configured.items() if v != runs[n]]


def refuse_other(log: Log, before: AppState, timing: Timing, now_us: int) -> None:
    """Check whether a described app may have this timing from now on.

    A description without timing (an older version's) contradicts nothing.

    Args:
        now_us: wall time.

    Raises:
        LaunchError: replicas run with another timing, or the set of accepted tuples would change.
    """
    told = before.description.timing
    if told is None or told == timing:
        return
    if told.ahead_max_us != timing.ahead_max_us:  # part of the fold of a source (A2.2), so of every result
        raise LaunchError(
            f"app {before.name!r} takes tuples up to {format_duration(told.ahead_max_us)} ahead of their source; with "
            f"`timing: ahead_max` {format_duration(timing.ahead_max_us)} other tuples would be in its results, which "
            f"could not be continued. Write `ahead_max: {format_duration(told.ahead_max_us)}`, or start anew with "
            "`borealis up --reset`"
        )
    if told.row_max_bytes != timing.row_max_bytes:  # likewise
        raise LaunchError(
            f"app {before.name!r} takes rows of up to {told.row_max_bytes} bytes; with `timing: row_max` "
            f"{timing.row_max_bytes} other rows would be in its results, which could not be continued. Write "
            f"`row_max: {told.row_max_bytes}`, or start anew with `borealis up --reset`"
        )
    statuses = read_statuses(log, before, now_us // 1000)
    running = [
        f"{node}.r{k}" for (node, k), s in statuses.items() if not health_of(s, before.spec.bucket_us, now_us).gone
    ]
    if running:
        raise LaunchError(
            f"app {before.name!r} runs ({', '.join(running)}) by another `timing:` than the configured one: "
            f"{', '.join(differences(told, timing))}. All of its replicas and subscribers share one, so it changes "
            f"between runs: `borealis down` wherever it runs and then `borealis up`, or write the old one in "
            f"borealis.yaml. (A replica that was killed counts as running for {GONE_S:g} s.)"
        )
