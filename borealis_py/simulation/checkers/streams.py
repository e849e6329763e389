"""What the replicas of a node have said: each in its topic, and where one runs and the others stand by, between them.

Who takes over begins at a checkpoint of any of them, so its topic has a hole below. What the checkpoint stands on lies
in another topic then, since before: readers rest on both (B2).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from borealis_py.log.base import Record
from borealis_py.log.records import (
    GapHeader,
    RangeHeader,
    RecDoneHeader,
    StableHeader,
    TentativeHeader,
    UndoHeader,
    unpack_stream,
)
from borealis_py.log.topics import own_feeds
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.simulation.reference_model import NodeTruth, TruthDeadLetter
from borealis_py.simulation.scenario import SimulatedNode
from borealis_py.simulation.violation import Violation


class StableStatement(NamedTuple):
    """At `at_us`, buckets [first, end) came to lie in a topic (`name`) as stable, at `offset`."""

    at_us: int
    name: str
    offset: int
    first: int
    end: int


@dataclass
class StableOrder:
    """The stable statements of all replicas of a node, in one partition of its readers. `origin`: its first bucket."""

    origin: int
    statements: list[StableStatement] = field(default_factory=list)
    gaps: list[StableStatement] = field(default_factory=list)
    """Those of lost buckets (R18)."""

    def add(self, name: str, offset: int, appended_us: Sequence[int], first: int, end: int) -> None:
        """The record at `offset` of a topic completes [first, end). `appended_us`: when each of its offsets came."""
        self.statements.append(StableStatement(appended_us[offset], name, offset, first, end))

    def lose(self, name: str, offset: int, appended_us: Sequence[int], first: int, end: int) -> None:
        """The record at `offset` says that [first, end) is lost."""
        self.gaps.append(StableStatement(appended_us[offset], name, offset, first, end))

    def judge(self) -> int:
        """Returns the first bucket that no topic holds, nor says to be lost.

        Raises:
            Violation: a bucket was called stable when no topic held one that lies below.
        """
        frontier = self.origin
        for said in sorted([*self.statements, *self.gaps]):
            if said.first > frontier:
                text = (
                    f"{said.name}: bucket {said.first} at offset {said.offset}, and no topic holds {frontier} by then"
                )
                raise Violation("hole", text, frontier)
            frontier = max(frontier, said.end)
        return frontier


def judge_stream(
    log: MemoryLog,
    app: str,
    plan: SimulatedNode,
    part: int,
    truth: NodeTruth,
    origin: int,
    app_uid: str,
    all_run: bool,
    may_lose: bool,
) -> StableOrder | None:
    """One partition of what a node's replicas have said. If `all_run`, always, each says all of it.

    Args:
        may_lose: it names what it has lost (R18).

    Returns:
        What they say between them, where not all run or something may be lost.

    Raises:
        Violation: a bucket is missing, or stable and must not be, or has other rows; a label is wrong.
    """
    together = None if all_run and not may_lose else StableOrder(origin)
    for k in range(plan.replicas):
        name, feed = f"{plan.name}.r{k}", own_feeds(app, plan.name, k, plan.exchange)[part]
        name += f"/{part}" * (plan.exchange > 1)
        appended_us = log.broker.partition(feed).appended_us
        stable_records(name, log.committed(feed), truth, origin, app_uid, together, appended_us, all_run)
    if together is not None:
        together.judge()
    return together


_rows = msgspec.json.Decoder(list[list[Any]]).decode
Said = dict[StableHeader | TentativeHeader, dict[int, tuple[list[Any], list[TruthDeadLetter]]]]
"""Rows and dead letters of each part received so far, by the header fields that the parts share: parts of two processes
of one index may interleave, even while both have the same number.
"""


def stable_records(
    name: str,
    log: Sequence[Record],
    truth: NodeTruth,
    origin: int,
    app_uid: str,
    others: StableOrder | None = None,
    appended_us: Sequence[int] = (),
    all_run: bool = True,
) -> int:
    """S.r<k>: first occurrences have no holes, and every STABLE record equals the failure-free one. Returns the
    frontier.

    Args:
        others: what all say between them. None: nothing may be lost.
        appended_us: when each offset of the log was written.
        all_run: else a hole is the business of all together.
    """
    next_ = origin
    said: Said = {}
    for record in log:
        header, payload = unpack_stream(record.value)
        if header.app_uid != app_uid:
            continue  # of another life of the app
        if isinstance(header, RangeHeader):
            if all_run:
                _no_hole(name, header.first, next_, record.offset)
            if others is not None:
                others.add(name, record.offset, appended_us, header.first, header.end)
            _empty(name, header, truth)
            next_ = max(next_, header.end)
        elif isinstance(header, GapHeader):
            if others is None:
                raise Violation("gap", f"{name}: {header}, and nothing may be lost", header.first)
            if all_run:
                _no_hole(name, header.first, next_, record.offset)
            others.lose(name, record.offset, appended_us, header.first, header.end)
            next_ = max(next_, header.end)
        elif isinstance(header, StableHeader):
            if all_run:
                _no_hole(name, header.bucket, next_, record.offset)
            letters = [(r.source, r.offset, r.reason.split()[0].strip(":")) for r in header.rejects]
            whole = _gathered(said, msgspec.structs.replace(header, rejects=()), payload, letters)
            if whole is not None:
                _equal(name, header.bucket, record.offset, *whole, truth)
                if others is not None:
                    others.add(name, record.offset, appended_us, header.bucket, header.bucket + 1)
                next_ = max(next_, header.bucket + 1)
        elif isinstance(header, TentativeHeader):
            whole = _gathered(said, header, payload, [])
            if whole is not None:
                _label(name, header, whole[0], truth)
        else:
            assert isinstance(header, UndoHeader | RecDoneHeader)
    return next_


def _gathered(
    said: Said, header: StableHeader | TentativeHeader, payload: memoryview, letters: list[TruthDeadLetter]
) -> tuple[list[Any], list[TruthDeadLetter]] | None:
    """The whole bucket once its last part has arrived; None before."""
    parts = said.setdefault(msgspec.structs.replace(header, part=0), {})
    parts[header.part] = (_rows(payload) if payload else [], letters)
    if header.part + 1 < header.parts:
        return None
    if len(parts) < header.parts:
        raise Violation("hole", f"bucket {header.bucket}: only parts {sorted(parts)} of {header.parts}", header.bucket)
    found = [parts[i] for i in range(header.parts)]
    return [row for rows, _ in found for row in rows], [letter for _, own in found for letter in own]


def _no_hole(name: str, first: int, next_: int, offset: int) -> None:
    if first > next_:
        raise Violation("hole", f"{name}: bucket {first} at offset {offset}, but {next_} was never said", next_)


def _empty(name: str, header: RangeHeader, truth: NodeTruth) -> None:
    if header.end > truth.complete:
        said = f"{name}: [{header.first}, {header.end}) is stable beyond {truth.complete}"
        raise Violation("stable", said, truth.complete)
    busy = [b for b in (*truth.rows, *truth.letters) if header.first <= b < header.end]
    if busy:
        said = f"{name}: [{header.first}, {header.end}) is said to be empty, {min(busy)} is not"
        raise Violation("stable", said, min(busy))


def _equal(
    name: str, bucket: int, offset: int, rows: list[Any], letters: list[TruthDeadLetter], truth: NodeTruth
) -> None:
    if bucket >= truth.complete:
        said = f"{name}: bucket {bucket} is stable, the sources close only {truth.complete}"
        raise Violation("stable", said, bucket)
    expected = truth.rows.get(bucket, [])
    if rows != expected:
        said = f"{name}: bucket {bucket} at offset {offset} has {rows}, expected {expected}"
        raise Violation("stable", said, bucket)
    wanted = truth.letters.get(bucket, [])
    if Counter(letters) != Counter(wanted):
        said = f"{name}: bucket {bucket} says {letters}, expected {wanted}"
        raise Violation("dead letters", said, bucket)


def _label(name: str, header: TentativeHeader, rows: list[Any], truth: NodeTruth) -> None:
    """A tentative result that differs must name what it lacks."""
    partial, missing_sources = header.completeness < 1, set(header.missing_sources)
    if not 0 <= header.completeness <= 1 or header.diverged_from > header.bucket:
        raise Violation("label", f"{name}: {header}", header.bucket)
    if partial != bool(missing_sources) or not missing_sources.issuperset(header.missing):
        raise Violation("label", f"{name}: {header}", header.bucket)
    if header.bucket >= truth.complete:
        return
    expected = truth.rows.get(header.bucket, [])
    if rows != expected and header.completeness >= 1:
        said = f"{name}: tentative bucket {header.bucket} differs and claims completeness 1"
        raise Violation("label", said, header.bucket)
    if rows != expected and not header.missing_sources:
        said = f"{name}: tentative bucket {header.bucket} differs and lacks nothing"
        raise Violation("label", said, header.bucket)
    passed = [row[:3] for row in rows if row[1] == "row"]
    if passed != [row[:3] for row in expected if row[1] == "row"] and not header.missing:
        said = f"{name}: tentative bucket {header.bucket} misses rows of its own and names none missing"
        raise Violation("label", said, header.bucket)
