"""How large a record may be: what rows of `row_max` need, and the error of a record that a topic is too small for."""

from __future__ import annotations

from borealis_py.log.base import Feed, LogError
from borealis_py.log.topics import ENVELOPE_BYTES_MAX, RECORD_BYTES_MAX

MAX_MESSAGE_BYTES = "max.message.bytes"
_AROUND_BYTES = 65_536
"""Room for what is around rows in a record: headers, dead letters' reasons, Kafka's own bytes."""
_COLUMN_BYTES = 256
"""What Arrow takes for each column of a record, beside its values."""


class RecordTooLarge(LogError):
    """A topic has refused a record for its size. It is refused again as long as neither changes."""

    @property
    def record(self) -> str:
        """Which record: its topic, partition and time."""
        return str(self).partition(": ")[0]


def too_large(feed: Feed, timestamp_ms: int | None, size: int) -> str:
    """Why a record is refused, for people.

    Args:
        timestamp_ms: of the record; None: it has none of its own.
        size: of its value, in bytes.
    """
    at = "" if timestamp_ms is None else f" at {timestamp_ms} ms"
    return (
        f"{feed.topic}[{feed.partition}]{at}: a record of {size} bytes is too large for the topic: raise "
        f"{MAX_MESSAGE_BYTES} of topic {feed.topic} (borealis-py creates topics with {RECORD_BYTES_MAX}), or set a "
        "lower `timing: row_max` and start anew with `borealis up --reset`"
    )


def needed_bytes(row_max_bytes: int, columns: int) -> int:
    """What `max.message.bytes` of a topic must be, so that it takes any row of this size, or batch of smaller ones.

    Args:
        columns: of the rows.
    """
    padded = row_max_bytes + row_max_bytes // 64  # Arrow has a bit more for each value
    return max(padded, ENVELOPE_BYTES_MAX) + columns * _COLUMN_BYTES + _AROUND_BYTES


def row_max_that_fits(bytes_max: int, columns: int) -> int | None:
    """The largest `row_max` for topics that take records of so many bytes; None: not even batches of small rows fit."""
    room = bytes_max - columns * _COLUMN_BYTES - _AROUND_BYTES
    return room * 64 // 65 if room >= ENVELOPE_BYTES_MAX else None
