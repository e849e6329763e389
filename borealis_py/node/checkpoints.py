"""Durable checkpoints of one replica, in files of a `CheckpointLocation`, written by a separate thread (R12.1).

Each is a base, with its state, or an increment: what the state has since the one before. A torn or altered file is
skipped with a warning, and what lies before it is used. The caller decides when a checkpoint may become durable (B1).
"""

from __future__ import annotations

import queue
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import structlog

from borealis_py.log.codec import RowCodec
from borealis_py.node.checkpoint_files import (
    MAGIC,
    CheckpointBody,
    CheckpointFiles,
    CheckpointName,
    LoadedCheckpoint,
    Position,
    names_in,
    written,
)
from borealis_py.node.checkpoint_storage import CheckpointLocation, seal_of
from borealis_py.protocol.trimming import KeptCheckpoint
from borealis_py.protocol.turn import SaveCheckpoint
from sunion.units import Bucket, Offset

log = structlog.get_logger(__package__)
KEEP = 3
"""So many bases are kept, each with the increments behind it: any two files may be lost."""
CLOSE_S = 5.0
"""How long `close` waits for the location to take a checkpoint; then it is given up."""
_INDEX = re.compile("0|[1-9][0-9]*")  # not what a copy is called, such as r01


@dataclass(slots=True)
class _Chain:
    """What this incarnation has written since its last base: `last`, the newest, with the `seal` of its file; how many
    increments, and their bytes, beside those of the base."""

    base: Bucket
    base_bytes: int
    last: SaveCheckpoint
    seal: bytes
    increments: int = 0
    increment_bytes: int = 0

    def ends(self, most: int) -> bool:
        """Whether the next one is to be a base: a start shall not read more increments than that, or bytes of them
        than of the base."""
        return self.increments >= most or self.increment_bytes >= self.base_bytes


class CheckpointStore:
    """Checkpoints of one replica in `place`, next to those of its peers.

    Args:
        query_hash: checkpoints of another query are skipped.
        threaded: write in a thread, so that `save` returns at once; False: `save` writes.
        increments: the most of them behind one base. 0: every checkpoint is a base.
        shared: a former incarnation may still write here, so what is half written is not removed.

    Attributes:
        failures: how many checkpoints could not be written.
        written_bucket: bucket of the newest durable checkpoint; None: there is none, or it was found without a state.
        kept: the newest checkpoint of each base that is kept, once this incarnation has written them all (R16.2); None:
            before that. A start uses one of these or a later one, unless more than two files are lost.

    Raises:
        OSError: the directory cannot be created.
    """

    def __init__(
        self,
        place: CheckpointLocation,
        query_hash: str,
        codec: RowCodec,
        threaded: bool = True,
        increments: int = 0,
        shared: bool = False,
    ) -> None:
        self.place = place
        self.query_hash = query_hash
        self.codec = codec
        self._node = place.name.rpartition(".r")[0]
        self.failures = 0
        self.written_bucket: Bucket | None = None
        self.kept: tuple[KeptCheckpoint, ...] | None = None
        self._increments = increments
        self._chain: _Chain | None = None
        self._known: dict[int, KeptCheckpoint] = {}
        self._bases: frozenset[int] = frozenset()
        self._queue: queue.Queue[SaveCheckpoint | None] = queue.Queue(maxsize=1)
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        place.prepare()
        if not shared:
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
        """The newest checkpoint that verifies; logs a warning where one does not. Raises OSError."""
        loaded = self._files(self.place).newest()
        self.written_bucket = Bucket(loaded.bucket) if loaded is not None and loaded.whole else None
        return loaded

    def _files(self, place: CheckpointLocation) -> CheckpointFiles:
        return CheckpointFiles(place, self.query_hash, self.codec)

    def of_peers(self, whole: bool = True) -> Iterator[tuple[int, LoadedCheckpoint]]:
        """Verified checkpoints of the node's other replicas by index, newest first; if `whole`, those that hold their
        state. Raises OSError."""
        peers = {k: self._files(place) for k, place in self._peer_places()}
        found = [(name, k) for k, files in peers.items() for name in files.names]
        for name, replica in sorted(found, reverse=True):
            for loaded in peers[replica].usable([name]):
                if loaded.whole or not whole:
                    yield replica, loaded

    def of_peer(self, replica: int, bucket: int) -> LoadedCheckpoint | None:
        """Another replica's checkpoint at `bucket`; None: it does not exist, does not verify, or does not hold the
        state. Raises OSError."""
        loaded = self._files(self.place.sibling(f"{self._node}.r{replica}")).at(bucket)
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
        name, content = self._encoded(checkpoint)
        try:
            self.place.write(str(name), content)
        except OSError as exc:
            self.failures += 1
            log.error(
                "checkpoint not written; the replica goes on and will replay more if it restarts",
                file=self.place.display_name(str(name)),
                why=str(exc),
            )
            return
        self.written_bucket = checkpoint.bucket
        self._known[name.base] = KeptCheckpoint(
            checkpoint.bucket, tuple(Offset(mark.offset) for mark in checkpoint.marks)
        )
        self._count(name, checkpoint, content)
        if name.is_base:
            self._remove_before(name)
        if len(self._bases) == KEEP:
            self.kept = tuple(self._known[base] for base in sorted(self._bases))

    def _encoded(self, checkpoint: SaveCheckpoint) -> tuple[CheckpointName, bytes]:
        """A file's name and content: an increment, unless a base is due or would be smaller."""
        chain = self._chain
        if chain is not None and not chain.ends(self._increments) and checkpoint.said <= checkpoint.bucket:
            last = chain.last
            added = self.codec.encode_increment(last.state, checkpoint.state, last.bucket, checkpoint.bucket)
            if len(added) < chain.base_bytes:
                name = CheckpointName(checkpoint.bucket, chain.base)
                return name, written(self._body(checkpoint, added, chain.seal))
        state = self.codec.encode_state(checkpoint.state)
        return CheckpointName(checkpoint.bucket, checkpoint.bucket), written(self._body(checkpoint, state))

    def _body(self, checkpoint: SaveCheckpoint, state: bytes, before: bytes = b"") -> CheckpointBody:
        positions = tuple(Position.of(mark) for mark in checkpoint.marks)
        return CheckpointBody(self.query_hash, checkpoint.bucket, positions, state, checkpoint.said, before)

    def _count(self, name: CheckpointName, checkpoint: SaveCheckpoint, content: bytes) -> None:
        seal = seal_of(MAGIC, content)
        if name.is_base or self._chain is None:
            self._chain = _Chain(checkpoint.bucket, len(content), checkpoint, seal) if self._increments else None
            return
        self._chain.last, self._chain.seal = checkpoint, seal
        self._chain.increments += 1
        self._chain.increment_bytes += len(content)

    def _remove_before(self, newest: CheckpointName) -> None:
        """Remove all but the last `KEEP` bases up to `newest`, each with its increments. Later ones are an earlier
        life's or a zombie's; whose increments go on beyond what is kept is still written to, by a successor of this
        one."""
        try:
            names = [name for name in names_in(self.place) if name.bucket <= newest.bucket]
            bases = [name.base for name in names if name.is_base][-KEEP:]
            late = {name.base for name in names if name.bucket > bases[0]}
            old = [name for name in names if name.base not in bases and name.base not in late]
            self.place.remove(*(str(name) for name in old if not name.is_base))
            self.place.remove(*(str(name) for name in old if name.is_base))  # nothing is left without its base
        except OSError as exc:
            log.warning("old checkpoints not removed", place=self.place.display_name(""), why=str(exc))
            return
        self._known = {base: kept for base, kept in self._known.items() if base in bases}
        self._bases = frozenset(self._known)

    def _remove_temporaries(self) -> None:
        """Remove what dead incarnations left half written. This one has written nothing yet."""
        try:
            left = self.place.remove_temporaries()
        except OSError as exc:
            log.warning("half-written checkpoints not removed", place=self.place.display_name(""), why=str(exc))
            return
        if left:
            log.info("half-written checkpoints removed", place=self.place.display_name(""), count=len(left))
