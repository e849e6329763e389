"""Rows as lists, a log as a dictionary: what a redo needs of the world, without Kafka and DuckDB.

A row is (stime, number). The fragment keeps running totals, so that its result depends on the order of all rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from borealis_py.log.base import Feed, OffsetGone, Record
from borealis_py.log.records import BatchHeader, ClaimHeader, Refused, pack, pack_stimes
from reconcile.replay_context import ReplayContext
from sunion.model import Input, Output, Reject

Row = tuple[int, float]
WIDTH_US = 1_000
AHEAD_US = 50_000
ORIGIN = 10


class ListSource:
    """Source codec: a JSON array of numbers."""

    def decode(self, payload: bytes, encoding: str, stimes: Sequence[int]):
        try:
            values = json.loads(payload)
        except ValueError as exc:
            return None, [(-1, str(exc), payload)]
        if len(values) != len(stimes):
            return None, [(-1, f"{len(values)} rows, {len(stimes)} stimes", payload)]
        good, bad = [], []
        for i, (stime, value) in enumerate(zip(stimes, values, strict=True)):
            if isinstance(value, int | float):
                good.append((stime, value))
            else:
                bad.append((i, "not a number", json.dumps(value).encode()))
        return good or None, bad


class ListKernel:
    """Row operations, row codec and fragment over lists of (stime, number). Refuses the value -13."""

    def decode(self, payload: bytes):
        return [tuple(row) for row in json.loads(payload)]

    def encode(self, rows: list[Row]) -> bytes:
        return json.dumps(rows).encode()

    def encode_parts(self, rows, bytes_max):
        return [self.encode(rows)]

    def join(self, parts):
        return [row for part in parts for row in part]

    def encode_state(self, state) -> bytes:
        return json.dumps(state).encode()

    def decode_state(self, payload: bytes):
        return tuple(json.loads(payload))

    def published(self, rows):
        return ((json.dumps({"total": value}).encode(), stime) for stime, value in rows)

    def to_dicts(self, rows):
        return [{"total": value} for _, value in rows]

    def take(self, rows, indices):
        return [rows[i] for i in indices]

    def concat(self, parts):
        return [row for part in parts for row in part]

    def settle(self, groups):
        return [self.concat(parts) for parts in groups]

    def order(self, parts):
        return sorted(
            (stime, index, at, value)
            for index, part in enumerate(parts)
            for at, (stime, value) in enumerate(part or ())
        )

    def count(self, rows) -> int:
        return len(rows)

    def size_bytes(self, rows) -> int:
        return 16 * len(rows)

    def digest(self, rows) -> bytes:
        return repr(list(rows)).encode()

    def initial(self):
        return (0.0, 0)

    def step(self, state, first: int, end: int, buckets: Mapping[int, list]):
        total, seen = state
        outputs = {}
        for bucket in sorted(buckets):
            assert first <= bucket < end
            rows, rejects = [], []
            for stime, _, _, value in buckets[bucket]:
                if value == -13:
                    rejects.append(Reject("q", -1, "unlucky"))
                    continue
                total = total * 0.5 + value
                seen += 1
                rows.append((stime, total))
            if rows or rejects:
                outputs[bucket] = Output(rows or None, tuple(rejects))
        return (total, seen), outputs

    def source_codec(self, name: str):
        return ListSource()

    def close(self) -> None:
        pass


class StubLookup:
    """`Lookup` over lists of values. `lost`: offsets below it are gone. Spark's workers make it of a `StubLog`."""

    def __init__(self, logs: Mapping[str, Sequence[bytes | None]], lost: int = 0) -> None:
        self.logs = logs
        self.lost = lost

    def bounds(self, feed: Feed) -> tuple[int, int]:
        return self.lost, len(self.logs[feed.topic])

    def written(self, feed: Feed) -> int:
        return self.bounds(feed)[1]

    def find(self, feed: Feed, timestamp_ms: int) -> int:
        raise NotImplementedError

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        if first < self.lost:
            raise OffsetGone(feed, first)
        for offset in range(first, end):
            yield Record(feed, offset, 0, None, self.logs[feed.topic][offset])

    def ask_ends(self, feeds):
        raise NotImplementedError

    def close(self) -> None:
        pass


@dataclass(frozen=True)
class StubLog:
    """The part of `Log` that a redo uses. No simulated log, since it is pickled for Spark's workers."""

    logs: Mapping[str, Sequence[bytes | None]]
    lost: int = 0

    def lookup(self) -> StubLookup:
        return StubLookup(self.logs, self.lost)


def list_work(logs: Mapping[str, Sequence[bytes | None]], lost: int = 0) -> ReplayContext:
    """A query over these sources: buckets of a millisecond, a tuple 50 ms ahead is in the future."""
    return ReplayContext(
        "q",
        ListKernel,
        StubLog(logs, lost),
        tuple(map(Input.source, logs)),
        tuple((Feed(n),) for n in logs),
        WIDTH_US,
        AHEAD_US,
        "a1",
    )


def claim(epoch: int, uid: str) -> bytes:
    return pack(ClaimHeader("a1", epoch, uid))


def batch(
    epoch: int,
    uid: str,
    seq: int,
    rows: Sequence[tuple[int, object]],
    boundary: int | None = None,
    refused: Sequence[int] = (),
) -> bytes:
    """A record of a source: (stime, number) each; anything that is no number will be rejected. `refused`: positions of
    what its publisher could not use.
    """
    rejects = tuple(Refused(at, "no number", b"x") for at in refused)
    stimes = pack_stimes([stime for stime, _ in rows])
    payload = json.dumps([value for _, value in rows]).encode() if rows else b""
    return pack(BatchHeader("a1", epoch, uid, seq, stimes, boundary, "json", rejects=rejects), payload)
