"""The kinds of faults, each of one fault class F1 to F14, and the moments that a fault may be aimed at.

Only values: how a fault is done to a world is `faults`' affair, which ones happen is drawn in `runner.generator`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

CLASSES = {
    "F1": "kill and restart, also back to back",
    "F2": "pause and resume",
    "F3": "clean stop, rolling restart",
    "F4": "partition: full, one node, partial, one-way, with or without the control log",
    "F5": "resets, loss, slow link, clogged and released",
    "F6": "delay, reorder between topics, old requests arriving late",
    "F7": "clock skew and jumps",
    "F8": "disk full, write error, torn file, zombie overwriting",
    "F9": "zombies: replica, publisher, writer of the corrected stream, redo, parts of a life that is over",
    "F10": "broker down and back, leader change, error codes, retention past our position, topics made again",
    "F11": "unknown outcome of a send or commit that may have happened",
    "F12": "redo or kernel fails; a redo hangs, is slow, out of memory, its JVM dies",
    "F13": "input lost, heartbeats lost while data flows, flapping, all replicas at once",
    "F14": "poison tuple, schema change, oversized, garbage in any topic, buffer limit reached",
}


class Target(Enum):
    """What a fault's index names."""

    SOURCE = "source"
    REPLICA = "replica"
    NODE = "node"
    WORLD = "world"


class Aim(Enum):
    """A moment at which an aimed fault strikes: the first such one after its time."""

    GRANTED = "a replica was granted its reconciliation: at it"
    PUBLISHER = "a replica has begun to write the corrected stream: at it"
    TRANSACTION = "inside a transaction: at its writer"
    CHECKPOINT = "while a checkpoint is being written: at its replica"
    REC_DONE = "right after REC_DONE: at the replica that said it"
    RECONCILING = "while another replica reconciles: at this one, or at a source"


AT_SUBJECT = frozenset({Aim.GRANTED, Aim.PUBLISHER, Aim.TRANSACTION, Aim.CHECKPOINT, Aim.REC_DONE})
"""Aims that choose the replica which is hit."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How often a kind is drawn (weight), what it is about, its longest duration, its variants."""

    fault_class: str
    weight: int
    target: Target
    longest_s: float = 0.0
    details: tuple[str, ...] = ("",)
    aims: tuple[Aim, ...] = ()


_S, _R, _N, _W = Target.SOURCE, Target.REPLICA, Target.NODE, Target.WORLD
_EVERY = tuple(Aim)
_DURING = (Aim.RECONCILING,)

KINDS: dict[str, Kind] = {
    "crash": Kind("F1", 6, _R, 5, aims=_EVERY),
    "crash_loop": Kind("F1", 3, _R, 4, aims=_EVERY),
    "source_crashes": Kind("F1", 4, _S, 5, aims=_DURING),
    "pause": Kind("F2", 4, _R, 6, aims=_EVERY),
    "source_hangs": Kind("F2", 4, _S, 7, aims=_DURING),
    "client_pauses": Kind("F2", 1, _W, 4),
    "stop": Kind("F3", 3, _R, 3, aims=_EVERY),
    "rolling": Kind("F3", 2, _N, 4),
    "source_stops": Kind("F3", 2, _S, 3),
    "cut_all": Kind("F4", 3, _R, 4, aims=_EVERY),
    "cut_node": Kind("F4", 2, _N, 4),
    "cut_control": Kind("F4", 2, _R, 5, aims=_EVERY),
    "cut_but_control": Kind("F4", 2, _R, 4, aims=_EVERY),
    "cut_own": Kind("F4", 2, _R, 4, aims=_EVERY),
    "cut_input": Kind("F4", 3, _R, 5, ("0", "1", "2", "3"), _DURING),
    "cut_corrected": Kind("F4", 2, _R, 4, aims=_EVERY),
    "cut_some": Kind("F4", 2, _R, 4, ("0", "1", "2", "3", "4", "5"), _DURING),
    "one_way": Kind("F4", 3, _R, 4, ("in", "out"), _EVERY),
    "source_cut": Kind("F4", 6, _S, 7, aims=_DURING),
    "resets": Kind("F5", 2, _R, 5, aims=_EVERY),
    "loss": Kind("F5", 2, _R, 5, aims=_DURING),
    "slow": Kind("F5", 2, _R, 5, aims=_DURING),
    "clogged": Kind("F5", 2, _R, 3, aims=_DURING),
    "source_slow": Kind("F5", 2, _S, 5),
    "reorder": Kind("F6", 3, _R, 6, aims=_DURING),
    "late_requests": Kind("F6", 3, _R, 4, aims=_EVERY),
    "wall_clock": Kind("F7", 2, _R, 6, ("-3600", "-1", "0.5", "3600")),
    "source_clock": Kind("F7", 2, _S, 5, ("-0.6", "-0.2", "0.15", "0.4")),
    "source_drift": Kind("F7", 2, _S, 6, ("-0.05", "0.05")),
    "disk_full": Kind("F8", 2, _R, 8, aims=(Aim.CHECKPOINT,)),
    "disk_torn": Kind("F8", 3, _R, 3, aims=(Aim.CHECKPOINT, Aim.REC_DONE)),
    "disk_zombie": Kind("F8", 2, _R, 3, aims=(Aim.CHECKPOINT, Aim.REC_DONE)),
    "zombie": Kind("F9", 3, _R, 3, aims=_EVERY),
    "twins": Kind("F9", 3, _R, 3, ("", "unheard"), _EVERY),
    "source_duel": Kind("F9", 3, _S, 4),
    "source_deaf": Kind("F9", 3, _S, 7),
    "sleeper": Kind("F9", 2, _R, 5, aims=_EVERY),
    "redo_zombie": Kind("F9", 2, _N, 8),
    "reset": Kind("F9", 2, _W, 5, ("replica", "publisher", "writer", "all")),
    "broker_gone": Kind("F10", 1, _W, 2, aims=_DURING),
    "leader": Kind("F10", 3, _W, 2, aims=_DURING),
    "refused": Kind("F10", 2, _R, 0, aims=_EVERY),
    "trim": Kind("F10", 2, _W, 0),
    "retention": Kind("F10", 1, _S, 5),
    "expired": Kind("F10", 2, _R, 4, ("read", "unread", "starting")),
    "made_again": Kind("F10", 1, _W, 2),
    "compacted": Kind("F10", 2, _W, 8),
    "corrected_away": Kind("F10", 2, _W, 8),
    "commits": Kind("F11", 3, _W, 5),
    "commits_grow": Kind("F11", 2, _W),
    "markers_lost": Kind("F10", 2, _W, 5, ("", "all")),
    "sends": Kind("F11", 2, _R, 0, aims=_EVERY),
    "source_sends": Kind("F11", 2, _S, 0),
    "redos": Kind("F12", 5, _R, 8, ("hang", "fail", "slow", "late", "memory")),
    "jvm": Kind("F12", 3, _N, 6),
    "kernel": Kind("F12", 2, _R, 5, ("", "always"), _EVERY),
    "source_failed": Kind("F13", 5, _S, 6, aims=_DURING),
    "source_flaps": Kind("F13", 3, _S, 6, aims=_DURING),
    "beats_lost": Kind("F13", 2, _R, 5, aims=_EVERY),
    "source_mute": Kind("F13", 3, _S, 5, aims=_DURING),
    "crash_node": Kind("F13", 2, _N, 3),
    "garbage": Kind("F14", 3, _S),
    "big": Kind("F14", 2, _S),
    "burst": Kind("F14", 2, _S, 3),
    "poison": Kind("F14", 2, _S),
    "bad_control": Kind("F14", 2, _N, 3, aims=_DURING),
    "bad_settings": Kind("F14", 2, _W, 3),
    "bad_progress": Kind("F14", 2, _N, 3, aims=_EVERY),
    "threshold": Kind("", 2, _W, 0, ("1000000", "2000000", "3000000", "5000000")),
    "policy": Kind("", 2, _W, 0),
    "nonsense": Kind("", 1, _W),
}
"""Threshold and policy changes are of no class: nothing is wrong with them."""
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
)
"""Kinds that came when worlds were known by their seeds: dice of their own leave all else of a world as it was."""
