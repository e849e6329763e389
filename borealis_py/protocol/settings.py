"""Timing of the protocol, and the delay budgets that follow from a threshold (R13).

All times are int microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from typing import TYPE_CHECKING

from sunion.bucket import Buckets
from sunion.portion import Most

if TYPE_CHECKING:  # who only reads a timing loads no SUnion
    from sunion.input_buffers import Unpack
    from sunion.model import Fragment, Input, RowOps
    from sunion.units import Bucket


class DelayPolicy(Enum):
    """What to do with buckets that cannot be complete (R3.3; DPC, SIGMOD 2005)."""

    PROCESS = "process"
    DELAY = "delay"
    SUSPEND = "suspend"


class SettingsError(ValueError):
    """Settings that cannot hold; the message names the smallest value that would."""


ROW_MAX_BYTES = 1_000_000
"""How large a row may be. A larger one is a dead letter (A2.7)."""
ROW_MAX_LIMIT_BYTES = 7_500_000
"""A record has no room for a larger row."""


MAY_BE_ZERO = frozenset(
    ("slack_us", "skew_us", "progress_only_us", "inline_us", "inline_buckets", "slice_least_us"),
)
"""The fields of `Timing` for which zero has a use."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Constants of one app. Every replica and subscriber has the same: `up` writes them into the app's description.

    Set them under `timing:` in borealis.yaml: durations with a unit (`stagger: 3s`), counts as whole numbers. The names
    there have no `_us`. Defaults suit one machine or one data centre; each field says when to change it. All are more
    than zero, except where a field says what 0 means.
    """

    heartbeat_us: int = 200_000
    """How often a replica sends a heartbeat; idle turns are as far apart. In nodes with standbys it is `100ms` at
    most. Raise it where many replicas share a broker; suspicion must be at least twice as long, and `gap` should be
    longer."""
    pulse_max_us: int = 2_000_000
    """For how long a replica that is busy with one turn repeats its heartbeat (R7.2). A replica that hangs for longer
    counts as dead. Raise it where one turn may take longer."""
    suspicion_us: int = 1_000_000
    """How long a peer may be silent before it no longer counts as live (R8.1). Lower it for faster fail-over; below a
    second, pauses of a loaded machine pass for deaths."""
    turn_us: int = 50_000
    """The longest turn that delta allows for. Raise it, and delta, on machines that are overloaded for long."""
    hop_us: int = 100_000
    """The time reserved for the way from one node of a chain to the next (R13.1). Raise it between data centres; each
    hop takes it off the time that nodes may wait for their inputs."""
    delta_us: int = 125_000
    """How long past its end a bucket waits for an input that is LATE already (R3.3): at least skew + turn. Raise it
    where boundaries of healthy inputs take longer to arrive."""
    slack_us: int = 250_000
    """The part of a threshold X that is reserved for computing and for the way to the reader (R13.1). Raise it where
    results come later than X although nothing fails. 0: as little as R13.3 allows, delta + skew + a hop for each
    further node of the chain."""
    skew_us: int = 50_000
    """How far apart the clocks of publishers and replicas may be. Raise it where NTP does not hold them closer. 0: all
    run on one machine."""
    stagger_us: int = 9_000_000
    """T: how long a replica waits to correct behind another one that makes no progress (R4.2, B27). Longer than the
    deadline of a redo, or a waiting replica takes a healthy head for a hung one: raise it with `redo_deadline`, and
    where a busy machine takes longer for a job than 5/6 of it. Lower it for earlier corrections behind a hung one."""
    redo_deadline_us: int = 2_500_000
    """After this long a redo job is given up and done again in the replica's own process, or after twelve times as long
    as the last jobs took on this machine, if that is longer, but at most 5/6 of `stagger`. Raise it where the time of
    jobs varies by more."""
    adopt_deadline_us: int = 1_500_000
    """After this long the adoption of a peer's checkpoint is given up (R14.2), and the buckets are redone. Raise it
    where checkpoints are large or their storage is slow."""
    retry_us: int = 1_000_000
    """How long after a failed redo in its own process, which could not read the log, a replica tries again. Raise it to
    spare a broker in trouble; corrections then begin later."""
    release_us: int = 300_000
    """How long a replica whose next bucket to correct is incomplete keeps its grant (B28). Raise it where inputs falter
    often during corrections; the next replica then waits longer for its turn."""
    gap_us: int = 400_000
    """A replica whose turns are further apart was away (B14): it asks for the ends of all logs before it decides what
    is missing. Raise it where turns of healthy replicas take longer."""
    patience_us: int = 1_000_000
    """How long the corrected stream may stand still before replica 0 takes over its writing (R10.4). Lower it for a
    faster fail-over of writers; below the time of a commit, replicas fence each other."""
    patience_step_us: int = 200_000
    """How much longer each next replica index waits than the one before, so that one of them is first. Raise it where
    several replicas take over at once."""
    patience_unknown_us: int = 50_000
    """How long a writer that does not know what became of its commit waits to take over again; doubled with each loss
    in a row, up to 16 times. Raise it where the broker takes long to answer again."""
    checkpoint_us: int = 2_000_000
    """How often a replica's state is saved (R12.1); beside a passive standby every `sync=` of its node instead. Raise
    it where the state is large or its storage slow; a restart then replays more."""
    progress_only_us: int = 300_000
    """How often progress is committed where there are no rows, so that a bucket without rows costs no transaction.
    Raise it to spare the broker, but keep it below `patience`, or other replicas take over. 0: in every turn."""
    inline_us: int = 1_000_000
    """A redo runs in the replica's own process while what is left of it is expected to take at most this long, by what
    its rows took so far; else on Spark. Raise it where Spark begins slowly, lower it where corrections hold up live
    results. 0: whatever does not fit `inline_buckets` goes to Spark."""
    inline_buckets: int = 3
    """A redo of so few buckets always runs in the replica's own process. Raise it where buckets hold few rows. 0: only
    `inline` decides."""
    redo_rows: int = 8_000
    """Rows of the first job of a redo on Spark. Each job is twice as large as the one before, up to `redo_rows_max`.
    Raise it where a job's fixed cost exceeds that of its rows; lower it for earlier first corrections."""
    redo_rows_max: int = 150_000
    """The most rows of a job: all of them travel to the replica in one answer. Raise it where long failures take too
    many jobs, lower it where replicas are short of memory."""
    redo_us: int = 1_500_000
    """How long a job should take at most: later jobs have fewer rows where rows take long. Below `redo_deadline`; raise
    both where jobs take long to begin."""
    slice_buckets: int = 100
    """The most buckets with rows that a turn runs. Lower it where turns with many small buckets exceed `slice`, raise
    it where a replica catches up too slowly."""
    slice_rows: int = 20_000
    """The most rows that a turn runs. Raise it where cheap queries on a fast machine catch up too slowly, lower it
    where a turn takes too much memory."""
    slice_us: int = 100_000
    """How long a turn should take: it runs fewer rows where rows take long. Raise it to catch up faster, lower it for
    live results that come sooner meanwhile; keep it below `gap`."""
    slice_least_us: int = 500_000
    """The least of the streams' time that a turn runs, however long it takes: with less a replica would fall behind.
    Raise it where replicas on a starved machine never catch up. 0: one bucket."""
    live_buckets: int = 5
    """The most overdue buckets that a turn runs, in one step, before it reads again, or `slice_least` of the streams'
    time if that is more. Raise it where buckets are narrow; results leave at the end of the turn."""
    outbox_max: int = 200
    """The most records of the own stream that may be in flight to the log. With more, the replica stops until some are
    acknowledged. Raise it where the broker is far away, lower it where it is overloaded."""
    publish_buckets: int = 200
    """Buckets with output that one transaction of a corrected stream holds at most, but one at least (R10.3): what
    grows with a backlog cannot commit in time. Lower it where commits take longer than `patience`, raise it where the
    corrected stream catches up too slowly."""
    publish_rows: int = 50_000
    """Likewise rows and dead letters. Lower it where buckets hold many rows and commits exceed `patience`."""
    publish_bytes: int = 16_000_000
    """Likewise bytes, as rows lie in memory; as JSON they are more. Lower it where rows are large and commits exceed
    `patience`."""
    unpublished_rows_max: int = 200_000
    """The most unpublished rows that a replica keeps in memory. It reads the others again from its own topic. Raise it
    where the corrected stream falls behind, lower it where memory is short."""
    unpublished_bytes_max: int = 128_000_000
    """Likewise bytes. Raise it where rows are large and memory allows, lower it where memory is short."""
    buffer_rows_max: int = 2_000_000
    """The most rows of inputs that a replica keeps in memory while an input is missing. It reads the others again from
    the log. Lower it where memory is short; corrections then take longer."""
    ahead_max_us: int = 60_000_000
    """How far a tuple may be ahead of its source's boundary and lateness. One beyond is a dead letter. Raise it for
    sources that write ahead of time. Part of what results are: it cannot be changed without `--reset`."""
    row_max_bytes: int = ROW_MAX_BYTES
    """How large a row of a source or of a result may be, as JSON and in Arrow, from 1000 to 7500000 bytes. A larger one
    is a dead letter. Raise it for larger rows; lower it for topics of a lower `max.message.bytes`, which `up` refuses.
    Set as `row_max`; it cannot be changed without `--reset`."""

    @property
    def redo_deadline_most_us(self) -> int:
        """The longest that a redo job is waited for, however long its like took: well below T."""
        return max(self.redo_deadline_us, self.stagger_us * 5 // 6)

    @property
    def publish_most(self) -> Most:
        """What one transaction of a corrected stream may hold (R10.3)."""
        return Most(self.publish_buckets, self.publish_rows, self.publish_bytes)

    def slack_of(self, depth: int) -> int:
        """The part of its threshold that a query of `depth` nodes in a row reserves for all but waiting, microseconds.

        It must cover the last but one node's delta, a hop and the clocks' skew (R13.1), so it grows with the chain.
        """
        return max(self.slack_us, self.delta_us + (depth - 1) * self.hop_us + self.skew_us)

    def least_threshold_us(self, depth: int) -> int:
        """The smallest delay threshold of a query of `depth` nodes in a row: D >= delta at each of them (R13.3)."""
        return self.delta_us + self.slack_of(depth) + (depth - 1) * self.hop_us

    def validate(self) -> None:
        """Raises SettingsError for a value below the least that works, and for settings that break R13.3."""
        if not 1_000 <= self.row_max_bytes <= ROW_MAX_LIMIT_BYTES:
            raise SettingsError(
                f"row_max {self.row_max_bytes} bytes is out of range: at least 1000 bytes, and at most "
                f"{ROW_MAX_LIMIT_BYTES}, as a record has no room for more"
            )
        for setting in fields(self):
            _check_least(setting.name, getattr(self, setting.name))
        if self.delta_us < self.skew_us + self.turn_us:
            raise SettingsError(
                f"delta {self.delta_us} us is below skew + turn: at least {self.skew_us + self.turn_us} us, "
                "or buckets run before the rows of healthy inputs arrive"
            )
        if self.redo_deadline_us >= self.stagger_us:
            raise SettingsError(
                f"redo deadline {self.redo_deadline_us} us must be below the stagger time {self.stagger_us} us, "
                "or a waiting replica takes a healthy head for a hung one"
            )
        if self.suspicion_us < 2 * self.heartbeat_us:
            raise SettingsError(f"suspicion must be at least two heartbeats: {2 * self.heartbeat_us} us")

    @property
    def suspicion_beats(self) -> int:
        """A peer without a heartbeat during so many own ones, as read back, does not count as live (R8.1)."""
        return -(-self.suspicion_us // self.heartbeat_us)


def _check_least(field: str, value: int) -> None:
    least = 0 if field in MAY_BE_ZERO else 1
    if value < least:
        name, unit = (field.removesuffix("_us"), " us") if field.endswith("_us") else (field, "")
        must = "be more than zero" if least else "not be negative"
        default = getattr(Timing(), field)
        raise SettingsError(f"timing.{name}: {value}{unit} must {must}; remove it for the default, {default}{unit}")


@dataclass(frozen=True, slots=True)
class Delays:
    """Threshold and policies of a query. A replica obeys them from the turn in which it reads them (B19).

    Attributes:
        threshold_us: delay threshold X.
        failure: policy while an input is missing. stabilization: policy while the replica corrects.
    """

    threshold_us: int
    failure: DelayPolicy = DelayPolicy.PROCESS
    stabilization: DelayPolicy = DelayPolicy.PROCESS

    def with_threshold(self, threshold_us: int, timing: Timing, depth: int = 1) -> Delays:
        """After a setting of the threshold in a query whose longest chain has `depth` nodes.

        Raises:
            SettingsError: it is too small (R13): the setting changes nothing.
        """
        check_threshold(timing, threshold_us, depth)
        return replace(self, threshold_us=threshold_us)

    def with_policies(self, failure: str, stabilization: str) -> Delays:
        """After a setting of the policies.

        Raises:
            ValueError: there is no such policy: the setting changes nothing.
        """
        return replace(self, failure=DelayPolicy(failure), stabilization=DelayPolicy(stabilization))


@dataclass(frozen=True, slots=True)
class NodeDelays:
    """What one node obeys: the settings of all queries that read it, combined (`node.delays`).

    Attributes:
        wait_us: D, how long past a bucket's end the node waits for an input that was there before (R3.3, R13.1).
        failure: policy while an input is missing. stabilization: policy while the replica corrects.
    """

    wait_us: int
    failure: DelayPolicy = DelayPolicy.PROCESS
    stabilization: DelayPolicy = DelayPolicy.PROCESS


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerConfig:
    """What all replicas and incarnations of one node have in common.

    Attributes:
        inputs: the node's, in the order of its SUnion; at least one.
        fragment: its operators. ops: what they and the SUnion do with rows.
        buckets: of the app. origin: first bucket of the app.
        timing: of the app.
        position: the node's place in its longest chain, counted from the sources from 1.
        unpack: for each input that is a stream, by its index, the function that decodes its rows.
        corrected: the node's rows go to a corrected stream; if False, only dead letters are published.
        rebuild_buckets: from how many buckets before F_s a start with empty state comes to the same results; then
            checkpoints hold no state (upstream backup). None: they do.
        spark: redo jobs may run on Spark; if False, buckets run from memory, or from the log where memory had no room.
    """

    inputs: Sequence[Input]
    fragment: Fragment
    ops: RowOps
    buckets: Buckets
    origin: Bucket
    timing: Timing
    position: int = 1
    unpack: Mapping[int, Unpack] = field(default_factory=dict)
    corrected: bool = True
    rebuild_buckets: int | None = None
    spark: bool = True

    @property
    def sources(self) -> tuple[str, ...]:
        """All sources that its rows come from, by input."""
        return tuple(name for of in self.inputs for name in of.sources)


def check_threshold(timing: Timing, threshold_us: int, depth: int = 1) -> None:
    """Raises SettingsError if the threshold leaves some node of a chain of `depth` nodes less than delta (R13.3); the
    message names the smallest that does not."""
    least = timing.least_threshold_us(depth)
    if threshold_us < least:
        hops = f" + {depth - 1} x {timing.hop_us / 1000:g} for hops" if depth > 1 else ""
        raise SettingsError(
            f"delay threshold {threshold_us / 1000:g} ms is too small: at least {least / 1000:g} ms "
            f"(delta {timing.delta_us / 1000:g} + slack {timing.slack_of(depth) / 1000:g}{hops})"
        )


def budget(timing: Timing, threshold_us: int, hops_to_sink: int = 0, depth: int = 1) -> int:
    """D of a node: how long past a bucket's end it may wait for an input that was there before (R13.1).

    Args:
        hops_to_sink: longest way from the node to the query's result. depth: nodes in the query's longest chain.

    Raises:
        SettingsError: see `check_threshold`.
    """
    check_threshold(timing, threshold_us, depth)
    return threshold_us - timing.slack_of(depth) - hops_to_sink * timing.hop_us


def grow_delta(timing: Timing, position: int = 1) -> int:
    """delta of the node at `position` in its chain, counted from the sources from 1 (B11)."""
    return timing.delta_us + (position - 1) * timing.hop_us
