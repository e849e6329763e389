"""Keeps checkpoints in topics of the app's own Kafka, one for each replica: `checkpoints: kafka`.

A file is written as parts, each a record with the file's name and the part's number as its key; the topic is compacted.
A file is there once all parts of one write of it are, so a killed writer leaves none. Whoever opens a place reads its
topic once. From then on it knows the files there but for those that a zombie writes, which nobody needs.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from contextlib import closing
from dataclasses import dataclass, field
from typing import Annotated

import msgspec
import structlog

from borealis_py.log import topics
from borealis_py.log.base import Appender, Feed, Log, LogError, NewRecord, Record, TopicSpec
from borealis_py.log.unreadable import ignored, small_number, total
from borealis_py.node.checkpoint_storage import as_os_error

KAFKA = "kafka"
"""What `checkpoints:` says instead of a URI."""
PART_BYTES = topics.ENVELOPE_BYTES_MAX
WRITE_S = 20.0
"""How long a write waits for the broker. What it has sent may arrive later, whole and in order."""


PARTS_MAX = 2**20
"""Of a file: more than a thousand gigabytes."""
log = structlog.get_logger(__package__)


class Part(msgspec.Struct, array_like=True, frozen=True):
    """A record's value. `write`: a random id, the same in all parts of one write; `parts`: how many it has; `content`:
    bytes of the file, those of the part."""

    write: str
    parts: Annotated[int, msgspec.Meta(ge=1, le=PARTS_MAX)]
    content: bytes


_decode = msgspec.msgpack.Decoder(Part).decode


@dataclass(slots=True)
class _File:
    """What is known of a file: of each of its parts, the write, their number, and its offset."""

    parts: dict[int, tuple[str, int, int]] = field(default_factory=dict)

    @property
    def offsets(self) -> list[int] | None:
        """Of its parts in order; None: not all of them are there, and of one write."""
        write, count, _ = self.parts.get(0, ("", 0, 0))
        if not 0 < count <= len(self.parts):
            return None
        found = [self.parts[n][2] for n in range(count) if n in self.parts and self.parts[n][0] == write]
        return found if len(found) == count else None


class TopicLocation:
    """Implements `CheckpointLocation`. `directory`: `<node>.r<k>`, or another name of the app. `part_bytes`: the most
    bytes of a file in one record. `new_id`: makes an id that no other write has."""

    def __init__(
        self,
        log: Log,
        app: str,
        directory: str,
        part_bytes: int = PART_BYTES,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> None:
        self._log = log
        self._app = app
        self._directory = directory
        self._part_bytes = part_bytes
        self._new_id = new_id
        self._feed = Feed(topics.kept_files(app, directory))
        self._files: dict[str, _File] | None = None
        self._appender: Appender | None = None
        self._arrived = threading.Event()
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        return self._directory

    def prepare(self) -> None:
        with as_os_error(LogError), closing(self._log.admin()) as admin:
            admin.create([TopicSpec(self._feed.topic, config=topics.KEPT_FILES)])

    def names(self) -> list[str]:
        return sorted(name for name, file in self._known().items() if file.offsets)

    def read(self, name: str) -> bytes:
        found = self.read_all([name])[name]
        if isinstance(found, OSError):
            raise found
        return found

    def read_all(self, names: Iterable[str]) -> dict[str, bytes | OSError]:
        """In one reading of the topic, from the first record that one of them has to the last."""
        wanted = list(names)
        try:
            known = self._known()
            offsets = {name: known[name].offsets for name in wanted if name in known}
            content = self._contents({offset for of in offsets.values() for offset in of or ()})
        except OSError as exc:
            return dict.fromkeys(wanted, exc)
        return {name: self._joined(name, offsets.get(name), content) for name in wanted}

    def _contents(self, wanted: Set[int]) -> dict[int, bytes]:
        """What records at these offsets hold, of those that are still there."""
        found: dict[int, bytes] = {}
        if not wanted:
            return found
        with as_os_error(LogError), closing(self._log.lookup()) as lookup:
            for record in lookup.read(self._feed, min(wanted), max(wanted) + 1):
                part = _part(record) if record.offset in wanted else None
                if part is not None:
                    found[record.offset] = part.content
        return found

    def _joined(self, name: str, offsets: list[int] | None, content: Mapping[int, bytes]) -> bytes | OSError:
        if offsets is None:
            return FileNotFoundError(f"{self.display_name(name)} does not exist, or not all of it")
        if not all(offset in content for offset in offsets):
            return FileNotFoundError(f"{self.display_name(name)} was replaced or removed meanwhile")
        return b"".join(content[offset] for offset in offsets)

    def write(self, name: str, content: bytes) -> None:
        known, write = self._known(), self._new_id()
        length = self._part_bytes
        pieces = [content[at : at + length] for at in range(0, len(content), length)] or [b""]
        records = [
            NewRecord(self._feed, msgspec.msgpack.encode(Part(write, len(pieces), piece)), _key(name, n))
            for n, piece in enumerate(pieces)
        ]
        file = _File()
        for n, offset in enumerate(self._append(records)):
            file.parts[n] = (write, len(pieces), offset)
        before, known[name] = known.get(name), file
        if before is not None and len(before.parts) > len(pieces):
            self._append([NewRecord(self._feed, None, _key(name, n)) for n in before.parts if n >= len(pieces)])

    def remove(self, *names: str) -> None:
        known = self._known()
        gone = [name for name in names if name in known]
        if gone:
            self._append([NewRecord(self._feed, None, _key(name, n)) for name in gone for n in known[name].parts])
            for name in gone:
                del known[name]

    def remove_temporaries(self) -> list[str]:
        """Remove files of which a killed writer has left a part."""
        left = sorted(name for name, file in self._known().items() if not file.offsets)
        self.remove(*left)
        return left

    def sibling(self, name: str) -> TopicLocation:
        return TopicLocation(self._log, self._app, name, self._part_bytes, self._new_id)

    def siblings(self) -> Iterator[str]:
        with as_os_error(LogError):
            names = self._there()
        return (found for name in names if (found := topics.keeper_of(self._app, name)) is not None)

    def display_name(self, name: str) -> str:
        return f"topic {self._feed.topic}, {name}" if name else f"topic {self._feed.topic}"

    def close(self) -> None:
        with self._lock:
            appender, self._appender = self._appender, None
        if appender is not None:
            appender.close()

    def _append(self, records: list[NewRecord]) -> list[int]:
        """Append records, and return their offsets. Raises OSError: the log refuses one, or is silent; what of it
        arrives later is a whole file, or counts as left behind."""
        deadline = time.monotonic() + WRITE_S
        with self._lock, as_os_error(LogError):
            if self._appender is None:
                self._appender = self._log.appender(self._arrived.set)
            appender = self._appender
            if not appender.flush(0.0):
                raise OSError(f"{self.display_name('')}: what was written before has not arrived yet")
            appender.deliveries()  # of a write that was given up
            for n, record in enumerate(records):
                appender.append(record, n)
            offsets: dict[object, int] = {}
            while len(offsets) < len(records) and time.monotonic() < deadline:
                self._arrived.clear()
                appender.flush(max(0.0, deadline - time.monotonic()))
                for delivery in appender.deliveries():
                    if delivery.error is not None:  # this appender takes nothing behind it
                        self._appender = None
                        appender.close()
                        raise OSError(f"{self.display_name('')}: {delivery.error}")
                    offsets[delivery.token] = delivery.offset
                if len(offsets) < len(records):
                    self._arrived.wait(0.1)  # another thread is about to report it
            if len(offsets) < len(records):
                raise OSError(f"{self.display_name('')}: not written within {WRITE_S:g} s: no broker answers")
            return [offsets[n] for n in range(len(records))]

    def _known(self) -> dict[str, _File]:
        if self._files is None:
            self._files = self._scan()
        return self._files

    def _scan(self) -> dict[str, _File]:
        files: dict[str, _File] = {}
        with as_os_error(LogError):
            if self._feed.topic not in self._there():
                return files
            with closing(self._log.lookup()) as lookup:
                for record in lookup.read(self._feed, *lookup.bounds(self._feed)):
                    name, _, part = (record.key or b"").decode(errors="replace").rpartition("/")
                    number = small_number(part)
                    if not name or number is None:
                        ignored(log, "record of a checkpoint ignored", record, "its key is not that of a file's part")
                        continue
                    found = _part(record)
                    if found is not None:
                        files.setdefault(name, _File()).parts[number] = found.write, found.parts, record.offset
                    elif record.value is None and name in files:
                        files[name].parts.pop(number, None)
        return {name: file for name, file in files.items() if file.parts}

    def _there(self) -> list[str]:
        with closing(self._log.admin()) as admin:
            return admin.topics()


def _part(record: Record) -> Part | None:
    """None: it was removed, or counts as nothing."""
    if record.value is None:
        return None
    try:
        return total(_decode, record.value)
    except msgspec.MsgspecError as exc:
        ignored(log, "record of a checkpoint ignored", record, exc)
        return None


def _key(name: str, part: int) -> bytes:
    return f"{name}/{part}".encode()
