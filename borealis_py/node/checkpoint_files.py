"""Files of checkpoints: a base holds a state, an increment what the state has since the file before it (R12.2).

An increment's name has its base's bucket, so that it is known without reading which files go together; its content has
the hash of the file before it. So one that is torn, missing or another than it was is noticed, and a start uses what
lies before it: a file counts only with all below it down to a base, each the one that was there when it was written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated

import msgspec
import structlog

from borealis_py.log.codec import RowCodec
from borealis_py.log.numbers import NUMBER_MAX, Number
from borealis_py.log.records import LATENESS_MAX_US
from borealis_py.log.unreadable import total
from borealis_py.node.checkpoint_storage import SUFFIX, CheckpointLocation, seal_of, sealed, unsealed
from sunion.model import FOREVER
from sunion.source import SourceFold
from sunion.union import Mark
from sunion.units import NOWHERE

log = structlog.get_logger(__package__)
MAGIC = b"BZCK2\n"
MAGIC_1 = b"BZCK1\n"
"""Of versions without increments. Their files are read, as bases."""
_NAME = re.compile(rf"(\d{{20}})(?:-(\d{{20}}))?{re.escape(SUFFIX)}")


class Position(msgspec.Struct, array_like=True, frozen=True):
    """One source's mark: the `offset` to read from, and the fold before it, field by field as in
    `sunion.source.SourceFold`: `boundary`, `epoch`, `owner`, `last_seq`, `lateness_us`."""

    offset: Number
    boundary: Annotated[int, msgspec.Meta(ge=-FOREVER, le=FOREVER)]
    epoch: Number
    owner: str
    last_seq: Annotated[int, msgspec.Meta(ge=-1, le=NUMBER_MAX)]
    lateness_us: Annotated[int, msgspec.Meta(ge=0, le=LATENESS_MAX_US)] = 0

    @property
    def mark(self) -> Mark:
        return Mark(self.offset, SourceFold(self.boundary, self.epoch, self.owner, self.last_seq, self.lateness_us))

    @classmethod
    def of(cls, mark: Mark) -> Position:
        fold = mark.fold
        return cls(mark.offset, fold.boundary, fold.epoch, fold.owner, fold.last_seq, fold.lateness_us)


class CheckpointBody(msgspec.Struct, array_like=True, frozen=True):
    """A checkpoint as stored. `query_hash`: identifies app, life and node; another one's is not loaded. `bucket`: the
    first that is not in the state. `positions`: where to read each source from, in input order. `said`: as in
    `SaveCheckpoint`. `before`: the hash of the file that it adds to; empty: it is a base. `state`: as the kernel has
    encoded it, of a base the state, of an increment what it adds."""

    query_hash: str
    bucket: Number
    positions: tuple[Position, ...]
    state: bytes
    said: Annotated[int, msgspec.Meta(ge=NOWHERE, le=NUMBER_MAX)] = NOWHERE
    before: bytes = b""


_body = msgspec.msgpack.Decoder(CheckpointBody).decode


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
        """Whether it holds the state of its frontier; else a start from it rebuilds that (R17.14)."""
        return self.said <= self.bucket

    @property
    def frontier(self) -> int:
        """The stable frontier that it stands for."""
        return max(self.bucket, self.said)


@dataclass(frozen=True, slots=True, order=True)
class CheckpointName:
    """The name of a file. `bucket`: of its checkpoint. `base`: of the base that it builds on, its own if it is one."""

    bucket: int
    base: int

    def __str__(self) -> str:
        return f"{self.bucket:020d}{'' if self.is_base else f'-{self.base:020d}'}{SUFFIX}"

    @property
    def is_base(self) -> bool:
        return self.bucket == self.base


def names_in(place: CheckpointLocation) -> list[CheckpointName]:
    """Of all checkpoints in a place, by bucket; other files are none of ours. Raises OSError."""
    found = (_NAME.fullmatch(name) for name in place.names())
    return sorted(CheckpointName(int(m[1]), int(m[2] or m[1])) for m in found if m is not None)


def written(body: CheckpointBody) -> bytes:
    """The content of a file."""
    return sealed(MAGIC, msgspec.msgpack.encode(body))


@dataclass(frozen=True, slots=True)
class _Read:
    """A file that verifies, and its `digest`."""

    digest: bytes
    body: CheckpointBody


class CheckpointFiles:
    """The checkpoints in one place, as they were when it was opened. A file that cannot be used is told of once.

    Args:
        query_hash: checkpoints of another query are skipped.

    Raises:
        OSError: the place cannot be read.
    """

    def __init__(self, place: CheckpointLocation, query_hash: str, codec: RowCodec) -> None:
        self._place = place
        self._query_hash = query_hash
        self._codec = codec
        self.names = names_in(place)
        self._read: dict[int, dict[CheckpointName, _Read]] = {}
        self._told: set[int] = set()

    def newest(self) -> LoadedCheckpoint | None:
        """The newest checkpoint that verifies."""
        return next(self.usable(reversed(self.names)), None)

    def at(self, bucket: int) -> LoadedCheckpoint | None:
        """The checkpoint at this bucket, if there is one that verifies."""
        return next(self.usable(name for name in self.names if name.bucket == bucket), None)

    def usable(self, names: Iterable[CheckpointName]) -> Iterator[LoadedCheckpoint]:
        """Those of these that verify."""
        return (loaded for name in names if (loaded := self._load(name)) is not None)

    def _load(self, name: CheckpointName) -> LoadedCheckpoint | None:
        files = self._together(name.base)
        if name not in files:
            return None
        by_digest = {file.digest: file for file in files.values()}
        at, increments = files[name], list[CheckpointBody]()
        while at.body.before:
            increments.append(at.body)
            if at.body.before not in by_digest:
                self._tell_broken(name)
                return None
            at = by_digest[at.body.before]
        try:
            state = self._codec.decode_state(at.body.state)
            for body in reversed(increments):
                state = self._codec.decode_increment(state, body.state, body.bucket)
        except (ValueError, msgspec.MsgspecError) as exc:
            self._tell_unread(name, exc)
            return None
        body = files[name].body
        return LoadedCheckpoint(body.bucket, state, tuple(p.mark for p in body.positions), body.said)

    def _tell_broken(self, name: CheckpointName) -> None:
        if name.base not in self._told:
            self._told.add(name.base)
            log.warning(
                "checkpoint skipped: a file that it adds to is missing, torn or another; what lies before is used",
                file=self._place.display_name(str(name)),
                base=self._place.display_name(str(CheckpointName(name.base, name.base))),
            )

    def _tell_unread(self, name: CheckpointName, why: Exception) -> None:
        log.warning(
            "checkpoint skipped: cannot read or verify it; an older one or the log is used",
            file=self._place.display_name(str(name)),
            why=str(why),
        )

    def _together(self, base: int) -> dict[CheckpointName, _Read]:
        """The files of a base that verify, read at once."""
        if base not in self._read:
            names = {str(name): name for name in self.names if name.base == base}
            found = self._place.read_all(names)
            read = ((name, self._verified(name, found[text])) for text, name in names.items())
            self._read[base] = {name: file for name, file in read if file is not None}
        return self._read[base]

    def _verified(self, name: CheckpointName, content: bytes | OSError) -> _Read | None:
        try:
            if isinstance(content, OSError):
                raise content
            magic = MAGIC_1 if content.startswith(MAGIC_1) else MAGIC
            body = total(_body, unsealed(magic, content))
        except (OSError, ValueError, msgspec.MsgspecError) as exc:
            self._tell_unread(name, exc)
            return None
        if body.query_hash != self._query_hash:
            log.warning("checkpoint skipped: it belongs to another query", file=self._place.display_name(str(name)))
            return None
        return _Read(seal_of(magic, content), body)
