"""Durable checkpoints: one file each in a `CheckpointLocation`, written by a separate thread (R12).

A file contains a hash of its content; a torn or altered one is skipped with a warning, and the one before it is used.
The caller decides when a checkpoint may become durable (B1).
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import msgspec
import structlog

from borealis_py.log.codec import RowCodec
from borealis_py.node.checkpoint_storage import SUFFIX, CheckpointLocation, sealed, unsealed
from borealis_py.protocol.trimming import KeptCheckpoint
from borealis_py.protocol.turn import SaveCheckpoint
from sunion.source import SourceFold
from sunion.union import Mark
from sunion.units import NOWHERE, Bucket, Offset

log = structlog.get_logger("borealis.checkpoint")
MAGIC = b"BZCK1\n"
KEEP = 3
CLOSE_S = 5.0
"""How long `close` waits for the location to take a checkpoint; then it is given up."""
_INDEX = re.compile("0|[1-9][0-9]*")  # not what a copy is called, such as r01


class Position(msgspec.Struct, array_like=True, frozen=True):
    """One source's mark: the `offset` to read from, and the fold before it, field by field as in
    `sunion.source.SourceFold`: `boundary`, `epoch`, `owner`, `last_seq`, `lateness_us`."""

    offset: int
    boundary: int
    epoch: int
    owner: str
    last_seq: int
    lateness_us: int = 0

    @property
    def mark(self) -> Mark:
        return Mark(self.offset, SourceFold(self.boundary, self.epoch, self.owner, self.last_seq, self.lateness_us))

    @classmethod
    def of(cls, mark: Mark) -> Position:
        fold = mark.fold
        return cls(mark.offset, fold.boundary, fold.epoch, fold.owner, fold.last_seq, fold.lateness_us)


class CheckpointBody(msgspec.Struct, array_like=True, frozen=True):
    """A checkpoint as stored. `query_hash`: identifies app, life and node; another one's is not loaded. `bucket`: the
    first that is not in `state`, which the kernel has encoded. `positions`: where to read each source from, in input
    order. `said`: as in `SaveCheckpoint`."""

    query_hash: str
    bucket: int
    positions: tuple[Position, ...]
    state: bytes
    said: int = NOWHERE


@dataclass(frozen=True, slots=True)
class LoadedCheckpoint:
    """A verified checkpoint: `bucket` is the first that is not in `state`; `marks`: where to read each source from;
    `said`: as in `SaveCheckpoint`."""

    bucket: int
    state: object
    marks: tuple[Mark, ...]
    said: int = NOWHERE

    @property
    def whole(self) -> bool:
        """Whether it holds the state of its frontier; else a start from it rebuilds that (R17)."""
        return self.said <= self.bucket

    @property
    def frontier(self) -> int:
        """The stable frontier that it stands for."""
        return max(self.bucket, self.said)


def _file(bucket: int) -> str:
    return f"{bucket:020d}{SUFFIX}"


class CheckpointStore:
    """Checkpoints of one replica in `place`, next to those of its peers.

    Args:
        query_hash: checkpoints of another query are skipped.
        threaded: write in a thread, so that `save` returns at once; False: `save` writes.

    Attributes:
        failures: how many checkpoints could not be written.
        written_bucket: bucket of the newest durable checkpoint; None: there is none.
        kept: all checkpoints that a start may use, once this incarnation has written `KEEP` of them and so knows them
            all (R16); None: before that.

    Raises:
        OSError: the directory cannot be created.
    """

    def __init__(self, place: CheckpointLocation, query_hash: str, codec: RowCodec, threaded: bool = True) -> None:
        self.place = place
        self.query_hash = query_hash
        self.codec = codec
        self._node = place.name.rpartition(".r")[0]
        self.failures = 0
        self.written_bucket: Bucket | None = None
        self.kept: tuple[KeptCheckpoint, ...] | None = None
        self._known: dict[str, KeptCheckpoint] = {}
        self._queue: queue.Queue[SaveCheckpoint | None] = queue.Queue(maxsize=1)
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        place.prepare()
        self._remove_temporaries()
        if threaded:
            self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
            self._thread.start()

    def save(self, checkpoint: SaveCheckpoint) -> None:
        """Write it soon; it is dropped if the one before is still being written (there will be another)."""
        if self._thread is None:
            self._write(checkpoint)
            return
        try:
            self._queue.put_nowait(checkpoint)
        except queue.Full:
            log.info("checkpoint skipped: the previous one is still being written", bucket=checkpoint.bucket)

    def newest(self) -> LoadedCheckpoint | None:
        """The newest checkpoint that verifies; logs a warning for each torn one. Raises OSError."""
        found = (self._load(self.place, name) for name in reversed(self.place.names()))
        loaded = next((loaded for loaded in found if loaded is not None), None)
        self.written_bucket = None if loaded is None else Bucket(loaded.bucket)
        return loaded

    def _load(self, place: CheckpointLocation, name: str) -> LoadedCheckpoint | None:
        where = place.display_name(name)
        try:
            body = msgspec.msgpack.decode(unsealed(MAGIC, place.read(name)), type=CheckpointBody)
        except (OSError, ValueError, msgspec.MsgspecError) as exc:
            log.warning(
                "checkpoint skipped: cannot read or verify it; an older one or the log is used",
                file=where,
                why=str(exc),
            )
            return None
        if body.query_hash != self.query_hash:
            log.warning("checkpoint skipped: it belongs to another query", file=where)
            return None
        marks = tuple(
            Mark(p.offset, SourceFold(p.boundary, p.epoch, p.owner, p.last_seq, p.lateness_us)) for p in body.positions
        )
        return LoadedCheckpoint(body.bucket, self.codec.decode_state(body.state), marks, body.said)

    def of_peers(self, whole: bool = True) -> Iterator[tuple[int, LoadedCheckpoint]]:
        """Verified checkpoints of the node's other replicas by index, newest first; if `whole`, those that hold their
        state. Raises OSError."""
        found = [(name, k, place) for k, place in self._peer_places() for name in place.names()]
        for name, replica, place in sorted(found, key=lambda f: f[:2], reverse=True):
            loaded = self._load(place, name)
            if loaded is not None and (loaded.whole or not whole):
                yield replica, loaded

    def of_peer(self, replica: int, bucket: int) -> LoadedCheckpoint | None:
        """Another replica's checkpoint at `bucket`; None: it does not exist, does not verify, or does not hold the
        state. Raises OSError."""
        place, name = self.place.sibling(f"{self._node}.r{replica}"), _file(bucket)
        loaded = self._load(place, name) if name in place.names() else None
        return loaded if loaded is not None and loaded.whole else None

    def _peer_places(self) -> Iterator[tuple[int, CheckpointLocation]]:
        for directory in self.place.siblings():
            node, _, index = directory.rpartition(".r")
            if node == self._node and _INDEX.fullmatch(index) and directory != self.place.name:
                yield int(index), self.place.sibling(directory)

    def close(self) -> None:
        """Finish writing, within `CLOSE_S`: clients of object stores would retry for minutes."""
        if self._thread is None:
            self.place.close()
            return
        deadline = time.monotonic() + CLOSE_S
        try:
            self._queue.put(None, timeout=CLOSE_S)
        except queue.Full:
            self._over.set()
            log.warning("checkpoint given up: its location accepts no writes", place=self.place.display_name(""))
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if not self._thread.is_alive():  # else it is still being written to
            self.place.close()

    def _run(self) -> None:
        while (checkpoint := self._queue.get()) is not None and not self._over.is_set():
            self._write(checkpoint)

    def _write(self, checkpoint: SaveCheckpoint) -> None:
        positions = tuple(Position.of(mark) for mark in checkpoint.marks)
        state = self.codec.encode_state(checkpoint.state)
        raw = msgspec.msgpack.encode(
            CheckpointBody(self.query_hash, checkpoint.bucket, positions, state, checkpoint.said)
        )
        name = _file(checkpoint.bucket)
        try:
            self.place.write(name, sealed(MAGIC, raw))
        except OSError as exc:
            self.failures += 1
            log.error(
                "checkpoint not written; the replica goes on and will replay more if it restarts",
                file=self.place.display_name(name),
                why=str(exc),
            )
            return
        self.written_bucket = checkpoint.bucket
        self._known[name] = KeptCheckpoint(checkpoint.bucket, tuple(Offset(mark.offset) for mark in checkpoint.marks))
        self._remove_before(name)

    def _remove_before(self, newest: str) -> None:
        """Remove all but the last `KEEP` up to `newest`. Later ones are an earlier life's or a zombie's."""
        try:
            names = [name for name in self.place.names() if name <= newest]
            for old in names[:-KEEP]:
                self.place.remove(old)
        except OSError as exc:
            log.warning("old checkpoints not removed", place=self.place.display_name(""), why=str(exc))
            return
        self._known = {name: kept for name, kept in self._known.items() if name in names[-KEEP:]}
        if len(self._known) == KEEP:
            self.kept = tuple(self._known[name] for name in names[-KEEP:])

    def _remove_temporaries(self) -> None:
        """Remove what dead incarnations left half written. This one has written nothing yet."""
        try:
            left = self.place.remove_temporaries()
        except OSError as exc:
            log.warning("half-written checkpoints not removed", place=self.place.display_name(""), why=str(exc))
            return
        if left:
            log.info("half-written checkpoints removed", place=self.place.display_name(""), count=len(left))
