"""What must hold in every simulated world, whatever goes wrong in it (protocol A5).

`Watch` looks on while the world runs; `judge` looks at what lies in the log when it is over. Both are written against
the protocol's statements, not against the code: the answer comes from `sim.truth`.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from borealis_py.log.base import Record
from borealis_py.log.records import (
    RangeHeader,
    RecDoneHeader,
    StableHeader,
    TentativeHeader,
    UndoHeader,
    unpack_stream,
)
from borealis_py.log.stream import Encoded
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.states import ReplicaState
from borealis_py.sim.truth import Letter, Truth
from sunion.model import FOREVER, Kind
from sunion.view import Change

OVERLAP_US = 500_000
"""Heartbeats need this long to tell of the end of a grant; a longer overlap is one."""


class Violation(Exception):
    """An oracle failed. `oracle` is its name."""

    def __init__(self, oracle: str, detail: str) -> None:
        super().__init__(f"{oracle}: {detail}")
        self.oracle = oracle
        self.detail = detail


class ClientPicture:
    """A client that believes the changes it is told, and checks that they make sense."""

    def __init__(self, origin: int) -> None:
        self.start = self.stable = origin
        self.rows: dict[int, list[list[Any]]] = {}
        self.tentative: set[int] = set()
        self.arrival: dict[int, int] = {}
        self.seen = origin
        self.tentative_seen = 0
        self._undone_from: int | None = None

    def apply(self, now_us: int, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.kind is Kind.UNDO:
                self._undone_from = change.bucket
            elif change.kind is Kind.REC_DONE:
                left = [b for b in self.tentative if b < change.bucket]
                if left:
                    raise Violation("rec_done", f"REC_DONE({change.bucket}) while {left} are tentative")
                self._undone_from = None
            elif change.kind is Kind.TENTATIVE:
                self._tentative(change)
                self._arrived(now_us, change)
            else:
                self._stable(change)
                self._arrived(now_us, change)

    def _tentative(self, change: Change) -> None:
        if change.bucket < self.stable:
            raise Violation("client", f"tentative bucket {change.bucket} below the stable frontier {self.stable}")
        self.tentative_seen += 1
        self.tentative.add(change.bucket)
        self._put(change.bucket, change)

    def _stable(self, change: Change) -> None:
        if change.bucket != self.stable:
            raise Violation("client", f"stable bucket {change.bucket}, expected {self.stable}")
        replaced = {b for b in self.tentative if b < change.end}
        if replaced and (self._undone_from is None or self._undone_from > min(replaced)):
            raise Violation("undo", f"tentative buckets {sorted(replaced)} replaced without UNDO")
        for bucket in replaced:
            self.rows.pop(bucket, None)
        self.tentative -= replaced
        if change.kind is Kind.STABLE:
            self._put(change.bucket, change)
        self.stable = change.end

    def _put(self, bucket: int, change: Change) -> None:
        rows = change.output.rows
        self.rows.pop(bucket, None)
        if isinstance(rows, Encoded):
            self.rows[bucket] = [row for part in rows.parts for row in json.loads(part)]

    def _arrived(self, now_us: int, change: Change) -> None:
        if change.kind is Kind.TENTATIVE:
            self.arrival.setdefault(change.bucket, now_us)
            self.seen = max(self.seen, change.bucket + 1)
            return
        for bucket in range(change.bucket, min(change.end, change.bucket + 10_000)):  # END closes all there ever are
            self.arrival.setdefault(bucket, now_us)
        self.seen = max(self.seen, change.end)


@dataclass
class Watch:
    """Looks on. The limits: what a replica may hold in memory, and have on its way to its own topic."""

    rows_max: int
    outbox_max: int
    overlaps: int = 0
    overlap_us: int = 0
    reconciliations: int = 0
    frontiers: dict[str, tuple[int, int]] = field(default_factory=dict)
    states: dict[str, ReplicaState] = field(default_factory=dict)
    ran_us: dict[int, dict[tuple[int, int], int]] = field(default_factory=dict)
    _since: int | None = None
    _excused: bool = False

    def replica(self, now_us: int, name: str, manager: Manager) -> None:
        """After every turn of a replica."""
        f_s, f_l = manager.f_s, manager.f_l
        if f_s > f_l:
            raise Violation("frontiers", f"{name}: F_s {f_s} > F_l {f_l}")
        before = self.frontiers.get(name, (0, 0))
        if f_s < before[0] or f_l < before[1]:
            raise Violation("frontiers", f"{name}: ({f_s}, {f_l}) after {before}")
        self.frontiers[name] = (f_s, f_l)
        if f_l > f_s and before[1]:
            ran = self.ran_us.setdefault(manager.identity.replica, {})
            for bucket in range(max(before[1], f_s), f_l):
                ran[manager.identity.inc, bucket] = now_us
        if (manager.state is ReplicaState.STABLE) != (f_s == f_l) and manager.state is not ReplicaState.RECOVERING:
            raise Violation("state", f"{name}: {manager.state.value} at F_s {f_s}, F_l {f_l}")
        if manager.output.waiting > self.outbox_max:
            raise Violation("buffers", f"{name}: {manager.output.waiting} records are not acknowledged")
        if manager.union.kept_rows > self.rows_max:
            raise Violation("buffers", f"{name}: {manager.union.kept_rows} rows in memory")
        if self.states.get(name) is not manager.state:
            if manager.state is ReplicaState.STABILIZATION:
                self.reconciliations += 1
            self.states[name] = manager.state

    def overlap(self, now_us: int, reconciling: Sequence[Manager], troubled: bool) -> None:
        """At every look: who reconciles now. `troubled`: somebody is or was lately cut off, paused or restarted."""
        if len(reconciling) < 2:
            self._since = None
            return
        if self._since is None:
            self._since, self._excused = now_us, False
            self.overlaps += 1
        self._excused = self._excused or troubled or any(m.stagger._passed for m in reconciling)
        self.overlap_us = max(self.overlap_us, now_us - self._since)
        if now_us - self._since > OVERLAP_US and not self._excused:
            names = [m.identity.replica for m in reconciling]
            raise Violation("stagger", f"replicas {names} reconcile at once since {self._since}, and nobody passed T")


def stable_records(name: str, log: Sequence[Record], truth: Truth, origin: int) -> int:
    """S.r<k>: first occurrences without holes, every STABLE record the failure-free one. Returns the frontier."""
    next_ = origin
    parts: list[Any] = []
    letters: list[Letter] = []
    for record in log:
        header, payload = unpack_stream(record.value)
        if isinstance(header, RangeHeader):
            _no_hole(name, header.first, next_, record.offset)
            _empty(name, header, truth)
            next_ = max(next_, header.end)
        elif isinstance(header, StableHeader):
            _no_hole(name, header.bucket, next_, record.offset)
            if header.part == 0:
                parts, letters = [], [(r.source, r.offset, r.reason.split()[0].strip(":")) for r in header.rejects]
            parts += json.loads(bytes(payload)) if payload else []
            if header.part + 1 == header.parts:
                _equal(name, header.bucket, record.offset, parts, letters, truth)
                next_ = max(next_, header.bucket + 1)
        elif isinstance(header, TentativeHeader):
            _label(name, header, payload, truth)
        else:
            assert isinstance(header, UndoHeader | RecDoneHeader)
    return next_


def _no_hole(name: str, first: int, next_: int, offset: int) -> None:
    if first > next_:
        raise Violation("hole", f"{name}: bucket {first} at offset {offset}, but {next_} was never said")


def _empty(name: str, header: RangeHeader, truth: Truth) -> None:
    if header.end > truth.complete:
        raise Violation("stable", f"{name}: [{header.first}, {header.end}) is stable beyond {truth.complete}")
    busy = [b for b in (*truth.rows, *truth.letters) if header.first <= b < header.end]
    if busy:
        raise Violation("stable", f"{name}: [{header.first}, {header.end}) is said to be empty, {min(busy)} is not")


def _equal(name: str, bucket: int, offset: int, rows: list[Any], letters: list[Letter], truth: Truth) -> None:
    if bucket >= truth.complete:
        raise Violation("stable", f"{name}: bucket {bucket} is stable, the sources close only {truth.complete}")
    expected = truth.rows.get(bucket, [])
    if rows != expected:
        raise Violation("stable", f"{name}: bucket {bucket} at offset {offset} has {rows}, expected {expected}")
    wanted = truth.letters.get(bucket, [])
    if Counter(letters) != Counter(wanted):
        raise Violation("dead letters", f"{name}: bucket {bucket} says {letters}, expected {wanted}")


def _label(name: str, header: TentativeHeader, payload: memoryview, truth: Truth) -> None:
    """A tentative result that differs must say what it lacks."""
    if not 0 <= header.completeness <= 1 or header.diverged_from > header.bucket:
        raise Violation("label", f"{name}: {header}")
    if header.bucket >= truth.complete or header.part or header.parts != 1:
        return
    rows = json.loads(bytes(payload)) if payload else []
    expected = truth.rows.get(header.bucket, [])
    if rows != expected and header.completeness >= 1:
        raise Violation("label", f"{name}: tentative bucket {header.bucket} differs and claims completeness 1")
    passed = [row[:3] for row in rows if row[1] == "row"]
    if passed != [row[:3] for row in expected if row[1] == "row"] and not header.lacked:
        raise Violation("label", f"{name}: tentative bucket {header.bucket} misses rows and lacks nothing")


def corrected(
    log: Sequence[Record], letters: Sequence[Record], progress: Sequence[tuple[int, int]], truth: Truth
) -> None:
    """Exactly once, in order, a prefix at all times; dead letters likewise.

    Args:
        progress: (rows visible, progress) at every moment at which progress became visible.
    """
    expected = [(f"{bucket}:{i}", row) for bucket in sorted(truth.rows) for i, row in enumerate(truth.rows[bucket])]
    found = [(dict(r.headers)["id"].decode(), json.loads(r.value or b"null")) for r in log]
    for i, one in enumerate(found):
        if i >= len(expected) or one != expected[i]:
            wanted = expected[i] if i < len(expected) else "nothing"
            raise Violation("corrected", f"row {i} is {one}, expected {wanted}")
    before: dict[int, int] = {}
    for rows, bucket in progress:
        if bucket not in before:
            before[bucket] = sum(len(v) for b, v in truth.rows.items() if b < bucket)
        if rows != before[bucket]:
            raise Violation("corrected", f"progress {bucket} with {rows} rows, expected {before[bucket]}")
    last = max((bucket for _, bucket in progress), default=0)
    _dead_letters(letters, truth, last)


def _dead_letters(log: Sequence[Record], truth: Truth, progress: int) -> None:
    mine = [dict(r.headers) for r in log]
    found = Counter(
        (h["source"].decode(), int(h["offset"]), h["reason"].decode().split()[0].strip(":"))
        for h in mine
        if "query" in h
    )
    expected = Counter(one for b, many in truth.letters.items() if b < progress for one in many)
    if found != expected:
        raise Violation("dead letters", f"too many {found - expected}, missing {expected - found}")


def client(picture: ClientPicture, truth: Truth) -> None:
    """What the client holds below its stable frontier is the failure-free output."""
    if picture.stable > truth.complete:
        raise Violation("client", f"stable up to {picture.stable}, the sources close only {truth.complete}")
    for bucket in sorted(picture.rows.keys() | truth.rows.keys()):
        if bucket < picture.start:
            continue
        if bucket >= picture.stable:
            break
        if bucket in picture.tentative or picture.rows.get(bucket, []) != truth.rows.get(bucket, []):
            raise Violation("client", f"bucket {bucket} holds {picture.rows.get(bucket)}, not {truth.rows.get(bucket)}")


@dataclass(slots=True)
class Clean:
    """When something was free of faults: intervals of simulated time."""

    spans: list[tuple[int, int]] = field(default_factory=list)
    since: int | None = None

    def update(self, now_us: int, clean: bool) -> None:
        if clean and self.since is None:
            self.since = now_us
        elif not clean and self.since is not None:
            self.spans.append((self.since, now_us))
            self.since = None

    def close(self, now_us: int) -> None:
        self.update(now_us, False)

    def covers(self, first_us: int, last_us: int) -> bool:
        return any(a <= first_us and last_us <= b for a, b in self.spans)


UNREAD_US = 1_000_000
"""A replica that is up and can reach a source has looked for its end within this."""


def needless(
    name: str,
    log: Sequence[Record],
    ran_us: Mapping[tuple[int, int], int],
    sources: Mapping[str, tuple[Clean, Sequence[tuple[int, int]]]],
    width_us: int,
    delta_us: int,
) -> None:
    """No bucket runs without a source that was in time for it and lies in the log, readable (B14).

    One that was late for the bucket may be left out for good, if the replica had looked before it stood still.

    Args:
        ran_us: when (incarnation, bucket) ran live.
        sources: for each one when this replica could read it, and (first open bucket, time at which it became so).
    """
    for record in log:
        header, _ = unpack_stream(record.value)
        if not isinstance(header, TentativeHeader):
            continue
        at = ran_us.get((header.inc, header.bucket), 0)
        for source in header.lacked if at else ():
            readable, closings = sources[source]
            closed = bisect_right(closings, (header.bucket, FOREVER))
            if closed == len(closings):
                continue
            there = closings[closed][1]
            in_time = there < (header.bucket + 1) * width_us + delta_us
            if in_time and there < at - UNREAD_US and readable.covers(at - UNREAD_US, at):
                detail = f"bucket {header.bucket} ran without {source}, in the log for {(at - there) / 1e6} s"
                raise Violation("needless", f"{name}: {detail}")


def premature(name: str, ran_us: Mapping[tuple[int, int], int], width_us: int, wait_us: int) -> None:
    """No bucket runs incomplete before its time (B9): sources are slow to end it, not this early.

    Args:
        ran_us: when (incarnation, bucket) ran live. wait_us: the least wait past a bucket's end, less clock skew.
    """
    for (inc, bucket), at in ran_us.items():
        early = (bucket + 1) * width_us + wait_us - at
        if early > 0:
            raise Violation("premature", f"{name}.{inc}: bucket {bucket} ran {early / 1e6:.3f} s before its time")


SETTLE_US = 1_000_000
"""How long a replica and a source must have been clean before a bucket, for the bound to be asked of it."""


def availability(
    arrival: Mapping[int, int],
    buckets: range,
    width_us: int,
    bound_us: int,
    sources: Sequence[Clean],
    replicas: Sequence[Sequence[Clean]],
) -> tuple[int, int]:
    """Every bucket that a clean replica could make of some clean source has left within the bound.

    Args:
        arrival: when the client first had anything of a bucket.
        bound_us: X plus what a bucket takes without failures, past the bucket's end.
        replicas: for each replica one `Clean` a source: the replica and its way to that source.

    Returns:
        How many buckets the bound was asked of, and the greatest delay among them.
    """
    asked = worst = 0
    for bucket in buckets:
        end = (bucket + 1) * width_us
        first, last = end - width_us - SETTLE_US, end + bound_us
        could = any(
            source.covers(first, end + width_us) and path.covers(first, last)
            for paths in replicas
            for source, path in zip(sources, paths, strict=True)
        )
        if not could:
            continue
        asked += 1
        delay = arrival.get(bucket, last + 10**9) - end
        worst = max(worst, delay)
        if delay > bound_us:
            when = f"{delay / 1e6:.3f} s past its end" if bucket in arrival else "never"
            raise Violation("availability", f"bucket {bucket} came {when}, bound {bound_us / 1e6:.3f} s")
    return asked, worst
