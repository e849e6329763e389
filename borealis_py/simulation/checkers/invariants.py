"""What must hold at every moment of a replica's life (A10): checked after each of its turns."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from borealis_py.log.stream import Encoded
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.states import ReplicaState
from borealis_py.simulation.violation import Violation
from sunion.input_buffers import StreamBuffer
from sunion.model import FOREVER, StableBucket, StreamRecord, TentativeBucket

OVERLAP_US = 500_000
"""Time that heartbeats need to announce the end of a grant; a longer overlap is a violation."""
ENDLESS_ROWS = 2_000_000
"""A budget that no world can use up: all its sources write a few thousand rows."""


def held_rows(manager: Manager) -> tuple[int, int]:
    """Rows that a replica holds of its inputs: all of them, and the tentative ones of buckets beyond F_l."""
    kept = ahead = 0
    for source in manager.union.inputs:
        kept += sum(len(part) for parts in source.rows.values() for part in parts)
        if not isinstance(source, StreamBuffer):
            continue
        fold = source.fold
        kept += sum(_rows_in(record) for queue in fold._queues for record in queue)
        for bucket, words in fold.tentative.items():
            rows = sum(_rows_in(word) for word in words.values())
            kept += rows
            ahead += rows if bucket > manager.f_l else 0
    return kept, ahead


def _rows_in(record: StreamRecord) -> int:
    rows = record.output.rows if isinstance(record, StableBucket | TentativeBucket) else None
    return sum(_count(part) for part in rows.parts) if isinstance(rows, Encoded) else 0


@lru_cache(100_000)
def _count(part: bytes) -> int:
    return len(json.loads(part))


@dataclass
class Overlap:
    """Measures how long several replicas of one node have been reconciling at once."""

    longest_us: int = 0
    _since: int | None = None
    _unpassed_since: int = 0
    _passed: bool = False
    _excused_until: int = 0

    def look(self, now_us: int, node: str, reconciling: Sequence[Manager], excused_until: int) -> int | None:
        """Set who reconciles from now on. Returns when to call `check` at the latest.

        Args:
            excused_until: FOREVER while a replica is cut off, paused or down; else the time until which that counts as
                recent.
        """
        self.check(now_us, node)
        if len(reconciling) < 2:
            self._since, self._passed = None, False
            return None
        if self._since is None:
            self._since = now_us
            self._unpassed_since = now_us
        if self._passed:
            self._unpassed_since = now_us
        self._passed = any(m.stagger.passed for m in reconciling)
        self._excused_until = excused_until
        at = max(self._unpassed_since, excused_until) + OVERLAP_US + 1
        return at if at < FOREVER else None

    def check(self, now_us: int, node: str) -> None:
        """Check that the overlap has not lasted until now without an excuse."""
        if self._since is None:
            return
        self.longest_us = max(self.longest_us, now_us - self._since)
        unexcused_us = now_us - max(self._unpassed_since, self._excused_until)
        if unexcused_us > OVERLAP_US and not self._passed:
            detail = f"replicas of {node} reconcile at once for {unexcused_us / 1e6} s, and nobody passed T"
            raise Violation("stagger", detail)


@dataclass
class Invariants:
    """Checks a replica after each turn. The limits: rows in memory, and records in flight to its own topic.

    `ran_us`: for each replica (node and index), when it ran (incarnation, bucket) live. `began`: (time, incarnation,
    bucket) of each first tentative bucket.
    """

    rows_max: int
    outbox_max: int
    reconciliations: int = 0
    ran_us: dict[tuple[str, int], dict[tuple[int, int], int]] = field(default_factory=dict)
    began: dict[tuple[str, int], list[tuple[int, int, int]]] = field(default_factory=dict)
    _largest: dict[str, int] = field(default_factory=dict)
    _frontiers: dict[str, tuple[int, int]] = field(default_factory=dict)

    def replica(self, now_us: int, node: str, name: str, manager: Manager) -> None:
        """Check a replica after a turn."""
        f_s, f_l = manager.f_s, manager.f_l
        found = manager.publishing.disagreement.found
        if found is not None:
            raise Violation("diverged", f"{name}: {found}", found.bucket)
        if f_s > f_l:
            raise Violation("frontiers", f"{name}: F_s {f_s} > F_l {f_l}", f_l)
        if (
            name not in self._frontiers
        ):  # a peer's checkpoint is ahead of the own topic: its buckets are emitted at once
            self._largest[name] = manager.output.waiting
        before = self._frontiers.get(name, (0, 0))
        if f_s < before[0] or f_l < before[1]:
            raise Violation("frontiers", f"{name}: ({f_s}, {f_l}) after {before}", f_s)
        self._frontiers[name] = (f_s, f_l)
        if f_l > f_s and f_l > before[1] > 0:
            self._ran(now_us, node, manager, before, f_s, f_l)
        level = manager.state in (ReplicaState.STABLE, ReplicaState.STANDBY)
        if level != (f_s == f_l) and manager.state is not ReplicaState.RECOVERING:
            raise Violation("state", f"{name}: {manager.state.value} at F_s {f_s}, F_l {f_l}", f_s)
        self._largest[name] = max(self._largest.get(name, 0), manager.reconciliation.job_buckets)  # output at once
        if manager.output.waiting > self.outbox_max + self._largest.get(name, 0):
            raise Violation("buffers", f"{name}: {manager.output.waiting} records are not acknowledged", f_s)
        self._memory(name, manager)

    def _memory(self, name: str, manager: Manager) -> None:
        """R6.2, counted independently where memory is short: all rows within the limit; tentative rows that are not
        used next only if there is room, or up to a quarter of it.
        """
        budget = manager.timing.buffer_rows_max
        if budget >= ENDLESS_ROWS:
            return
        kept, ahead = held_rows(manager)
        if kept > self.rows_max:
            raise Violation("buffers", f"{name}: {kept} rows in memory", manager.f_s)
        if ahead > max(budget // 4, budget - (kept - ahead)):
            said = f"{name}: {ahead} tentative rows beside {kept - ahead} others, in memory for {budget}"
            raise Violation("buffers", said, manager.f_l)

    def _ran(self, now_us: int, node: str, manager: Manager, before: tuple[int, int], f_s: int, f_l: int) -> None:
        key, inc = (node, manager.identity.replica), manager.identity.inc
        ran = self.ran_us.setdefault(key, {})
        for bucket in range(max(before[1], f_s), f_l):
            ran[inc, bucket] = now_us
        if before[0] == before[1]:
            self.began.setdefault(key, []).append((now_us, inc, f_s))
