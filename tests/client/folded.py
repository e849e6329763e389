"""What a source's log says to its readers: the fold of A2.2 over JSON rows, and a world to write it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from borealis_py.client.ingest import InputRow
from borealis_py.client.target import Target
from borealis_py.log.base import Record, TopicSpec
from borealis_py.log.description import Life
from borealis_py.log.source_records import decode_source
from borealis_py.protocol.settings import Timing
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryLog
from sunion.source import SourceFold, fold
from tests.sunion.lists import opened
from tests.support.simulated_publisher import SimPublisher

T0 = 1_700_000_000_000_000
W = 100_000
AHEAD_MAX_US = Timing().ahead_max_us
SCHEMA = {"carrier": "string", "n": "int64", "delay": "double", "late": "bool"}


class ListOps:
    def take(self, rows: list, indices: Sequence[int]) -> list:
        return [rows[i] for i in indices]

    def concat(self, parts: Sequence[list]) -> list:
        return [row for part in parts for row in part]

    def settle(self, groups: Sequence[Sequence[list]]) -> list[list]:
        return [self.concat(parts) for parts in groups]

    def order(self, parts: Sequence[list | None]) -> list:
        raise NotImplementedError

    def count(self, rows: list) -> int:
        return len(rows)

    def size_bytes(self, rows: list) -> int:
        return 16 * len(rows)

    def digest(self, rows: list) -> bytes:
        return repr(list(rows)).encode()


class JsonCodec:
    """Rows as dicts, none of them bad."""

    def decode(self, payload: bytes, encoding: str, stimes: Sequence[int]) -> tuple[list, list]:
        return json.loads(payload), []


@dataclass
class Folded:
    """What readers make of a log. `rows`: (bucket, seq, stime, row) in the order of the log."""

    state: SourceFold
    rows: list[tuple[int, int, int, dict]] = field(default_factory=list)
    rejects: list[str] = field(default_factory=list)
    letters: list[tuple[int, str, bytes]] = field(default_factory=list)
    """Dead letters that travelled in the publishers' batches: seq, reason, what it was."""
    fenced: int = 0
    duplicates: int = 0
    late: int = 0
    boundaries: list[int] = field(default_factory=list)


def fold_log(records: Sequence[Record], target: Target) -> Folded:
    result = Folded(SourceFold(target.buckets.start(target.origin)))
    for record in records:
        decoded = opened(decode_source(record, JsonCodec(), target.source, Life(target.app_uid)))
        if decoded.rows is not None:
            tagged = list(zip(decoded.seqs, decoded.stimes, decoded.rows, strict=True))
            decoded = replace(decoded, rows=tagged)
        before = result.state
        result.state, accepted = fold(before, decoded, target.buckets, ListOps(), target.source, target.ahead_max_us)
        result.rows += [(bucket, *row) for bucket, rows, _ in accepted.rows for row in rows]
        result.rejects += [r.reason for r in accepted.rejects if r.seq < 0]
        result.letters += [(r.seq, r.reason, r.raw) for r in accepted.rejects if r.seq >= 0]
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


class PublishedSource:
    """One source, and simulated publishers of it."""

    def __init__(self, seed: int = 0, **target: Any) -> None:
        self.scheduler = Scheduler(T0)
        self.memory = MemoryLog(self.scheduler, seed)
        self.target = Target(
            **{
                "app": "flights",
                "app_uid": "a1",
                "source": "ewr",
                "bucket_us": W,
                "origin": T0 // W,
                "ahead_max_us": AHEAD_MAX_US,
                **target,
            }
        )
        self.memory.client("admin").admin().create([TopicSpec(self.target.feed.topic)])

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
        """(reason, what was sent) of each, as replicas publish them."""
        return [(reason, raw) for _, reason, raw in self.folded().letters]
