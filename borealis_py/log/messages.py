"""JSON messages beside the data: settings, heartbeats, status. One struct a record kind; keys are in the docstrings.

They are JSON so that any Kafka tool shows them as they are.
"""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec

from borealis_py.protocol.settings import Timing

T = TypeVar("T")
Number = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""What every reader of JSON can tell exactly. A greater one is garbage: nobody could count up from it, or encode it."""


class Threshold(msgspec.Struct, frozen=True):
    """Settings key `threshold/<query>`: delay threshold X in microseconds."""

    threshold_us: Number


class Policy(msgspec.Struct, frozen=True):
    """Settings key `policy/<query>`: "process", "delay" or "suspend" for failure and for stabilization."""

    failure: str
    stabilization: str


class SourceFailure(msgspec.Struct, frozen=True):
    """Settings key `fail/<source>`: replicas do not read this source until that wall time (drills)."""

    until_wall_us: Number


class Incarnation(msgspec.Struct, frozen=True):
    """Settings key `incarnation/<query>/<replica>`: the highest there was; it outlives the heartbeats (B30)."""

    app_uid: str
    inc: Number
    uid: str


class Description(msgspec.Struct, frozen=True):
    """Settings key `app`: the app as `query.AppSpec` JSON, its hash, the origin bucket, the kernel's fingerprint.

    `app_uid`: random, new when the app begins anew (`up --reset`): records and checkpoints of another one say nothing.
    `timing`: all of it, so that a version with other defaults goes by the same; None: it was written by hand.
    `made_of`: what kernels of this fingerprint are made of, by name, for who has to say what is another.
    `version`: read before anything else (`log.description`); that of the envelope, too.
    """

    app: str
    hash: str
    origin: int
    fingerprint: str
    app_uid: str
    timing: Timing | None = None
    made_of: dict[str, str] = {}
    version: int = 2


class Heartbeat(msgspec.Struct, frozen=True):
    """Control topic, partition of the node, key `<node>/<replica>` (R7). `checkpoint_bucket`: of its newest
    durable checkpoint; -1: it has none."""

    app_uid: str
    replica: Number
    inc: Number
    uid: str
    state: str
    ack_s: Number
    ack_l: Number
    asking: bool
    ask_offset: Number | None
    progress: Number
    checkpoint_bucket: int = -1


class InputStatus(msgspec.Struct, frozen=True):
    """One input of a replica: `closed` is the first bucket it leaves open; reachable False during `fail source`;
    `tuples`: how many this incarnation took. `lateness_us`: how late a source's rows may come, by its publisher;
    `late_us`: how late they came, so that 50 %, 99 % and all of them were in time.
    """

    name: str
    closed: int
    late: bool
    reachable: bool
    ended: bool
    rejected: int
    tuples: int = 0
    lateness_us: int = 0
    late_us: tuple[int, int, int] = (0, 0, 0)


class RedoStatus(msgspec.Struct, frozen=True):
    """One job of a reconciliation, buckets [first, end). Engine: "spark", "inline", "peer". Times in us."""

    first: int
    end: int
    rows: int
    engine: str
    seconds: float
    at_wall_us: int
    note: str = ""


class Status(msgspec.Struct, frozen=True):
    """What a replica reports, in the status topic under `<node>/<replica>`: once a second and at every event."""

    node: str
    """Whose replica it is; a query is the node of its result."""
    replica: int
    """The replica's index, from 0."""
    inc: int
    """Its incarnation: grows with each start."""
    uid: str
    """Random, of this incarnation."""
    pid: int
    """Of the process that runs it, or of its driver."""
    at_wall_us: int
    """When it said this, by its clock: microseconds since 1970."""
    state: str
    """RECOVERING, STABLE, UPSTREAM_FAILURE or STABILIZATION."""
    f_s: int
    """The stable frontier: the next bucket to run on complete input."""
    f_l: int
    """The live frontier: the next bucket to run for timeliness; never behind `f_s`."""
    asking: bool
    """It wants to correct."""
    granted: bool
    """It may correct now."""
    head: int | None
    """The replica that has asked longest, as this one knows; None: nobody asks."""
    publishing: bool
    """It writes the node's corrected stream."""
    progress: int
    """The first bucket that is not in the corrected stream, as far as this replica has read."""
    stable_rows: int
    """Rows that this incarnation has said as stable."""
    tentative_rows: int
    """Rows that this incarnation has said as tentative."""
    stable_buckets: int
    """Buckets with output that it has said as stable."""
    tentative_buckets: int
    """Buckets that it has said as tentative."""
    tuples_in: int
    """Rows that it has taken from its sources."""
    rejected: int
    """What it could not use of its sources: dead letters."""
    checkpoint_bucket: int
    """Where its newest durable checkpoint begins; 0: it has none."""
    checkpoint_wall_us: int
    """When it learnt that this one is durable: microseconds since 1970; 0: never."""
    threshold_us: int
    """The delay threshold in force at it, in microseconds: the smallest of the queries that it serves."""
    failure_policy: str
    """What it does with buckets that cannot be complete: process, delay or suspend."""
    stabilization_policy: str
    """The same while it corrects."""
    inputs: tuple[InputStatus, ...]
    """Its inputs, in their order."""
    rss_kb: int = 0
    """Resident memory of its process, in kB; 0: unknown."""
    event: str = ""
    """Why it says this now: SILENT(input), HEARD(input), UP_FAILURE, FIRST_TENTATIVE, STABILIZATION, REDO, REC_DONE,
    STABLE, READY, STOPPED, REDO_FAILED, ADOPT_FAILED, TOOK_OVER or DRIFT; "": a second has passed."""
    detail: str = ""
    """More of the event, in words."""
    redo: RedoStatus | None = None
    """Of a REDO: what ran."""
    why_inline: str = ""
    """Why redos do not run on Spark now; "": they do, or are not to."""
    http: str = ""
    """Where its process answers HTTP; "": nowhere."""
    host: str = ""
    """The name of the machine on which `pid` is."""


def encode(message: msgspec.Struct) -> bytes:
    return msgspec.json.encode(message)


def decode(raw: bytes, kind: type[T]) -> T:
    """Raises msgspec.DecodeError, msgspec.ValidationError, whatever the bytes are."""
    try:
        return msgspec.json.decode(raw, type=kind)
    except (RecursionError, UnicodeDecodeError) as exc:  # what msgspec says of deep nesting, and of text in no UTF-8
        raise msgspec.DecodeError(str(exc)) from None


def beat_key(node: str, replica: int) -> bytes:
    """Of a replica's heartbeats."""
    return f"{node}/{replica}".encode()


def read_beat(key: bytes | None, value: bytes | None, node: str) -> Heartbeat:
    """A heartbeat of one of a node's replicas. Raises msgspec.DecodeError, msgspec.ValidationError: it is none."""
    beat = decode(value or b"", Heartbeat)
    if key != beat_key(node, beat.replica):
        raise msgspec.DecodeError(f"key {key!r} is not that of replica {beat.replica} of {node}")
    return beat
