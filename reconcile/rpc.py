"""RPC between a replica's task and the driver of its Spark application, as records of a log.

    task -> driver   SubmitJob (in chunks), CancelJob, StatusReport; of the standby task also StandbysReport
    driver -> task   JobAccepted, JobResult (in chunks), Shutdown; to the standby task also StandbysOrder

A message counts only for its addressee: `session` is one life of a driver's application, `uid` one incarnation of a
replica, `id` one of its jobs. Late, repeated, incomplete and foreign messages are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, TypeVar

import msgspec
import structlog

from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.numbers import Number
from borealis_py.log.topics import ENVELOPE_BYTES_MAX
from borealis_py.log.unreadable import ignored, total

JOB_BYTES_MAX = 64 << 20
"""A larger result is not sent; the redo runs inline."""
STATE_BYTES_MAX = 16 << 20
"""A job with more state is not sent; the redo runs inline: the way there and back would take longer than it may."""

PARTS_MAX = JOB_BYTES_MAX // ENVELOPE_BYTES_MAX + 1
log = structlog.get_logger(__package__)


class MessageChunk(msgspec.Struct, array_like=True, frozen=True):
    """One of the messages that carry a long body: piece `part`, from 0, of `parts`; `body`: its bytes. `session`,
    `uid`, `id`, here and below: see the top of the module."""

    session: str
    uid: str
    id: Number
    part: Number
    parts: Annotated[int, msgspec.Meta(ge=1, le=PARTS_MAX)]
    body: bytes


class SubmitJob(MessageChunk, frozen=True, tag="SUBMIT_JOB"):
    """Run this job. The body is the result of `reconcile.redo_job.pack_job`."""


class CancelJob(msgspec.Struct, array_like=True, frozen=True, tag="CANCEL_JOB"):
    """The task (`session`, `uid`) no longer wants the result of job `id`."""

    session: str
    uid: str
    id: Number


class StatusReport(msgspec.Struct, array_like=True, frozen=True, tag="STATUS_REPORT"):
    """The latest status of the replica (`session`, `uid`), for the HTTP pages of its driver. `body` is opaque here."""

    session: str
    uid: str
    body: bytes


class JobAccepted(msgspec.Struct, array_like=True, frozen=True, tag="JOB_ACCEPTED"):
    """The driver had a slot for job `id` of the task (`session`, `uid`) and has started it."""

    session: str
    uid: str
    id: Number


class JobResult(MessageChunk, frozen=True, tag="JOB_RESULT"):
    """The job has finished. The body is the result of `reconcile.redo_job.run_packed`, or a named failure."""


class Shutdown(msgspec.Struct, array_like=True, frozen=True, tag="SHUTDOWN"):
    """Every task of `session` must close its replica and end."""

    session: str


class IncarnationOrder(msgspec.Struct, array_like=True, frozen=True):
    """Run an incarnation of a replica; a higher `number` is a new one. `moves`: it has another one elsewhere, whose
    place this one is to take."""

    number: Number
    moves: bool = False


class StandbysOrder(msgspec.Struct, array_like=True, frozen=True, tag="STANDBYS_ORDER"):
    """What the standby task of `session` is to run: `orders`, by the names of replicas. Empty: it is to end. Sent until
    the task has reported these."""

    session: str
    orders: dict[str, IncarnationOrder]


class IncarnationEnd(msgspec.Struct, array_like=True, frozen=True):
    """How an incarnation ended: `kind` "" in order, "failed", or a named end; `why`: the error, else ""."""

    kind: str = ""
    why: str = ""


class StandbysReport(msgspec.Struct, array_like=True, frozen=True, tag="STANDBYS_REPORT"):
    """Which incarnations the standby task of `session` has begun, by the numbers of the orders, and how those ended
    that have. `pid`: of its worker, on `host`."""

    session: str
    pid: Number
    host: str
    begun: dict[str, Number]
    ended: dict[str, IncarnationEnd]


RpcMessage = SubmitJob | CancelJob | StatusReport | JobAccepted | JobResult | Shutdown | StandbysOrder | StandbysReport
P = TypeVar("P", bound=MessageChunk)
JobKey = tuple[str, int]
"""The submitting incarnation (uid) and the id of its job."""

_decoder = msgspec.msgpack.Decoder(RpcMessage)


def encode(message: RpcMessage) -> bytes:
    return msgspec.msgpack.encode(message)


def decode(value: bytes | None) -> RpcMessage | None:
    """A message, or None for bytes that are no message of this version."""
    try:
        return _decoded(value)
    except msgspec.MsgspecError:
        return None


def _decoded(value: bytes | None) -> RpcMessage:
    message: RpcMessage = total(_decoder.decode, value or b"")
    if isinstance(message, MessageChunk) and not message.part < message.parts:
        raise msgspec.ValidationError(f"part {message.part} of {message.parts}")
    return message


def to_record(feed: Feed, message: RpcMessage) -> NewRecord:
    """The record that carries the message."""
    return NewRecord(feed, encode(message))


def decode_all(records: Iterable[Record], session: str) -> list[tuple[Feed, RpcMessage]]:
    """The session's messages among these records, each with the topic partition it came from."""
    found: list[tuple[Feed, RpcMessage]] = []
    for one in records:
        try:
            message = _decoded(one.value)
        except msgspec.MsgspecError as exc:
            ignored(log, "message between a task and its driver ignored", one, exc)
            continue
        if message.session == session:
            found.append((one.feed, message))
    return found


def split(kind: type[P], session: str, job: JobKey, body: bytes) -> list[P]:
    """The messages that carry `body`, in order; an empty body takes one."""
    pieces = [body[i : i + ENVELOPE_BYTES_MAX] for i in range(0, len(body), ENVELOPE_BYTES_MAX)] or [b""]
    return [kind(session, *job, n, len(pieces), piece) for n, piece in enumerate(pieces)]


SENDERS_MAX = 2
"""An incarnation and the one it replaces may both submit; chunks of dead ones must not pile up."""


class Reassembler:
    """Reassembles bodies from their chunks. A body with a missing or repeated chunk is never completed.

    It keeps the chunks of one job per sender, since a task has one job at a time, and of the last `SENDERS_MAX`
    senders. Callers recognise a repeated body by its job.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[int, list[bytes]]] = {}  # by uid, last heard last

    def add(self, message: MessageChunk) -> bytes | None:
        """The whole body with its last chunk; None before, and for a chunk out of sequence."""
        job, parts = self._open.pop(message.uid, (message.id, []))
        if job != message.id:
            parts = []
        if message.part != len(parts):
            return None
        parts.append(message.body)
        if len(parts) == message.parts:
            return b"".join(parts)
        self._open[message.uid] = message.id, parts
        if len(self._open) > SENDERS_MAX:
            del self._open[next(iter(self._open))]
        return None
