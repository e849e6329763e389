"""What a source's log says to its readers: the fold of protocol A2 over JSON rows, and a world to write it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from borealis_py.client.claim import Target
from borealis_py.client.ingest import InputRow
from borealis_py.log.base import Record, TopicSpec
from borealis_py.log.records import ClaimHeader, unpack_source, unpack_stimes
from borealis_py.sim.clock import Scheduler
from borealis_py.sim.log import MemoryLog
from borealis_py.sim.publisher import SimPublisher
from sunion.model import SourceRecord
from sunion.source import SourceFold, fold

T0 = 1_700_000_000_000_000
W = 100_000
SCHEMA = {"carrier": "string", "n": "int64", "delay": "double", "late": "bool"}


class ListOps:
    def take(self, rows: list, indices: Sequence[int]) -> list:
        return [rows[i] for i in indices]

    def concat(self, parts: Sequence[list]) -> list:
        return [row for part in parts for row in part]

    def order(self, parts: Sequence[list | None]) -> list:
        raise NotImplementedError

    def count(self, rows: list) -> int:
        return len(rows)

    def size_bytes(self, rows: list) -> int:
        return 16 * len(rows)


@dataclass
class Folded:
    """What readers make of a log. `rows`: (bucket, seq, stime, row) in the order of the log."""

    state: SourceFold
    rows: list[tuple[int, int, int, dict]] = field(default_factory=list)
    rejects: list[str] = field(default_factory=list)
    fenced: int = 0
    duplicates: int = 0
    late: int = 0
    boundaries: list[int] = field(default_factory=list)


def fold_log(records: Sequence[Record], target: Target) -> Folded:
    result = Folded(SourceFold(target.buckets.start(target.origin)))
    for record in records:
        header, payload = unpack_source(record.value)
        if isinstance(header, ClaimHeader):
            decoded = SourceRecord(record.offset, header.epoch, header.uid, claim=True)
        else:
            stimes = unpack_stimes(header.stimes)
            rows = json.loads(bytes(payload)) if stimes else []
            seqs = range(header.first_seq, header.first_seq + len(stimes))
            tagged = list(zip(seqs, stimes, rows, strict=True))
            decoded = SourceRecord(
                record.offset, header.epoch, header.uid, False, seqs, stimes, tagged, header.boundary
            )
        before = result.state
        result.state, accepted = fold(before, decoded, target.buckets, ListOps(), target.source, target.ahead_max_us)
        result.rows += [(bucket, *row) for bucket, rows, _ in accepted.rows for row in rows]
        result.rejects += [r.reason for r in accepted.rejects]
        result.fenced += accepted.fenced
        result.duplicates += accepted.duplicates
        result.late += accepted.late
        if result.state.boundary != before.boundary:
            result.boundaries.append(result.state.boundary)
    return result


def row(n: int) -> dict[str, object]:
    return {"carrier": f"c{n % 3}", "n": n, "delay": n / 4, "late": n % 2 == 0}


def inputs(stimes: Sequence[int | None]) -> list[InputRow]:
    """One row for each of these times."""
    return [InputRow(i, i + 1, row(i), at, json.dumps(row(i)).encode()) for i, at in enumerate(stimes)]


class World:
    """One source, and simulated publishers of it."""

    def __init__(self, seed: int = 0, **target: Any) -> None:
        self.scheduler = Scheduler(T0)
        self.memory = MemoryLog(self.scheduler, seed)
        self.target = Target(
            **{"app": "flights", "app_uid": "a1", "source": "ewr", "bucket_us": W, "origin": T0 // W, **target}
        )
        topics = [TopicSpec(self.target.feed.topic), TopicSpec(self.target.deadletter.topic)]
        self.memory.client("admin").admin().create(topics)

    def publisher(self, uid: str, **options: Any) -> SimPublisher:
        return SimPublisher(self.scheduler, self.memory.client(uid), self.target, SCHEMA, uid, **options)

    def ready(self, uid: str, **options: Any) -> SimPublisher:
        """A publisher that owns the source."""
        publisher = self.publisher(uid, **options)
        while not publisher.ready:
            assert publisher.error is None, publisher.error
            assert self.scheduler.step(), "nothing is left to happen, and the source is not claimed"
        return publisher

    def run(self, seconds: float) -> None:
        self.scheduler.run_until(self.scheduler.now_us + round(seconds * 1_000_000))

    @property
    def now(self) -> int:
        return self.scheduler.now_us

    def folded(self) -> Folded:
        return fold_log(self.memory.committed(self.target.feed), self.target)

    def dead_letters(self) -> list[tuple[str, Any]]:
        """(reason, what was sent) of each."""
        found = self.memory.committed(self.target.deadletter)
        assert all(dict(r.headers)["source"] == self.target.source.encode() for r in found)
        return [(dict(r.headers)["reason"].decode(), r.value) for r in found]
