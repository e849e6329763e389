"""Checkpoints on simulated disks: the production store, whose files lie in memory and take their time.

Beside each file lies what oracles know of it without reading it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from borealis_py.log.codec import RowCodec
from borealis_py.node.checkpoint_storage import SUFFIX, content_or_error
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.protocol.turn import SaveCheckpoint
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.latency import Delay, between
from sunion.union import Mark
from sunion.units import NOWHERE

_WRITE: Delay = between(1_000, 60_000)
HALF_WRITTEN = 0.3
"""How often a process that dies leaves half of the file that it writes."""
KEEP = 3
"""So many bases a disk keeps, with what builds on them."""


@dataclass(frozen=True, slots=True)
class File:
    """One checkpoint, `name` on its disk. `below`: the file that it adds to; None: it is a base. `torn`: it fails
    verification. The rest is as in `SaveCheckpoint`."""

    name: str
    content: bytes
    bucket: int = 0
    marks: tuple[Mark, ...] = ()
    said: int = NOWHERE
    below: File | None = None
    torn: bool = False

    @property
    def base(self) -> File:
        return self if self.below is None else self.below.base

    def cut(self) -> File:
        """Half of it."""
        return replace(self, content=self.content[: len(self.content) // 2], torn=True)


@dataclass
class Disk:
    """The checkpoints of one replica index, as files by name; survives its processes. `broken`: writes fail.
    `in_topic`: what its topic holds, if it has one."""

    files: dict[str, File] = field(default_factory=dict)
    broken: int = 0
    in_topic: dict[str, bytes] = field(default_factory=dict)

    def tear(self, a_base: bool = False) -> None:
        """The newest file, or the newest base, turns out to be truncated."""
        found = [file for file in self.files.values() if file.below is None or not a_base]
        if found:
            newest = max(found, key=lambda file: (file.bucket, file.name))
            self.files[newest.name] = newest.cut()

    def put_back(self, old: Iterable[File]) -> None:
        """What a zombie writes: its own files, over those of its successor. It removes the oldest, too."""
        self.files |= {file.name: file for file in old}
        bases = sorted({file.base.name for file in self.files.values()})[:-KEEP]
        self.files = {name: file for name, file in self.files.items() if file.base.name not in bases}

    @property
    def starts(self) -> list[File]:
        """Of each base the newest checkpoint that it gives, if it gives any: where a start may begin, whatever becomes
        of newer ones."""
        found: dict[str, File] = {}
        for file in sorted(self.files.values(), key=lambda file: (file.bucket, file.name)):
            if self._usable(file):
                found[file.base.name] = file
        return list(found.values())

    @property
    def lost(self) -> list[File]:
        """The bases that give no start any more."""
        return [file for file in self.files.values() if file.below is None and not self._usable(file)]

    def _usable(self, file: File | None) -> bool:
        while file is not None:
            there = self.files.get(file.name)
            if there is None or there.torn or there.content != file.content:
                return False
            file = file.below
        return True


class MemoryPlace:
    """Implements `node.checkpoint_storage.CheckpointLocation`. `disks`: by replica index of the node `node`.

    `note`: what the next file is, for the oracles; `last`: the last that was written here."""

    def __init__(self, disks: dict[int, Disk], node: str, replica: int) -> None:
        self._disks = disks
        self._node = node
        self._replica = replica
        self.note = File("", b"")
        self.last: File | None = None

    @property
    def name(self) -> str:
        return f"{self._node}.r{self._replica}"

    @property
    def _disk(self) -> Disk:
        return self._disks[self._replica]

    @property
    def _files(self) -> dict[str, File]:
        return self._disk.files

    def prepare(self) -> None:
        """It is there."""

    def names(self) -> list[str]:
        return sorted(self._files)

    def read(self, name: str) -> bytes:
        if name not in self._files:
            raise FileNotFoundError(name)
        return self._files[name].content

    def read_all(self, names: Iterable[str]) -> dict[str, bytes | OSError]:
        return {name: content_or_error(self, name) for name in names}

    def write(self, name: str, content: bytes) -> None:
        self._refuse_if_broken()
        below = self.last if "-" in name else None
        self._files[name] = self.last = replace(self.note, name=name, content=content, below=below)

    def leave(self, file: File) -> None:
        """The process dies in the middle of writing this."""
        self._files.setdefault(file.name, file)

    def _refuse_if_broken(self) -> None:
        if self._disk.broken:
            raise OSError("simulated: no space left")

    def remove(self, *names: str) -> None:
        for name in names:
            self._files.pop(name, None)

    def remove_temporaries(self) -> list[str]:
        return []

    def sibling(self, name: str) -> MemoryPlace:
        return MemoryPlace(self._disks, self._node, int(name.rpartition(".r")[2]))

    def siblings(self) -> Iterator[str]:
        return (f"{self._node}.r{k}" for k in self._disks)

    def display_name(self, name: str) -> str:
        return f"disk of {self.name}, {name}"

    def close(self) -> None:
        """Nothing is open."""


class MemoryCheckpoints(CheckpointStore):
    """The checkpoints of one process.

    Args:
        writing: called when one begins to be written. asked: called with each that is to be saved.
    """

    def __init__(
        self,
        place: MemoryPlace,
        query_hash: str,
        codec: RowCodec,
        increments: int,
        scheduler: Scheduler,
        rng: random.Random,
        writing: Callable[[], object],
        asked: Callable[[SaveCheckpoint], object] = lambda _: None,
    ) -> None:
        super().__init__(place, query_hash, codec, threaded=False, increments=increments)
        self._here = place
        self._scheduler = scheduler
        self._rng = rng
        self._writing = writing
        self._asked = asked
        self._alive = True
        self._busy: SaveCheckpoint | None = None

    def save(self, checkpoint: SaveCheckpoint) -> None:
        self._asked(checkpoint)
        if self._busy is not None:
            return
        self._busy = checkpoint
        self._scheduler.after(_WRITE(self._rng), lambda: self._land(checkpoint))
        self._writing()

    def die(self) -> None:
        """The process is gone: what is being written is lost, sometimes leaving half a file."""
        if self._busy is not None and self._rng.random() < HALF_WRITTEN:
            name, content = self._encoded(self._busy)
            left = File(f"{0:020d}{SUFFIX}", b"", torn=True)
            if not name.is_base:  # a base would take the place of one that is kept
                left = replace(self._note(self._busy), name=str(name), content=content, below=self._here.last).cut()
            self._here.leave(left)
        self._alive = False

    def _land(self, checkpoint: SaveCheckpoint) -> None:
        if self._alive:
            self._busy = None
            self._here.note = self._note(checkpoint)
            self._write(checkpoint)

    def _note(self, checkpoint: SaveCheckpoint) -> File:
        return File("", b"", checkpoint.bucket, checkpoint.marks, checkpoint.said)
