"""Timing of the protocol, and the delay budgets that follow from a threshold (protocol R13).

All times are int microseconds. Defaults are the model's (protocol.md, top).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from sunion.portion import Most


class DelayPolicy(Enum):
    """What to do with buckets that cannot be complete (dpc.md 12)."""

    PROCESS = "process"
    DELAY = "delay"
    SUSPEND = "suspend"


class SettingsError(ValueError):
    """Settings that cannot hold; the message names the least that would do."""


ROW_MAX_BYTES = 1_000_000
"""How large a row may be. A larger one is a dead letter (PROTOCOL.md 1.2)."""
ROW_MAX_LIMIT_BYTES = 7_500_000
"""A record has no room for a larger row."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Constants of one app; every replica has the same.

    One transaction of the corrected stream holds at most `publish_buckets` buckets that have output, `publish_rows`
    rows and dead letters, and `publish_bytes` of them as they lie in memory (as JSON they are more), but one bucket at
    least: what grows with a backlog cannot commit in time (R10). `unpublished_rows_max` rows, `unpublished_bytes_max`
    bytes of what is not published yet stay in memory; the rest is read again from the own topic.

    In a turn that takes long the last heartbeat is said again for `pulse_max_us` (R7). A turn runs at most
    `slice_buckets` buckets with rows and `slice_rows` rows, and fewer where they take longer than `slice_us`, but
    `slice_least_us` of the streams' time. A redo runs inline while what is left of it is expected to take at most
    `inline_us`, by what its rows took so far, or has at most `inline_buckets`. Else it becomes jobs: of `redo_rows`
    rows at first, up to `redo_rows_max` later, and fewer where they take longer than `redo_us` (R4).
    """

    heartbeat_us: int = 100_000
    pulse_max_us: int = 2_000_000
    suspicion_us: int = 1_000_000
    turn_us: int = 50_000
    hop_us: int = 100_000
    delta_us: int = 125_000
    slack_us: int = 250_000
    skew_us: int = 50_000
    stagger_us: int = 3_000_000
    redo_deadline_us: int = 2_500_000
    adopt_deadline_us: int = 1_500_000
    retry_us: int = 1_000_000
    release_us: int = 300_000
    gap_us: int = 400_000
    patience_us: int = 1_000_000
    patience_step_us: int = 200_000
    patience_unknown_us: int = 50_000
    checkpoint_us: int = 2_000_000
    progress_only_us: int = 300_000
    inline_us: int = 1_000_000
    inline_buckets: int = 3
    redo_rows: int = 8_000
    redo_rows_max: int = 150_000
    redo_us: int = 1_500_000
    slice_buckets: int = 100
    slice_rows: int = 20_000
    slice_us: int = 100_000
    slice_least_us: int = 500_000
    live_buckets: int = 5
    outbox_max: int = 200
    publish_buckets: int = 200
    publish_rows: int = 50_000
    publish_bytes: int = 16_000_000
    unpublished_rows_max: int = 200_000
    unpublished_bytes_max: int = 128_000_000
    buffer_rows_max: int = 2_000_000
    ahead_max_us: int = 60_000_000
    row_max_bytes: int = ROW_MAX_BYTES

    @property
    def publish_most(self) -> Most:
        """What one transaction of a corrected stream may hold (R10)."""
        return Most(self.publish_buckets, self.publish_rows, self.publish_bytes)

    def slack_of(self, depth: int) -> int:
        """What a query of `depth` nodes in a row keeps of its threshold for everything but waiting.

        It must cover the last but one node's delta, a hop and the clocks' skew (R13), so it grows with the chain.
        """
        return max(self.slack_us, self.delta_us + (depth - 1) * self.hop_us + self.skew_us)

    def least_threshold_us(self, depth: int) -> int:
        """The smallest delay threshold of a query of `depth` nodes in a row: D >= delta at each of them (R13)."""
        return self.delta_us + self.slack_of(depth) + (depth - 1) * self.hop_us

    def validate(self) -> None:
        """Raises SettingsError for settings that break R13."""
        if self.delta_us < self.skew_us + self.turn_us:
            raise SettingsError(
                f"delta {self.delta_us} us is below skew + turn: at least {self.skew_us + self.turn_us} us, "
                "or buckets run before their healthy inputs are in"
            )
        if self.redo_deadline_us >= self.stagger_us:
            raise SettingsError(
                f"redo deadline {self.redo_deadline_us} us must be below the stagger time {self.stagger_us} us, "
                "or a waiting replica takes a healthy head for a hung one"
            )
        if min(self.publish_buckets, self.publish_rows, self.publish_bytes) < 1:
            raise SettingsError(
                "publish_buckets, publish_rows and publish_bytes must be at least 1: nothing would be published"
            )
        if not 1_000 <= self.row_max_bytes <= ROW_MAX_LIMIT_BYTES:
            raise SettingsError(
                f"row_max {self.row_max_bytes} bytes: a row may have at least 1000 bytes, and at most "
                f"{ROW_MAX_LIMIT_BYTES}, for which a record has room"
            )
        if self.suspicion_us < 2 * self.heartbeat_us:
            raise SettingsError(f"suspicion must be at least two heartbeats: {2 * self.heartbeat_us} us")

    @property
    def suspicion_beats(self) -> int:
        """Own heartbeats read back without one of a peer's until that peer is not counted live (R8)."""
        return -(-self.suspicion_us // self.heartbeat_us)


@dataclass(frozen=True, slots=True)
class Delays:
    """Threshold and policies of a query, in force at a replica from when it reads them (B19)."""

    threshold_us: int
    failure: DelayPolicy = DelayPolicy.PROCESS
    stabilization: DelayPolicy = DelayPolicy.PROCESS


def budget(timing: Timing, threshold_us: int, hops_to_sink: int = 0, depth: int = 1) -> int:
    """D of a node: how long past a bucket's end it may wait for an input that was there before (R13).

    Args:
        hops_to_sink: longest way from the node to the query's result. depth: nodes in the query's longest chain.

    Raises:
        SettingsError: the threshold leaves less than delta at some node; the message names the least that would do.
    """
    least = timing.least_threshold_us(depth)
    if threshold_us < least:
        hops = f" + {depth - 1} x {timing.hop_us / 1000:g} for hops" if depth > 1 else ""
        raise SettingsError(
            f"delay threshold {threshold_us / 1000:g} ms is too small: at least {least / 1000:g} ms "
            f"(delta {timing.delta_us / 1000:g} + slack {timing.slack_of(depth) / 1000:g}{hops})"
        )
    return threshold_us - timing.slack_of(depth) - hops_to_sink * timing.hop_us


def grow_delta(timing: Timing, position: int = 1) -> int:
    """delta of the node at `position` in its chain, counted from the sources from 1 (B11)."""
    return timing.delta_us + (position - 1) * timing.hop_us
