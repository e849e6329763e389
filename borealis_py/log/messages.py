"""JSON messages other than data: settings, heartbeats, status. One struct per record kind; docstrings give the keys.

They are JSON so that any Kafka tool can display them.
"""

from __future__ import annotations

from typing import Annotated, Protocol, TypeVar

import msgspec

from borealis_py.log.numbers import NUMBER_MAX, Duration, Number
from borealis_py.log.unreadable import total
from borealis_py.protocol.incarnation import Disagreement, Heartbeat
from borealis_py.protocol.settings import Timing
from borealis_py.query.recovery import SYNC_MAX_US, SYNC_US, RecoveryPlan, RecoveryWay, plan_of
from borealis_py.query.retention import AUDITED, Keep
from borealis_py.query.units import DURATION_MAX_US
from sunion.digests import DIGEST_CHARS, TOLD_MAX

T = TypeVar("T")


class SettingOfLife(Protocol):
    """What users set while an app runs, in its life `app_uid`."""

    @property
    def app_uid(self) -> str: ...


class Threshold(msgspec.Struct, frozen=True):
    """Settings key `threshold/<query>`: delay threshold X, `threshold_us` in microseconds, in the app's life `app_uid`
    (empty, here and below: written by an earlier version, for whatever life reads it)."""

    threshold_us: Duration
    app_uid: str = ""


class Policy(msgspec.Struct, frozen=True):
    """Settings key `policy/<query>`: "process", "delay" or "suspend" while an input is missing (`failure`) and while
    replicas correct (`stabilization`), in the app's life `app_uid`."""

    failure: str
    stabilization: str
    app_uid: str = ""


class SourceFailure(msgspec.Struct, frozen=True):
    """Settings key `fail/<source>`: replicas do not read this source until that wall time (drills): `until_wall_us`,
    microseconds since 1970. In the app's life `app_uid`."""

    until_wall_us: Number
    app_uid: str = ""


class PartitionSkip(msgspec.Struct, frozen=True):
    """Settings key `skip/<source>/<partition>`: in the app's life `app_uid`, no input of the source waits for this
    partition of its foreign topic (`skipped`); false: they wait for it again."""

    app_uid: str
    skipped: bool


class EndOfSource(msgspec.Struct, frozen=True):
    """Settings key `end/<source>`: in the app's life `app_uid`, the source's ingress copies what its topic holds, then
    writes END."""

    app_uid: str


class ExpectedSilence(msgspec.Struct, frozen=True):
    """Settings key `expect/<source>`: in the app's life `app_uid`, an input of the source that has been silent for this
    long is missing (`expect_us`, microseconds); null: silence means that nothing happened."""

    app_uid: str
    expect_us: Annotated[int, msgspec.Meta(gt=0, le=DURATION_MAX_US)] | None


class RetainSetting(msgspec.Struct, frozen=True):
    """Settings key `retain/<source or node>`: how much of it is kept beyond what is needed (R16.1), in the app's life
    `app_uid` (empty: written by an earlier version, for whatever life reads it). `lag_us`: microseconds of stime behind
    the stable frontier; 0: nothing; null: all. `audited`: of a source, what audits have not verified, and nothing else;
    `lag_us` is null then, so that a reader of an earlier version keeps all."""

    lag_us: Number | None
    audited: bool = False
    app_uid: str = ""

    @classmethod
    def of(cls, app_uid: str, kept: Keep) -> RetainSetting:
        return cls(None, True, app_uid) if kept == AUDITED else cls(kept, False, app_uid)

    @property
    def kept(self) -> Keep:
        return AUDITED if self.audited else self.lag_us


class RecoverySetting(msgspec.Struct, frozen=True):
    """Settings key `recovery/<node as it runs>`: in the app's life `app_uid`, the node recovers in this way (`way`: a
    word of `recovery=`); the state of a passive standby is at most `sync_us` old (microseconds)."""

    app_uid: str
    way: RecoveryWay
    sync_us: Annotated[int, msgspec.Meta(gt=0, le=SYNC_MAX_US)] = SYNC_US

    @classmethod
    def of(cls, app_uid: str, plan: RecoveryPlan) -> RecoverySetting:
        return cls(app_uid, plan.way, plan.sync_us)

    @property
    def plan(self) -> RecoveryPlan:
        return plan_of(self.way, self.sync_us)


class DisagreementSetting(msgspec.Struct, frozen=True):
    """Settings key `diverged/<node>`: in the app's life `app_uid`, replicas of this node, or of one that it reads,
    emitted different rows (`found`), so nothing of it is published; null: an operator has cleared that (R15.2)."""

    app_uid: str
    found: Disagreement | None


class Incarnation(msgspec.Struct, frozen=True):
    """Settings key `incarnation/<node>/<replica>`: the highest number so far (`inc`), and its random id (`uid`), in
    the app's life `app_uid`; it outlives the heartbeats (B30)."""

    app_uid: str
    inc: Number
    uid: str


class Description(msgspec.Struct, frozen=True):
    """Settings key `app`. `app`: `query.AppSpec` as JSON; `hash`: its digest; `origin`: the first bucket;
    `fingerprint`: that of the kernels.

    `app_uid`: random, new in each life of the app (`up --reset`); records and checkpoints with another one are ignored.
    `timing`: all of it, so that a version with other defaults uses the same values; None: written by hand. `made_of`:
    the components behind the fingerprint, by name, to explain which one differs; empty: not known. `version`: checked
    before anything else (`log.description`); also that of the envelope.
    """

    app: str
    hash: str
    origin: Number
    fingerprint: str
    app_uid: str
    timing: Timing | None = None
    made_of: dict[str, str] = {}
    version: int = 2


class InputStatus(msgspec.Struct, frozen=True):
    """One input of a replica, as its status reports it."""

    name: str
    """The source, or the node whose stream it is."""
    closed: Number
    """The first bucket that the input leaves open."""
    late: bool
    """A bucket ran without it, and nothing that helps has come since: buckets do not wait the full time for it."""
    reachable: bool
    """False while `borealis fail source` keeps the replica from reading it."""
    ended: bool
    """It is finite and over."""
    rejected: Number
    """Dead letters of it since this incarnation began."""
    tuples: Number = 0
    """Rows that this incarnation took from it; 0 after each start."""
    lateness_us: Number = 0
    """Of a source: how late its rows may come, by its publisher, in microseconds; 0: not at all, or a stream."""
    late_us: tuple[Number, Number, Number] = (0, 0, 0)
    """How late its rows came, in microseconds: median, 99th percentile and maximum; 0: not late, or a stream."""


class RedoStatus(msgspec.Struct, frozen=True):
    """One job of a reconciliation."""

    first: Number
    """The first bucket that it ran."""
    end: Number
    """One past the last bucket that it ran."""
    rows: Number
    """Input rows that it ran; 0 if taken over."""
    engine: str
    """"spark", "inline" (in the replica's own process) or "peer" (taken over from another replica's checkpoint)."""
    seconds: float
    """How long it took, in seconds."""
    at_wall_us: Number
    """When it ended, by the replica's clock: microseconds since 1970."""
    note: str = ""
    """More about it, in words; "": nothing more."""


class TrimStatus(msgspec.Struct, frozen=True):
    """How far a replica may delete a topic that it trims (R16)."""

    topic: str
    """Its own topic, or a source as it runs."""
    below: Number | None
    """Everything below this bucket (of a source: offset) may be deleted; null: nothing may."""
    held_by: tuple[str, ...]
    """Who holds the rest: "retain", replicas, the progress, a publisher; where nothing may go, for whom it waits."""
    refused: str = ""
    """Why the log deleted nothing, in words; "": it did."""
    waits_since_wall_us: Number = 0
    """Since when nothing may go although something would be deleted: microseconds since 1970; 0: something may."""


class Status(msgspec.Struct, frozen=True):
    """What a replica reports in the status topic under `<node>/<replica>`: once a second and at every event."""

    node: str
    """The node whose replica this is; a query is the node of its result."""
    replica: Number
    """The replica's index, from 0."""
    inc: Number
    """Its incarnation number: grows with each start."""
    uid: str
    """Random id of this incarnation."""
    pid: Number
    """Process id of the replica, or of its driver."""
    at_wall_us: Number
    """When it reported this, by its own clock: microseconds since 1970."""
    state: str
    """RECOVERING, STABLE, UPSTREAM_FAILURE, STABILIZATION, or STANDBY: another replica runs, this one would take
    over."""
    f_s: Number
    """The stable frontier: the next bucket to run on complete input."""
    f_l: Number
    """The live frontier: the next bucket to run for timeliness; never behind `f_s`."""
    asking: bool
    """It asks to correct: it has emitted tentative results, and the input that they lacked has come."""
    granted: bool
    """It may correct now; if it asks and may not, it waits for `head`."""
    head: Number | None
    """The replica that has asked longest, as far as this one knows; None: no replica asks."""
    publishing: bool
    """It writes the node's corrected stream."""
    progress: Number
    """The first bucket that is not in the corrected stream, as far as this replica has read; the origin: none is."""
    stable_rows: Number
    """Rows that this incarnation has emitted as stable."""
    tentative_rows: Number
    """Rows that this incarnation has emitted as tentative."""
    stable_buckets: Number
    """Buckets with output that it has emitted as stable."""
    tentative_buckets: Number
    """Buckets that it has emitted as tentative."""
    tuples_in: Number
    """Rows that it has taken from its sources."""
    rejected: Number
    """Tuples and records of its sources that it could not use: dead letters."""
    checkpoint_bucket: Number
    """The first bucket that is not in its newest durable checkpoint; 0: it has none (heartbeats then say -1)."""
    checkpoint_wall_us: Number
    """When it learnt that this checkpoint is durable: microseconds since 1970; 0: not since it started."""
    threshold_us: Number
    """The delay threshold in force, in microseconds: the smallest of the queries that it serves."""
    failure_policy: str
    """Policy while an input is missing, for buckets that cannot be complete: process, delay or suspend."""
    stabilization_policy: str
    """The same policy during corrections."""
    inputs: tuple[InputStatus, ...]
    """Its inputs, in the order in which the node unites them."""
    rss_kb: Number = 0
    """Resident memory of its process, in KiB, pages that it shares with others included; 0: unknown."""
    pss_kb: Number = 0
    """The same where a page that n processes share counts as an n-th (PSS); 0: the system does not report it."""
    event: str = ""
    """Why it reports now: SILENT(input), HEARD(input), UPSTREAM_FAILURE, FIRST_TENTATIVE, STABILIZATION, REDO,
    REC_DONE, STABLE, READY, STOPPED, REDO_FAILED, ADOPT_FAILED, TOOK_OVER (of publishing), RUNS (a standby took over),
    DRIFT, GAP, DIVERGED or RESUMED; "": a second has passed.
    """
    detail: str = ""
    """Details of the event, human-readable; "": there are none."""
    redo: RedoStatus | None = None
    """The job of a REDO event; null: another event."""
    why_inline: str = ""
    """Why redos do not run on Spark now; "": they do, or are not meant to."""
    http: str = ""
    """Address at which its process answers HTTP; "": none."""
    host: str = ""
    """Name of the machine on which `pid` runs."""
    clock_ahead_us: int | None = None
    """By how much its machine's clock is ahead of the broker's at least, in microseconds; negative: behind; null: not
    known yet. Results do not depend on it."""
    trims: tuple[TrimStatus, ...] = ()
    """How far the topics that it trims may be deleted, as of its last look; empty: it has not looked yet, or nothing is
    trimmed."""
    diverged: str = ""
    """Why nothing is published: replicas emitted different rows for a stable bucket; "": none were seen to."""
    recovery: str = ""
    """How its node survives a crash, as far as this replica has read: a word of `recovery=`; "": written by an earlier
    version."""
    lost_from: Number = 0
    """The first of the buckets that it found lost when it started, since nobody ran or the log no longer held them; 0:
    none."""
    lost_buckets: Number = 0
    """How many these are: a GAP in its stream, and nothing of them is published."""


def encode(message: msgspec.Struct | Heartbeat) -> bytes:
    return msgspec.json.encode(message)


def decode(raw: bytes, kind: type[T]) -> T:
    """Raises only msgspec.DecodeError or msgspec.ValidationError, whatever the bytes are."""
    return total(lambda value: msgspec.json.decode(value, type=kind), raw)


def beat_key(node: str, replica: int) -> bytes:
    """Key of a replica's heartbeats."""
    return f"{node}/{replica}".encode()


def read_beat(key: bytes | None, value: bytes | None, node: str) -> Heartbeat:
    """Decode a heartbeat of one of a node's replicas. Raises msgspec.DecodeError, msgspec.ValidationError."""
    beat = decode(value or b"", Heartbeat)
    numbers = (beat.replica, beat.inc, beat.ack_s, beat.ack_l, beat.ask_offset or 0, beat.progress)
    told = beat.digests
    shaped = not told or all(0 <= d.first < d.end <= NUMBER_MAX and len(d.digest) in (0, DIGEST_CHARS) for d in told)
    if len(told) > TOLD_MAX or not shaped:
        raise msgspec.ValidationError("the heartbeat's digests are none of a replica's")
    if min(numbers) < 0 or max(numbers) > NUMBER_MAX:
        raise msgspec.ValidationError(f"a number of the heartbeat is not within 0 and {NUMBER_MAX}")
    if key != beat_key(node, beat.replica):
        raise msgspec.DecodeError(f"key {key!r} is not that of replica {beat.replica} of {node}")
    return beat
