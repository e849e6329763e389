"""Stores checkpoints in a local directory or any file system that pyarrow.fs knows (S3-compatible, HDFS, GCS ...).

A name appears only with its whole content, as far as the file system can guarantee that:

- local: the file is written under a temporary name, synced and renamed; the directory is synced, too, or a power cut
  could undo the rename;
- object stores (S3, GCS, Azure): an object appears when its upload is complete, so it is written under its name;
- others (HDFS, file://): the file is written under a temporary name and renamed.

No file is trusted: a checkpoint contains a hash of its content; one that does not match is torn (checkpoints.py).
Temporary names end in `.tmp` and are never listed. A killed writer leaves its file; the next start removes it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any, Protocol, TypeVar

from borealis_py.log.base import LogError

SUFFIX = ".ckpt"
ASIDE = ".tmp"
OBJECT_STORES = ("s3", "gcs", "abfs")
HASH_BYTES = 32
PLACE, ID_CHARS = "place.id", 32
"""The file with the random id of a directory, and its length."""
_ID = re.compile(rf"[0-9a-f]{{{ID_CHARS}}}")
AT_ONCE = 16
"""So many files of an object store are read or removed at once: each takes a while, and increments are many."""
SHORT = 400
"""The most characters of a file system's own message in an error."""


class LocationError(ValueError):
    """Checkpoints cannot be kept there; the message says why."""


class CheckpointLocation(Protocol):
    """The directory of one replica, next to those of its peers. Methods block and raise OSError."""

    def prepare(self) -> None:
        """Create the directory, unless the file system has none."""

    @property
    def name(self) -> str:
        """Name of the directory: `<node>.r<k>`."""

    def names(self) -> list[str]:
        """Names of the checkpoints in it, sorted; none if it does not exist."""

    def read(self, name: str) -> bytes: ...

    def read_all(self, names: Iterable[str]) -> dict[str, bytes | OSError]:
        """Files by name, each with its content, or why it could not be read. Raises nothing."""

    def write(self, name: str, content: bytes) -> None:
        """Write a file; replaces one of this name."""

    def remove(self, *names: str) -> None:
        """Remove files, in any order; does nothing for one that does not exist."""

    def remove_temporaries(self) -> list[str]:
        """Remove all temporary files, whichever process wrote them; returns their names.

        A process that is still writing one (a zombie) gets an OSError from `write` and nothing worse.
        """

    def sibling(self, name: str) -> CheckpointLocation:
        """The directory `name` next to it, of another replica."""

    def siblings(self) -> Iterator[str]:
        """Names of the directories next to it; its own may be among them."""

    def display_name(self, name: str) -> str:
        """Path of a file in it, for messages; without keys."""

    def close(self) -> None:
        """Close its clients. No other method is called afterwards."""


class LocalLocation:
    """A directory of this machine."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def name(self) -> str:
        return self._directory.name

    def prepare(self) -> None:
        made = [path for path in (self._directory, *self._directory.parents) if not path.exists()]
        self._directory.mkdir(parents=True, exist_ok=True)
        for path in made:
            _sync_directory(path.parent)

    def names(self) -> list[str]:
        return sorted(path.name for path in self._directory.glob(f"*{SUFFIX}"))

    def read(self, name: str) -> bytes:
        return (self._directory / name).read_bytes()

    def read_all(self, names: Iterable[str]) -> dict[str, bytes | OSError]:
        return {name: content_or_error(self, name) for name in names}

    def write(self, name: str, content: bytes) -> None:
        path = self._directory / name
        temporary = path.with_name(_aside(name))
        try:
            with temporary.open("wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError:
            temporary.unlink(missing_ok=True)
            raise
        _sync_directory(self._directory)  # the name is part of the directory, not of the file

    def remove(self, *names: str) -> None:
        for name in names:
            (self._directory / name).unlink(missing_ok=True)

    def remove_temporaries(self) -> list[str]:
        left = sorted(path.name for path in self._directory.glob(f"*{ASIDE}"))
        self.remove(*left)
        return left

    def sibling(self, name: str) -> LocalLocation:
        return LocalLocation(self._directory.with_name(name))

    def siblings(self) -> Iterator[str]:
        return (path.name for path in self._directory.parent.glob("*") if path.is_dir())

    def display_name(self, name: str) -> str:
        return str(self._directory / name)

    def close(self) -> None:
        """It has none."""


def _sync_directory(directory: Path) -> None:
    """Make the names in it survive a power cut. Raises OSError."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def id_of(directory: Path) -> str:
    """A random id that lies in a directory, and is written there by whoever looks first: so two machines whose paths
    are equal learn whether their disks are, too. Whoever writes at the same time gets the id of the first.

    Raises:
        OSError: it can neither be read nor written.
    """
    path = directory / PLACE
    if (found := _id_in(path)) is not None:
        return found
    directory.mkdir(parents=True, exist_ok=True)
    opened = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX)  # until it is closed: nobody replaces what another has just written
        if (found := _id_in(path)) is None:  # torn by a power cut, or nothing of ours
            found = uuid.uuid4().hex
            temporary = path.with_name(_aside(PLACE))
            try:
                temporary.write_text(found)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
        return found
    finally:
        os.close(opened)


def _id_in(path: Path) -> str | None:
    try:
        found = path.read_bytes()[: ID_CHARS + 1].decode(errors="replace")
    except FileNotFoundError:
        return None
    return found if _ID.fullmatch(found) else None


def local_directory(uri: str) -> Path | None:
    """The directory of a URI on this machine's own file systems; None: all machines find the same there.

    Raises:
        LocationError: pyarrow.fs has no file system for the URI.
    """
    if not uri.startswith("file:"):
        return None
    filesystem, path = _filesystem(uri)
    return Path(path) if filesystem.type_name == "local" else None


class UriLocation:
    """A directory at a URI of pyarrow.fs: s3://bucket/prefix?endpoint_override=..., hdfs://host:port/path, file:///...

    Args:
        filesystem, path: as `pyarrow.fs.FileSystem.from_uri` returns them; None: look them up there.

    Raises:
        LocationError: pyarrow.fs has no file system for the URI.
    """

    def __init__(self, uri: str, filesystem: Any = None, path: str = "") -> None:
        self._shown = without_query(uri)
        if filesystem is None:
            filesystem, path = _filesystem(uri)
        self._fs = filesystem
        self._path = path.rstrip("/")
        self._at_once = filesystem.type_name in OBJECT_STORES

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    def prepare(self) -> None:
        if not self._at_once:
            with as_os_error():
                self._fs.create_dir(self._path, recursive=True)

    def names(self) -> list[str]:
        return self._files(SUFFIX)

    def read(self, name: str) -> bytes:
        with as_os_error(), self._fs.open_input_stream(f"{self._path}/{name}") as file:
            return bytes(file.read())

    def read_all(self, names: Iterable[str]) -> dict[str, bytes | OSError]:
        wanted = list(names)
        return dict(zip(wanted, _at_once(lambda name: content_or_error(self, name), wanted), strict=True))

    def write(self, name: str, content: bytes) -> None:
        path = f"{self._path}/{name}"
        if self._at_once:
            self._put(path, content)
            return
        temporary = f"{self._path}/{_aside(name)}"
        try:
            self._put(temporary, content)
            self._rename(temporary, path)
        except OSError:
            self._delete(temporary)
            raise

    def remove(self, *names: str) -> None:
        _at_once(lambda name: self._delete(f"{self._path}/{name}"), names)

    def remove_temporaries(self) -> list[str]:
        left = [] if self._at_once else self._files(ASIDE)
        self.remove(*left)
        return left

    def sibling(self, name: str) -> UriLocation:
        parent = self._path.rpartition("/")[0]
        return UriLocation(f"{self._shown.rpartition('/')[0]}/{name}", self._fs, f"{parent}/{name}")

    def siblings(self) -> Iterator[str]:
        return (i.base_name for i in self._list(self._path.rpartition("/")[0]) if not i.is_file)

    def display_name(self, name: str) -> str:
        return f"{self._shown}/{name}"

    def close(self) -> None:
        """They close with it."""

    def _files(self, suffix: str) -> list[str]:
        return sorted(i.base_name for i in self._list(self._path) if i.is_file and i.base_name.endswith(suffix))

    def _list(self, path: str) -> list[Any]:
        from pyarrow.fs import FileSelector

        with as_os_error():
            found: list[Any] = self._fs.get_file_info(FileSelector(path, allow_not_found=True))
        return found

    def _put(self, path: str, content: bytes) -> None:
        with as_os_error(), self._fs.open_output_stream(path) as file:
            file.write(content)

    def _rename(self, source: str, target: str) -> None:
        with as_os_error():
            try:
                self._fs.move(source, target)
            except OSError:  # HDFS does not replace a file; the old one has the same bits, or is torn
                if not self._fs.get_file_info(source).is_file:
                    raise  # a successor removed it: the target is the successor's, and stays
                self._delete(target)
                self._fs.move(source, target)

    def _delete(self, path: str) -> None:
        with as_os_error():
            try:
                self._fs.delete_file(path)
            except OSError:
                if self._fs.get_file_info(path).is_file:
                    raise


_Done = TypeVar("_Done")


def _at_once(work: Callable[[str], _Done], names: Sequence[str]) -> list[_Done]:
    """The result for each name. Raises what `work` raises."""
    if len(names) < 2:
        return [work(name) for name in names]
    with ThreadPoolExecutor(min(AT_ONCE, len(names))) as threads:
        return list(threads.map(work, names))


def content_or_error(place: CheckpointLocation, name: str) -> bytes | OSError:
    """A file's content, or why it could not be read."""
    try:
        return place.read(name)
    except OSError as exc:
        return exc


def location_at(uri: str, *parts: str) -> UriLocation:
    """The directory `parts` below a URI; the URI's query string stays at the end. Raises LocationError."""
    path, mark, query = uri.partition("?")
    return UriLocation("/".join((path.rstrip("/"), *parts)) + mark + query)


def forget(uri: str, app: str) -> None:
    """Delete all checkpoints of an app at a URI. Raises LocationError."""
    filesystem, path = _filesystem(uri)
    path = f"{path.rstrip('/')}/{app}"
    try:
        with as_os_error():
            if filesystem.get_file_info(path).type.name == "Directory":
                filesystem.delete_dir(path)
    except OSError as exc:
        raise LocationError(
            f"checkpoints of app {app} at {without_query(uri)} cannot be deleted: {in_short(exc, uri)}"
        ) from exc


def _filesystem(uri: str) -> tuple[Any, str]:
    from pyarrow.fs import FileSystem

    try:
        found: tuple[Any, str] = FileSystem.from_uri(uri)
    except Exception as exc:  # each file system raises its own kind
        raise LocationError(
            f"checkpoints cannot be kept at {without_query(uri)}: {in_short(exc, uri)}. "
            "Write s3://bucket/path, hdfs://host:port/path or file:///path"
        ) from exc
    return found


@contextmanager
def as_os_error(kinds: type[Exception] = Exception) -> Iterator[None]:
    """Turn the many kinds of errors of pyarrow's file systems, or those of a log, into OSError. `kinds`: no others."""
    try:
        yield
    except OSError:
        raise
    except kinds as exc:
        raise OSError(str(exc) if isinstance(exc, LogError) else f"{type(exc).__name__}: {exc}") from exc


def in_short(exc: Exception, uri: str) -> str:
    """The error's message without keys, cut to `SHORT` characters: some clients write pages."""
    return shorten(str(exc).replace(uri, without_query(uri)), SHORT, placeholder=" [...]").rstrip(".")


def _aside(name: str) -> str:
    """A unique temporary name. Process ids would not do: containers that share a volume may have equal ones."""
    return f"{name}.{uuid.uuid4().hex}{ASIDE}"


def without_query(uri: str) -> str:
    """The URI for messages, without user and query string, which may hold keys."""
    path = uri.partition("?")[0]
    scheme, mark, rest = path.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"


def sealed(magic: bytes, content: bytes) -> bytes:
    """The content of a file that `unsealed` can tell from a torn or altered one."""
    return magic + hashlib.sha256(content).digest() + content


def seal_of(magic: bytes, file: bytes) -> bytes:
    """The hash in a sealed file, of its content."""
    return file[len(magic) : len(magic) + HASH_BYTES]


def unsealed(magic: bytes, file: bytes) -> bytes:
    """What was sealed. Raises ValueError: that is not in the file as it was."""
    head = len(magic) + HASH_BYTES
    if file[: len(magic)] != magic or len(file) < head:
        raise ValueError("the file is no checkpoint, or cut short")
    if hashlib.sha256(file[head:]).digest() != seal_of(magic, file):
        raise ValueError("the content does not match its hash")
    return file[head:]
