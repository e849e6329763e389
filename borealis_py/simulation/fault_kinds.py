"""The kinds of faults, each in one fault class F1 to F14, and the failpoints at which a fault may be aimed.

Values only: `faults` inflicts them, `runner.generator` draws them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from borealis_py.query.recovery import RecoveryWay

CLASSES = {
    "F1": "kill and restart, also back to back",
    "F2": "pause and resume",
    "F3": "clean stop, rolling restart",
    "F4": "partition: full, one node, partial, one-way, with or without the control log",
    "F5": "resets, loss, slow link, quota, clogged and released",
    "F6": "delay, reorder between topics, old requests arriving late",
    "F7": "clock skew and jumps",
    "F8": "disk full, write error, torn file, zombie overwriting",
    "F9": "zombies: replica, publisher, writer of the corrected stream, redo, parts of a life that is over",
    "F10": "broker down and back, leader change, followers behind, coordinator moved, a stranger's open transaction, "
    "error codes, retention past our position, topics made again, expired ids",
    "F11": "unknown outcome of a send or commit that may have happened",
    "F12": "redo or kernel fails; a redo hangs, is slow, out of memory, its JVM dies",
    "F13": "input lost, heartbeats lost while data flows, flapping, all replicas at once",
    "F14": "poison tuple, schema change, oversized, garbage in any topic, buffer limit reached",
}


class FaultTarget(Enum):
    """What a fault's index refers to."""

    SOURCE = "source"
    REPLICA = "replica"
    NODE = "node"
    WORLD = "world"


class Failpoint(Enum):
    """A moment at which an aimed fault strikes: the first one after its time."""

    GRANTED = "a replica was granted its reconciliation: at it"
    PUBLISHER = "a replica has begun to write the corrected stream: at it"
    TRANSACTION = "inside a transaction: at its writer"
    CHECKPOINT = "while a checkpoint is being written: at its replica"
    REC_DONE = "right after REC_DONE: at the replica that said it"
    RECONCILING = "while another replica reconciles: at this one, or at a source"
    TAKE_OVER = "a standby has taken over: at it"
    TRIMMING = "a topic is trimmed: at the replica that trims it"


AT_SUBJECT = frozenset(set(Failpoint) - {Failpoint.RECONCILING})
"""Failpoints that choose the replica which is hit."""
LATER_AIMS = (Failpoint.TAKE_OVER, Failpoint.TRIMMING)
"""Failpoints at which faults are drawn separately, so that all others stay as they were."""


@dataclass(frozen=True, slots=True)
class FaultKind:
    """How often a kind is drawn (weight), its target, its longest duration, its variants."""

    fault_class: str
    weight: int
    target: FaultTarget
    longest_s: float = 0.0
    details: tuple[str, ...] = ("",)
    aims: tuple[Failpoint, ...] = ()


WAYS_SET = tuple(way.value for way in RecoveryWay)
"""What a node's way of recovery is changed to."""
_S, _R, _N, _W = FaultTarget.SOURCE, FaultTarget.REPLICA, FaultTarget.NODE, FaultTarget.WORLD
_EVERY = tuple(aim for aim in Failpoint if aim not in LATER_AIMS)
_DURING = (Failpoint.RECONCILING,)

KINDS: dict[str, FaultKind] = {
    "crash": FaultKind("F1", 6, _R, 5, aims=_EVERY),
    "crash_loop": FaultKind("F1", 3, _R, 4, aims=_EVERY),
    "source_crashes": FaultKind("F1", 4, _S, 5, aims=_DURING),
    "pause": FaultKind("F2", 4, _R, 6, aims=_EVERY),
    "source_hangs": FaultKind("F2", 4, _S, 7, aims=_DURING),
    "client_pauses": FaultKind("F2", 1, _W, 4),
    "stop": FaultKind("F3", 3, _R, 3, aims=_EVERY),
    "rolling": FaultKind("F3", 2, _N, 4),
    "source_stops": FaultKind("F3", 2, _S, 3),
    "cut_all": FaultKind("F4", 3, _R, 4, aims=_EVERY),
    "cut_node": FaultKind("F4", 2, _N, 4),
    "cut_control": FaultKind("F4", 2, _R, 5, aims=_EVERY),
    "cut_but_control": FaultKind("F4", 2, _R, 4, aims=_EVERY),
    "cut_own": FaultKind("F4", 2, _R, 4, aims=_EVERY),
    "cut_input": FaultKind("F4", 3, _R, 5, ("0", "1", "2", "3"), _DURING),
    "cut_corrected": FaultKind("F4", 2, _R, 4, aims=_EVERY),
    "cut_some": FaultKind("F4", 2, _R, 4, ("0", "1", "2", "3", "4", "5"), _DURING),
    "one_way": FaultKind("F4", 3, _R, 4, ("in", "out"), _EVERY),
    "source_cut": FaultKind("F4", 6, _S, 7, aims=_DURING),
    "resets": FaultKind("F5", 2, _R, 5, aims=_EVERY),
    "loss": FaultKind("F5", 2, _R, 5, aims=_DURING),
    "slow": FaultKind("F5", 2, _R, 5, aims=_DURING),
    "clogged": FaultKind("F5", 2, _R, 3, aims=_DURING),
    "source_slow": FaultKind("F5", 2, _S, 5),
    "quota": FaultKind("F5", 2, _R, 4, aims=_DURING),
    "source_quota": FaultKind("F5", 2, _S, 4),
    "reorder": FaultKind("F6", 3, _R, 6, aims=_DURING),
    "late_requests": FaultKind("F6", 3, _R, 4, aims=_EVERY),
    "wall_clock": FaultKind("F7", 2, _R, 6, ("-3600", "-1", "0.5", "7200")),
    "source_clock": FaultKind("F7", 2, _S, 5, ("-0.6", "-0.2", "0.15", "0.4")),
    "source_drift": FaultKind("F7", 2, _S, 6, ("-0.05", "0.05")),
    "disk_full": FaultKind("F8", 2, _R, 8, aims=(Failpoint.CHECKPOINT,)),
    "disk_torn": FaultKind("F8", 3, _R, 3, ("", "base"), aims=(Failpoint.CHECKPOINT, Failpoint.REC_DONE)),
    "disk_zombie": FaultKind("F8", 2, _R, 3, aims=(Failpoint.CHECKPOINT, Failpoint.REC_DONE)),
    "zombie": FaultKind("F9", 3, _R, 3, aims=_EVERY),
    "twins": FaultKind("F9", 3, _R, 3, ("", "unheard"), _EVERY),
    "source_duel": FaultKind("F9", 3, _S, 4),
    "source_deaf": FaultKind("F9", 3, _S, 7),
    "sleeper": FaultKind("F9", 2, _R, 5, aims=_EVERY),
    "redo_zombie": FaultKind("F9", 2, _N, 8),
    "reset": FaultKind("F9", 2, _W, 5, ("replica", "publisher", "writer", "all")),
    "broker_gone": FaultKind("F10", 1, _W, 2, aims=_DURING),
    "leader": FaultKind("F10", 3, _W, 2, aims=_DURING),
    "refused": FaultKind("F10", 2, _R, 0, aims=_EVERY),
    "trim": FaultKind("F10", 2, _W, 0),
    "retention": FaultKind("F10", 1, _S, 5),
    "expired": FaultKind("F10", 2, _R, 4, ("read", "unread", "starting")),
    "made_again": FaultKind("F10", 1, _W, 2),
    "compacted": FaultKind("F10", 2, _W, 8),
    "corrected_away": FaultKind("F10", 2, _W, 8),
    "commits": FaultKind("F11", 3, _W, 5),
    "commits_grow": FaultKind("F11", 2, _W),
    "markers_lost": FaultKind("F10", 2, _W, 5, ("", "all")),
    "lagging": FaultKind("F10", 3, _W, 3, ("", "truncated"), aims=_DURING),
    "coordinator": FaultKind("F10", 3, _W, 4, aims=_EVERY),
    "open_transaction": FaultKind("F10", 3, _W, 4, aims=_DURING),
    "id_expired": FaultKind("F10", 2, _N),
    "sends": FaultKind("F11", 2, _R, 0, aims=_EVERY),
    "source_sends": FaultKind("F11", 2, _S, 0),
    "redos": FaultKind("F12", 5, _R, 8, ("hang", "fail", "slow", "late", "memory")),
    "jvm": FaultKind("F12", 3, _N, 6),
    "kernel": FaultKind("F12", 2, _R, 5, ("", "always"), _EVERY),
    "source_failed": FaultKind("F13", 5, _S, 6, aims=_DURING),
    "source_flaps": FaultKind("F13", 3, _S, 6, aims=_DURING),
    "beats_lost": FaultKind("F13", 2, _R, 5, aims=_EVERY),
    "source_mute": FaultKind("F13", 3, _S, 5, aims=_DURING),
    "crash_node": FaultKind("F13", 2, _N, 3),
    "garbage": FaultKind("F14", 3, _S),
    "big": FaultKind("F14", 2, _S),
    "burst": FaultKind("F14", 2, _S, 3),
    "poison": FaultKind("F14", 2, _S),
    "bad_control": FaultKind("F14", 2, _N, 3, aims=_DURING),
    "bad_settings": FaultKind("F14", 2, _W, 3),
    "bad_progress": FaultKind("F14", 2, _N, 3, aims=_EVERY),
    "scribbles": FaultKind("F14", 2, _W, 5),
    "threshold": FaultKind("", 2, _W, 0, ("1000000", "2000000", "3000000", "5000000")),
    "policy": FaultKind("", 2, _W, 0),
    "nonsense": FaultKind("", 1, _W),
    "recovery": FaultKind("", 2, _N, 0, WAYS_SET, (*_EVERY, Failpoint.TAKE_OVER)),
}
"""Changes of threshold, policy and way of recovery are in no class: nothing is wrong with them."""
LATER = (
    "poison",
    "twins",
    "expired",
    "made_again",
    "compacted",
    "kernel",
    "bad_control",
    "bad_settings",
    "bad_progress",
    "corrected_away",
    "commits_grow",
    "reset",
    "markers_lost",
    "source_deaf",
    "recovery",
    "quota",
    "source_quota",
    "lagging",
    "coordinator",
    "open_transaction",
    "id_expired",
    "scribbles",
)
"""Kinds drawn by separate random generators, so that the rest of a seed's world does not depend on them."""
AIMED = tuple(name for name, kind in KINDS.items() if kind.aims == _EVERY and name not in LATER)
"""Kinds that may strike where a standby takes over, or a topic is trimmed."""
