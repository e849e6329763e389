"""What a replica's task and the driver of its Spark application say to each other about redos, as records of a log.

    task -> driver   Ask (in parts), Cancel, Told
    driver -> task   Taken, Answer (in parts), Stop

A letter counts only for who it names: `session` is one life of a driver's application, `uid` one incarnation of a
replica, `id` one of its jobs. What is late, repeated, cut short or of somebody else says nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.topics import ENVELOPE_BYTES_MAX

JOB_BYTES_MAX = 64 << 20
"""A larger job or answer does not travel; the redo runs inline."""


class MessageChunk(msgspec.Struct, array_like=True, frozen=True):
    """One of the letters in which a long body travels. `body`: its piece number `part` of `parts`."""

    session: str
    uid: str
    id: int
    part: int
    parts: int
    body: bytes


class SubmitJob(MessageChunk, frozen=True, tag="ASK"):
    """Run this job: what `reconcile.redo_job.pack_job` gives."""


class CancelJob(msgspec.Struct, array_like=True, frozen=True, tag="CANCEL"):
    """Its answer no longer matters."""

    session: str
    uid: str
    id: int


class StatusReport(msgspec.Struct, array_like=True, frozen=True, tag="TOLD"):
    """What the replica last said of itself, for the pages of its driver. `body`: opaque here."""

    session: str
    uid: str
    body: bytes


class JobAccepted(msgspec.Struct, array_like=True, frozen=True, tag="TAKEN"):
    """The driver has a slot for the job, and has submitted it."""

    session: str
    uid: str
    id: int


class JobResult(MessageChunk, frozen=True, tag="ANSWER"):
    """How the job ended: what `reconcile.redo_job.run_packed` gave, a result or a named failure."""


class Shutdown(msgspec.Struct, array_like=True, frozen=True, tag="STOP"):
    """Every task of the session is to end in order."""

    session: str


RpcMessage = SubmitJob | CancelJob | StatusReport | JobAccepted | JobResult | Shutdown
P = TypeVar("P", bound=MessageChunk)
JobKey = tuple[str, int]
"""Who asked (uid) and which of its jobs."""

_decoder = msgspec.msgpack.Decoder(RpcMessage)


def encode(letter: RpcMessage) -> bytes:
    return msgspec.msgpack.encode(letter)


def decode(value: bytes | None) -> RpcMessage | None:
    """None for what is no letter of this version."""
    try:
        letter: RpcMessage = _decoder.decode(value or b"")
    except (msgspec.DecodeError, msgspec.ValidationError):
        return None
    return letter


def to_record(feed: Feed, letter: RpcMessage) -> NewRecord:
    """To be appended."""
    return NewRecord(feed, encode(letter))


def decode_all(records: Iterable[Record], session: str) -> list[tuple[Feed, RpcMessage]]:
    """The letters of that session among these records, and where each came from."""
    found = [(one.feed, decode(one.value)) for one in records]
    return [(feed, letter) for feed, letter in found if letter is not None and letter.session == session]


def split(kind: type[P], session: str, job: JobKey, body: bytes) -> list[P]:
    """The letters of one request (Ask) or answer (Answer)."""
    pieces = [body[i : i + ENVELOPE_BYTES_MAX] for i in range(0, len(body), ENVELOPE_BYTES_MAX)] or [b""]
    return [kind(session, *job, n, len(pieces), piece) for n, piece in enumerate(pieces)]


SENDERS_MAX = 2
"""An incarnation and the one it replaces may both ask; what dead ones left must not pile up."""


class Reassembler:
    """Puts the parts of bodies together. A body of which a part is missing, or comes again among them, is never whole.

    Whether a whole body is a repeat its job tells. Keeps one job's parts of each sender, since a task has one job at a
    time, and those of the last `SENDERS_MAX`.
    """

    def __init__(self) -> None:
        self._open: dict[str, tuple[int, list[bytes]]] = {}  # by uid, last heard last

    def add(self, letter: MessageChunk) -> bytes | None:
        """The whole body with its last part; None before, and for what does not continue it."""
        job, parts = self._open.pop(letter.uid, (letter.id, []))
        if job != letter.id:
            parts = []
        if letter.part != len(parts):
            return None
        parts.append(letter.body)
        if len(parts) == letter.parts:
            return b"".join(parts)
        self._open[letter.uid] = letter.id, parts
        if len(self._open) > SENDERS_MAX:
            del self._open[next(iter(self._open))]
        return None
