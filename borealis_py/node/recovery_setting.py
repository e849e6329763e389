"""How a node recovers, as users set it while it runs (`recovery/<node>` in the settings topic)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import msgspec
import structlog

from borealis_py.log.base import Log, Lookup, Record
from borealis_py.log.description import Life
from borealis_py.log.messages import RecoverySetting, decode
from borealis_py.log.unreadable import ignored
from borealis_py.node.endings import WayChanged
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.settings import Timing
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay

log = structlog.get_logger(__package__)

STANDBY_BEAT_US = 100_000
INCREMENTS_MAX, INCREMENTS_US = 240, 600_000_000
"""How many increments follow one base at most, and over how many microseconds: a start reads them all, and the log is
kept for the oldest base."""
KIND = "recovery"
"""What the keys of these settings begin with."""


def plan_said(record: Record, life: Life) -> RecoveryPlan | None:
    """What a setting of a node says; None: nothing, since it belongs to another life of the app.

    Raises:
        msgspec.DecodeError, msgspec.ValidationError: it is none that can be obeyed.
    """
    setting = decode(record.value or b"", RecoverySetting)
    return setting.plan if life.owns(record, setting.app_uid) else None


def in_force(spec: ReplicaSpec, lookup: Lookup) -> RecoveryPlan:
    """How the replica's node recovers now: by the last setting of it in the log, else as the app's file says. Settings
    of other lives, and those that cannot be obeyed, are logged and count as not written. Blocking.

    Raises:
        LogError: the settings could not be read.
    """
    life, key = Life(spec.app_uid), f"{KIND}/{spec.node}".encode()
    found = spec.recovery
    first, end = lookup.bounds(spec.settings_feed)
    for record in lookup.read(spec.settings_feed, first, end):
        if record.key == key:
            try:
                found = plan_said(record, life) or found
            except msgspec.DecodeError as exc:
                ignored(log, "setting ignored", record, exc, key=key.decode())
    return found


def recovering_as_set(specs: Sequence[ReplicaSpec], log_: Log) -> list[ReplicaSpec]:
    """The same with the ways of recovery that are in force. Blocking. Raises LogError."""
    with closing(log_.lookup()) as lookup:
        return [replace(spec, recovery=in_force(spec, lookup)) for spec in specs]


def obey(spec: ReplicaSpec, said: RecoveryPlan | None) -> None:
    """Raises WayChanged: `said`, the last setting that was read, is not how this incarnation recovers."""
    if said is not None and said != spec.recovery:
        raise WayChanged(f"node {spec.node} recovers by {said.way} now")


def paced(timing: Timing, plan: RecoveryPlan) -> Timing:
    """The timing of a replica whose node recovers like that: a standby tells by heartbeats that nobody runs, and a
    passive one gets a checkpoint in each interval."""
    if plan.stands_by:
        timing = replace(timing, heartbeat_us=min(timing.heartbeat_us, STANDBY_BEAT_US))
    if plan.way is RecoveryWay.PASSIVE_STANDBY:
        timing = replace(timing, checkpoint_us=plan.sync_us)
    return timing


def increments_of(plan: RecoveryPlan) -> int:
    """How many increments at most follow a base, by the way of recovery. Only a passive standby needs a checkpoint so
    often; the others' are rare, and where each is whole less of the log is kept for an old one (R16.2)."""
    return min(INCREMENTS_MAX, INCREMENTS_US // plan.sync_us) if plan.way is RecoveryWay.PASSIVE_STANDBY else 0
