"""What passes the manager's one door: a `Turn` with all that happened since the last one goes in, effects come out.

Frozen dataclasses, compared with `==` in tests. Times are int microseconds of the local monotonic clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from borealis_py.protocol.incarnation import Disagreement, Heartbeat
from borealis_py.protocol.redo import RedoJob, RedoPlace, RedoResult
from borealis_py.protocol.settings import NodeDelays
from sunion.model import Output, SourceRecord, State, StreamRecord
from sunion.union import Mark
from sunion.units import NOWHERE, Bucket, MonotonicUs, Offset


@dataclass(frozen=True, slots=True)
class WriterReady:
    """The corrected stream's writer has fenced its predecessors and read the progress.

    Attributes:
        attempt: of the `FenceWriter` that began this writer.
        progress: the first bucket that is not published; None: nothing was ever published.
    """

    attempt: int
    progress: Bucket | None


@dataclass(frozen=True, slots=True)
class WriterCommitted:
    """The transaction is in the corrected stream.

    Attributes:
        attempt: of its writer.
        end: the bucket up to which it reached; None: `Publish.end`.
    """

    attempt: int
    end: Bucket | None = None


@dataclass(frozen=True, slots=True)
class WriterLost:
    """The writer begun as `attempt` is lost: another one fenced it if `fenced`; otherwise its outcome is unknown."""

    attempt: int
    fenced: bool


@dataclass(frozen=True, slots=True)
class WriterBusy:
    """The writer begun as `attempt` ended before it fenced: another one is in the middle of a transaction."""

    attempt: int


WriterEvent = WriterReady | WriterCommitted | WriterLost | WriterBusy


@dataclass(frozen=True, slots=True)
class Turn:
    """What happened since the last turn.

    Attributes:
        now: monotonic microseconds; never less than in the turn before.
        beats: heartbeats of the node's replicas, each with its offset in the control log, in log order.
        inputs: source records by input index, in log order.
        streams: (replica, record) pairs by input index, each replica's in log order.
        delays: the node's settings; None: unchanged.
        read_to: the latest time at which the ends of all reachable feeds were looked up such that everything below them
            has been handed in by now (R3.2, B14); None: unchanged.
        acked: the highest token up to which the log holds every `Append`; None: unchanged.
        redo: results of redo jobs.
        progress: buckets of the corrected stream's progress records, in log order.
        writer: events of the corrected stream's writer.
        checkpoint_bucket: bucket of the newest durable checkpoint; None: unchanged.
        disagreements: what the settings say of replicas that differ, in log order; None: an operator has cleared it.
    """

    now: MonotonicUs
    beats: Sequence[tuple[Offset, Heartbeat]] = ()
    inputs: Mapping[int, Sequence[SourceRecord]] = field(default_factory=dict)
    streams: Mapping[int, Sequence[tuple[int, StreamRecord]]] = field(default_factory=dict)
    delays: NodeDelays | None = None
    read_to: MonotonicUs | None = None
    acked: int | None = None
    redo: Sequence[RedoResult] = ()
    progress: Sequence[Bucket] = ()
    writer: Sequence[WriterEvent] = ()
    checkpoint_bucket: Bucket | None = None
    disagreements: Sequence[Disagreement | None] = ()


@dataclass(frozen=True, slots=True)
class Append:
    """Append `record` to the replica's own topic; acknowledge it by its `token` in `Turn.acked`."""

    token: int
    record: StreamRecord


@dataclass(frozen=True, slots=True)
class SendHeartbeat:
    """Append `heartbeat` to the control log."""

    heartbeat: Heartbeat


@dataclass(frozen=True, slots=True)
class TellDisagreement:
    """Write `disagreement` into the settings, so that no replica publishes any more (R15.2)."""

    disagreement: Disagreement


@dataclass(frozen=True, slots=True)
class AskEnds:
    """Look up the ends of all feeds; answer by `Turn.read_to` once everything below them is handed in."""


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """Move a cursor back to `offset`: records that memory had no room for are needed now (R6.3).

    If they are deleted by now, the cursor goes on where it stood.

    Attributes:
        index: of the input, a stream. replica: whose topic the cursor reads.
        offset: of the first record to read again.
    """

    index: int
    replica: int
    offset: Offset


@dataclass(frozen=True, slots=True)
class StartRedo:
    """Run `job` at `place`; hand its result in by `Turn.redo`."""

    job: RedoJob
    place: RedoPlace


@dataclass(frozen=True, slots=True)
class CancelRedo:
    """Cancel the job `job_id`: its result no longer matters."""

    job_id: int


@dataclass(frozen=True, slots=True)
class FenceWriter:
    """Fence the corrected stream's writer unless it is in a transaction, then read the progress (B7).

    Attributes:
        attempt: number of the new writer; its events carry it. Grows with each attempt.
    """

    attempt: int


@dataclass(frozen=True, slots=True)
class Publish:
    """Publish one transaction: the rows of buckets [first, end) and progress `end`.

    Attributes:
        attempt: of the writer.
        outputs: by bucket. None: read them from the own topic, in order, as many as `Timing.publish_most` allows but at
            least one bucket with output; `WriterCommitted.end` reports how far that was.
    """

    attempt: int
    first: Bucket
    end: Bucket
    outputs: Mapping[int, Output] | None


@dataclass(frozen=True, slots=True)
class AbandonWriter:
    """Discard the corrected stream's writer."""


@dataclass(frozen=True, slots=True)
class SaveCheckpoint:
    """Make a checkpoint durable: the own topic has acknowledged everything below `bucket` (R12).

    Attributes:
        bucket: the first that is not in `state`.
        marks: where to read each source from to go on at `bucket`.
        said: the first bucket that a start from it says, if it lies behind `bucket`: `state` is empty then, and what it
            gives before is not the result (R17.14). NOWHERE: `bucket`.
    """

    bucket: Bucket
    state: State
    marks: tuple[Mark, ...]
    said: Bucket = NOWHERE

    @property
    def frontier(self) -> Bucket:
        """The stable frontier that it stands for."""
        return max(self.bucket, self.said)


@dataclass(frozen=True, slots=True)
class EmitEvent:
    """Report an event, human-readable, in the log and in the status.

    Attributes:
        event: name of the event, as in `log.messages.Status`.
        detail: more about it; may be empty.
        redo: of a REDO event: first bucket, end, rows, engine, seconds. None: another event.
    """

    event: str
    detail: str = ""
    redo: tuple[int, int, int, str, float] | None = None


@dataclass(frozen=True, slots=True)
class ExitReplica:
    """End this incarnation: the same replica index has a newer one (R8), or one with the same number (B30). `reason`:
    which one, for people. `again`: start again, with a new number.
    """

    reason: str
    again: bool = False


@dataclass(frozen=True, slots=True)
class StepBack:
    """End this incarnation, and stand by: another replica runs (R17.8). `reason`: which one, for people."""

    reason: str


Effect = (
    Append
    | SendHeartbeat
    | TellDisagreement
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
    | StepBack
)
