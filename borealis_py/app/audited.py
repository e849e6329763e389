"""Where audits with `--advance` ended, kept beside the checkpoints, and told in `<app>.acks` to whoever trims (R16.7).

A file holds the state that the audit computed, and so may be large; the record only says what the next audit reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec
import structlog

from borealis_py.app.state import AppState
from borealis_py.log.acks import audit_record
from borealis_py.log.base import Log, LogError, NewRecord
from borealis_py.log.numbers import Number
from borealis_py.log.unreadable import total
from borealis_py.node.checkpoint_files import Position
from borealis_py.node.checkpoint_storage import (
    SUFFIX,
    CheckpointLocation,
    LocalLocation,
    LocationError,
    in_short,
    location_at,
    sealed,
    unsealed,
)
from borealis_py.node.checkpoint_topic import KAFKA, TopicLocation
from borealis_py.query.partitions import parts_of
from borealis_py.query.spec import AppSpec
from reconcile.audit import Audited
from sunion.units import Bucket, Offset

log = structlog.get_logger(__package__)
MAGIC = b"BZAUD1\n"
KEEP = 2
WRITTEN_S = 15.0


class _Body(msgspec.Struct, array_like=True, frozen=True):
    """A file. `what`: the query, the app's life and the kernel that it is of. The rest is an `Audited`."""

    what: str
    bucket: Number
    positions: tuple[Position, ...]
    state: bytes
    corrected: Number
    letters: Number


_body = msgspec.msgpack.Decoder(_Body).decode


@dataclass(frozen=True, slots=True)
class AuditPlace:
    """Where the files of an app's audits lie: below `directory`, the app's own, at a `uri` of pyarrow.fs, or, if that
    says `kafka`, in topics of the app's `log`."""

    log: Log
    directory: Path
    uri: str = ""

    def read(self, state: AppState, spec: AppSpec, query: str) -> dict[str, Audited]:
        """Where the last audit of a query ended, by its partitions; those without one are left out. A file that cannot
        be used is left out with a warning.

        Args:
            spec: the app with its queries, as it is to be audited.

        Raises:
            LocationError: there are no files to be had at this place.
        """
        found = {}
        for part in parts_of(spec, query):
            try:
                with closing(self._location(state.name, part)) as location:
                    names = reversed(location.names())
                    loaded = (_loaded(location, name, _what(state, spec, query)) for name in names)
                    audited = next((one for one in loaded if one is not None), None)
            except OSError as exc:
                raise LocationError(f"audits of {part}: {in_short(exc, self.uri)}") from exc
            if audited is not None:
                found[part] = audited
        return found

    def write(self, state: AppState, spec: AppSpec, query: str, reached: Mapping[str, Audited]) -> None:
        """Keep where an audit ended, by the query's partitions. It is durable afterwards, and can be read.

        Raises:
            LocationError: it cannot be kept.
        """
        what = _what(state, spec, query)
        for part, audited in reached.items():
            name, positions = f"{audited.bucket:020d}{SUFFIX}", tuple(Position.of(mark) for mark in audited.marks)
            body = _Body(what, audited.bucket, positions, audited.state, audited.corrected, audited.letters)
            with closing(self._location(state.name, part)) as location:
                try:
                    location.prepare()
                    location.write(name, sealed(MAGIC, msgspec.msgpack.encode(body)))
                    if _loaded(location, name, what) != audited:
                        raise OSError("what was written cannot be read")
                    for old in location.names()[:-KEEP]:
                        location.remove(old)
                except OSError as exc:
                    shown = location.display_name(name)
                    raise LocationError(
                        f"{shown}: the audit's end cannot be kept there: {in_short(exc, self.uri)}"
                    ) from exc

    def _location(self, app: str, part: str) -> CheckpointLocation:
        name = f"{part}.audit"
        if self.uri == KAFKA:
            return TopicLocation(self.log, app, name)
        return location_at(self.uri, app, name) if self.uri else LocalLocation(self.directory / name)


def tell(log_: Log, state: AppState, query: str, starts: Mapping[str, tuple[Sequence[str], Audited]]) -> None:
    """Write what the next audit of a query reads, so that what lies before may be deleted.

    Args:
        starts: for each partition of the query its sources, by name as they run, and where its audit begins.

    Raises:
        LogError: it could not be written.
    """
    with closing(log_.appender(lambda: None)) as appender:
        appender.append(record_of(state.name, state.app_uid, query, starts), query)
        written = appender.flush(WRITTEN_S)
        refused = [delivery.error for delivery in appender.deliveries() if delivery.error is not None]
    if refused or not written:
        raise LogError(
            f"audit of {query}: {refused[0] if refused else 'the log did not answer'}, so nothing is trimmed"
        )


def record_of(app: str, app_uid: str, query: str, starts: Mapping[str, tuple[Sequence[str], Audited]]) -> NewRecord:
    """The record that `tell` writes: of a source that several partitions read, from where the first of them reads."""
    offsets: dict[str, Offset] = {}
    for sources, audited in starts.values():
        for source, mark in zip(sources, audited.marks, strict=True):
            offsets[source] = Offset(min(mark.offset, offsets.get(source, mark.offset)))
    bucket = Bucket(min(audited.bucket for _, audited in starts.values()))
    return audit_record(app, app_uid, query, bucket, offsets)


def _what(state: AppState, spec: AppSpec, query: str) -> str:
    return f"{spec.query_hash(query)}@{state.app_uid}/{state.description.fingerprint}"


def _loaded(location: CheckpointLocation, name: str, what: str) -> Audited | None:
    where = location.display_name(name)
    try:
        body = total(_body, unsealed(MAGIC, location.read(name)))
    except (OSError, ValueError, msgspec.MsgspecError) as exc:
        log.warning("end of an audit skipped: it cannot be read or verified", file=where, why=str(exc))
        return None
    if body.what != what:
        log.warning("end of an audit skipped: it is of another query, life or kernel", file=where)
        return None
    marks = tuple(position.mark for position in body.positions)
    return Audited(body.bucket, body.state, marks, body.corrected, body.letters)
