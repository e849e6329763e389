"""Where checkpoints lie: a local directory, or any file system that pyarrow.fs knows (S3-compatible, HDFS, GCS ...).

A name appears in a place only with its whole content, as far as the file system can promise that:

- local: written aside, synced, renamed, and the directory synced, too: else a power cut may take the name back;
- object stores (S3, GCS, Azure): an object appears when its upload is complete, so it is written under its name;
- others (HDFS, file://): written aside and renamed.

None of it is trusted: a checkpoint carries a hash of its content, and one that does not match is torn (checkpoints.py).
What is written aside ends in `.tmp` and is never listed. Who is killed leaves it; the next start clears it.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import shorten
from typing import Any, Protocol

SUFFIX = ".ckpt"
ASIDE = ".tmp"
OBJECT_STORES = ("s3", "gcs", "abfs")
SHORT = 400
"""Characters of a file system's own words."""


class LocationError(ValueError):
    """Checkpoints cannot lie there; the message says why."""


class CheckpointLocation(Protocol):
    """The directory of one replica; those of its peers lie beside it. Methods block, and raise OSError."""

    def prepare(self) -> None:
        """Make it, where directories are made."""

    @property
    def name(self) -> str:
        """Of the directory: `<node>.r<k>`."""

    def names(self) -> list[str]:
        """Of the checkpoints in it, in order; none if it is not there."""

    def read(self, name: str) -> bytes: ...

    def write(self, name: str, content: bytes) -> None:
        """Replaces what has this name."""

    def remove(self, name: str) -> None:
        """Nothing happens if it is not there."""

    def remove_temporaries(self) -> list[str]:
        """Remove what was written aside and not renamed, whoever wrote it; returns the names.

        Whose file it was and who still writes (a zombie) gets an OSError of `write`, and no more.
        """

    def sibling(self, name: str) -> CheckpointLocation:
        """Another replica's."""

    def siblings(self) -> Iterator[str]:
        """Names of the directories beside it, its own perhaps among them."""

    def display_name(self, name: str) -> str:
        """For people."""


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
        _sync_directory(self._directory)  # the name lies in the directory, not in the file

    def remove(self, name: str) -> None:
        (self._directory / name).unlink(missing_ok=True)

    def remove_temporaries(self) -> list[str]:
        left = sorted(path.name for path in self._directory.glob(f"*{ASIDE}"))
        for name in left:
            self.remove(name)
        return left

    def sibling(self, name: str) -> LocalLocation:
        return LocalLocation(self._directory.with_name(name))

    def siblings(self) -> Iterator[str]:
        return (path.name for path in self._directory.parent.glob("*") if path.is_dir())

    def display_name(self, name: str) -> str:
        return str(self._directory / name)


def _sync_directory(directory: Path) -> None:
    """Have the names in it survive a power cut. Raises OSError."""
    opened = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


class UriLocation:
    """A directory at a URI of pyarrow.fs: s3://bucket/prefix?endpoint_override=..., hdfs://host:port/path, file:///...

    Args:
        filesystem, path: as `pyarrow.fs.FileSystem.from_uri` gives them; None: that is asked.

    Raises:
        LocationError: no file system knows such a URI.
    """

    def __init__(self, uri: str, filesystem: Any = None, path: str = "") -> None:
        self._shown = without_query(uri)
        if filesystem is None:
            filesystem, path = _filesystem(uri)
        self._fs, self._path = filesystem, path.rstrip("/")
        self._at_once = filesystem.type_name in OBJECT_STORES

    @property
    def name(self) -> str:
        return self._path.rpartition("/")[2]

    def prepare(self) -> None:
        if not self._at_once:
            with _as_os_error():
                self._fs.create_dir(self._path, recursive=True)

    def names(self) -> list[str]:
        return self._files(SUFFIX)

    def read(self, name: str) -> bytes:
        with _as_os_error(), self._fs.open_input_stream(f"{self._path}/{name}") as file:
            return bytes(file.read())

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

    def remove(self, name: str) -> None:
        self._delete(f"{self._path}/{name}")

    def remove_temporaries(self) -> list[str]:
        left = [] if self._at_once else self._files(ASIDE)
        for name in left:
            self.remove(name)
        return left

    def sibling(self, name: str) -> UriLocation:
        parent = self._path.rpartition("/")[0]
        return UriLocation(f"{self._shown.rpartition('/')[0]}/{name}", self._fs, f"{parent}/{name}")

    def siblings(self) -> Iterator[str]:
        return (i.base_name for i in self._list(self._path.rpartition("/")[0]) if not i.is_file)

    def display_name(self, name: str) -> str:
        return f"{self._shown}/{name}"

    def _files(self, suffix: str) -> list[str]:
        return sorted(i.base_name for i in self._list(self._path) if i.is_file and i.base_name.endswith(suffix))

    def _list(self, path: str) -> list[Any]:
        from pyarrow.fs import FileSelector

        with _as_os_error():
            found: list[Any] = self._fs.get_file_info(FileSelector(path, allow_not_found=True))
        return found

    def _put(self, path: str, content: bytes) -> None:
        with _as_os_error(), self._fs.open_output_stream(path) as file:
            file.write(content)

    def _rename(self, source: str, target: str) -> None:
        with _as_os_error():
            try:
                self._fs.move(source, target)
            except OSError:  # HDFS does not replace; what is there has the same bits, or is torn
                if not self._fs.get_file_info(source).is_file:
                    raise  # a successor cleared it: what is there is the successor's, and stays
                self._delete(target)
                self._fs.move(source, target)

    def _delete(self, path: str) -> None:
        with _as_os_error():
            try:
                self._fs.delete_file(path)
            except OSError:
                if self._fs.get_file_info(path).is_file:
                    raise


def location_at(uri: str, *parts: str) -> UriLocation:
    """The directory `parts` below a URI; its query stays at the end. Raises LocationError."""
    path, mark, query = uri.partition("?")
    return UriLocation("/".join((path.rstrip("/"), *parts)) + mark + query)


def forget(uri: str, app: str) -> None:
    """Delete all checkpoints of an app there. Raises LocationError."""
    filesystem, path = _filesystem(uri)
    path = f"{path.rstrip('/')}/{app}"
    try:
        with _as_os_error():
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
    except Exception as exc:  # each file system has its own
        raise LocationError(
            f"no checkpoints at {without_query(uri)}: {in_short(exc, uri)}. "
            "Write s3://bucket/path, hdfs://host:port/path or file:///path"
        ) from exc
    return found


@contextmanager
def _as_os_error() -> Iterator[None]:
    """File systems of pyarrow raise what they like; whoever uses a place is to meet one kind of error."""
    try:
        yield
    except OSError:
        raise
    except Exception as exc:
        raise OSError(f"{type(exc).__name__}: {exc}") from exc


def in_short(exc: Exception, uri: str) -> str:
    """Without keys, and not the pages that some clients say."""
    return shorten(str(exc).replace(uri, without_query(uri)), SHORT, placeholder=" [...]").rstrip(".")


def _aside(name: str) -> str:
    """Nobody else's: processes in containers that share a volume have the same number, too."""
    return f"{name}.{uuid.uuid4().hex}{ASIDE}"


def without_query(uri: str) -> str:
    """A URI for people: what is left out may hold keys."""
    path = uri.partition("?")[0]
    scheme, mark, rest = path.partition("://")
    return f"{scheme}{mark}{rest.rpartition('@')[2]}"
