"""The one door: what happened since the last turn comes in together, what to do goes out in order.

Frozen dataclasses, compared with `==` in tests. Times are int microseconds of the local monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from borealis_py.protocol.redo import RedoJob, RedoPlace, RedoResult
from borealis_py.protocol.settings import Delays
from sunion.model import Output, SourceRecord, State, StreamRecord
from sunion.union import Mark


@dataclass(frozen=True, slots=True)
class ReceivedHeartbeat:
    """A heartbeat as read from the control log at `offset` (R7). `checkpoint_bucket`: of its newest one, -1: none."""

    offset: int
    replica: int
    inc: int
    uid: str
    recovering: bool
    ack_s: int
    ack_l: int
    asking: bool
    ask_offset: int | None = None
    checkpoint_bucket: int = -1


@dataclass(frozen=True, slots=True)
class WriterReady:
    """The corrected stream's writer fenced its predecessors and read the progress; None: there is none yet."""

    attempt: int
    progress: int | None


@dataclass(frozen=True, slots=True)
class WriterCommitted:
    """The transaction is in the corrected stream. `end`: how far it went, None: as far as it was asked to."""

    attempt: int
    end: int | None = None


@dataclass(frozen=True, slots=True)
class WriterLost:
    """The attempt is over: `fenced` by another writer, or its outcome is unknown."""

    attempt: int
    fenced: bool


@dataclass(frozen=True, slots=True)
class WriterBusy:
    """The attempt is over before it began: another writer is at work in a transaction."""

    attempt: int


WriterEvent = WriterReady | WriterCommitted | WriterLost | WriterBusy


@dataclass(frozen=True, slots=True)
class Turn:
    """What happened since the last turn.

    `inputs`: records by input index, in the log's order; `streams`: for inputs that are streams, (replica, record)
    pairs, each replica's in its log's order. `read_to`: the latest time at which the ends of all reachable feeds were
    asked and everything below them has been handed in by now (R3, B14). `acked`: highest token that the log holds.
    `checkpoint_bucket`: of the newest checkpoint that became durable. `progress`: records of the corrected stream's.
    """

    now: int
    beats: Sequence[ReceivedHeartbeat] = ()
    inputs: Mapping[int, Sequence[SourceRecord]] = field(default_factory=dict)
    streams: Mapping[int, Sequence[tuple[int, StreamRecord]]] = field(default_factory=dict)
    delays: Delays | None = None
    read_to: int | None = None
    acked: int | None = None
    redo: Sequence[RedoResult] = ()
    progress: Sequence[int] = ()
    writer: Sequence[WriterEvent] = ()
    checkpoint_bucket: int | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Append to the replica's own topic. Acknowledge `token` by `Turn.acked`."""

    token: int
    record: StreamRecord


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Append a heartbeat to the control log."""

    state: str
    ack_s: int
    ack_l: int
    asking: bool
    ask_offset: int | None
    progress: int
    checkpoint_bucket: int = -1


@dataclass(frozen=True, slots=True)
class AskEnds:
    """Learn the ends of all feeds; answer by `Turn.read_to` once everything below them is handed in."""


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Move the cursor of a stream's replica back to `offset`: what memory had no room for is needed now (R6).

    Where that is deleted by now, it goes on where it stood.
    """

    index: int
    replica: int
    offset: int


@dataclass(frozen=True, slots=True)
class StartRedo:
    """Have the job run."""

    job: RedoJob
    place: RedoPlace


@dataclass(frozen=True, slots=True)
class CancelRedo:
    """Its result no longer matters."""

    job_id: int


@dataclass(frozen=True, slots=True)
class FenceWriter:
    """Fence the corrected stream's writer, unless it is at work, then read how far it got (B7)."""

    attempt: int


@dataclass(frozen=True, slots=True)
class Publish:
    """One transaction: rows of [first, end) and progress `end`.

    `outputs` None: read them from the own topic, in order and no further than `Timing.publish_most` allows, but one
    bucket that has output at least; the answer tells how far that was.
    """

    attempt: int
    first: int
    end: int
    outputs: Mapping[int, Output] | None


@dataclass(frozen=True, slots=True)
class AbandonWriter:
    """Throw the writer away."""


@dataclass(frozen=True, slots=True)
class SaveCheckpoint:
    """Make it durable: everything below `bucket` is acknowledged in the own topic (R12)."""

    bucket: int
    state: State
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """For people and status: what happened. `event` as in `log.messages.Status`."""

    event: str
    detail: str = ""
    redo: tuple[int, int, int, str, float] | None = None


@dataclass(frozen=True, slots=True)
class ExitReplica:
    """This incarnation is over: another one of the same replica index is newer (R8)."""

    reason: str


Effect = (
    Append
    | SendHeartbeat
    | AskEnds
    | ReadAgain
    | StartRedo
    | CancelRedo
    | FenceWriter
    | Publish
    | AbandonWriter
    | SaveCheckpoint
    | EmitEvent
    | ExitReplica
)
