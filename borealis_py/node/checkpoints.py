"""Durable checkpoints: one file each in a directory, written by a thread of its own (design 2.3, protocol R12).

A file is committed by rename and carries a hash of its content; a torn or altered one is skipped with a warning and the
one before it is used. The caller decides when a checkpoint may become durable (B1).
"""

from __future__ import annotations

import hashlib
import os
import queue
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from borealis_py.log.codec import RowCodec
from borealis_py.protocol.turn import SaveCheckpoint
from sunion.source import SourceFold
from sunion.union import Mark

log = structlog.get_logger("borealis.checkpoint")
MAGIC = b"BZCK1\n"
KEEP = 3


class Position(msgspec.Struct, array_like=True, frozen=True):
    """One source's mark: offset and the fold before it."""

    offset: int
    boundary: int
    epoch: int
    owner: str
    last_seq: int


class Body(msgspec.Struct, array_like=True, frozen=True):
    query_hash: str
    bucket: int
    positions: tuple[Position, ...]
    state: bytes


@dataclass(frozen=True, slots=True)
class Loaded:
    """A checkpoint that verified."""

    bucket: int
    state: object
    marks: tuple[Mark, ...]


def _file(bucket: int) -> str:
    return f"{bucket:020d}.ckpt"


class CheckpointStore:
    """Checkpoints of one replica in `directory`, beside those of its peers: `<node>.r<k>`.

    `query_hash`: those of another query are not ours.

    Use `save` from the replica's loop; it returns at once.
    """

    def __init__(self, directory: Path, query_hash: str, codec: RowCodec, threaded: bool = True) -> None:
        self.directory = directory
        self.query_hash = query_hash
        self.codec = codec
        self._node = directory.name.rpartition(".r")[0]
        self.failures = 0
        self.written_bucket: int | None = None
        self._queue: queue.Queue[SaveCheckpoint | None] = queue.Queue(maxsize=1)
        self._thread: threading.Thread | None = None
        directory.mkdir(parents=True, exist_ok=True)
        if threaded:
            self._thread = threading.Thread(target=self._run, name="checkpoints", daemon=True)
            self._thread.start()

    def save(self, checkpoint: SaveCheckpoint) -> None:
        """Write it soon; dropped if the one before is still being written (the next one comes)."""
        if self._thread is None:
            self._write(checkpoint)
            return
        try:
            self._queue.put_nowait(checkpoint)
        except queue.Full:
            log.info("checkpoint skipped, the last one is still being written", bucket=checkpoint.bucket)

    def newest(self) -> Loaded | None:
        """The newest checkpoint that verifies; torn ones are named in a warning."""
        found = (self._load(path) for path in sorted(self.directory.glob("*.ckpt"), reverse=True))
        loaded = next((loaded for loaded in found if loaded is not None), None)
        self.written_bucket = None if loaded is None else loaded.bucket
        return loaded

    def _load(self, path: Path) -> Loaded | None:
        try:
            body = self._read(path)
        except (OSError, ValueError, msgspec.MsgspecError) as exc:
            log.warning(
                "checkpoint skipped: it does not verify; an older one or the log is used", file=str(path), why=str(exc)
            )
            return None
        if body.query_hash != self.query_hash:
            log.warning("checkpoint skipped: it belongs to another query", file=str(path))
            return None
        marks = tuple(Mark(p.offset, SourceFold(p.boundary, p.epoch, p.owner, p.last_seq)) for p in body.positions)
        return Loaded(body.bucket, self.codec.decode_state(body.state), marks)

    def of_peers(self) -> Iterator[tuple[int, Loaded]]:
        """Checkpoints of the node's other replicas that verify, newest first."""
        found = [(int(path.stem), k, path) for k, d in self._peer_directories() for path in d.glob("*.ckpt")]
        for _, replica, path in sorted(found, reverse=True):
            loaded = self._load(path)
            if loaded is not None:
                yield replica, loaded

    def of_peer(self, replica: int, bucket: int) -> Loaded | None:
        """The checkpoint of another replica of the node at `bucket`, if it is there and verifies."""
        path = self._peer_directory(replica) / _file(bucket)
        return self._load(path) if path.exists() else None

    def _peer_directory(self, replica: int) -> Path:
        return self.directory.with_name(f"{self._node}.r{replica}")

    def _peer_directories(self) -> Iterator[tuple[int, Path]]:
        for directory in self.directory.parent.glob(f"{self._node}.r*"):
            index = directory.name.removeprefix(f"{self._node}.r")
            if index.isdigit() and directory != self.directory:
                yield int(index), directory

    def close(self) -> None:
        """Finish what is being written."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join(timeout=5)

    def _run(self) -> None:
        while (checkpoint := self._queue.get()) is not None:
            self._write(checkpoint)

    def _write(self, checkpoint: SaveCheckpoint) -> None:
        positions = tuple(
            Position(m.offset, m.fold.boundary, m.fold.epoch, m.fold.owner, m.fold.last_seq) for m in checkpoint.marks
        )
        state = self.codec.encode_state(checkpoint.state)
        raw = msgspec.msgpack.encode(Body(self.query_hash, checkpoint.bucket, positions, state))
        path = self.directory / _file(checkpoint.bucket)
        temporary = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            with temporary.open("wb") as file:
                file.write(MAGIC + hashlib.sha256(raw).digest() + raw)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as exc:
            self.failures += 1
            log.error(
                "checkpoint not written; the replica goes on and will replay more if it restarts",
                file=str(path),
                why=str(exc),
            )
            temporary.unlink(missing_ok=True)
            return
        self.written_bucket = checkpoint.bucket
        for old in sorted(self.directory.glob("*.ckpt"))[:-KEEP]:
            old.unlink(missing_ok=True)

    @staticmethod
    def _read(path: Path) -> Body:
        data = path.read_bytes()
        head = len(MAGIC) + 32
        if data[: len(MAGIC)] != MAGIC or len(data) < head:
            raise ValueError("not a checkpoint, or cut short")
        if hashlib.sha256(data[head:]).digest() != data[len(MAGIC) : head]:
            raise ValueError("the content does not match its hash")
        return msgspec.msgpack.decode(data[head:], type=Body)
