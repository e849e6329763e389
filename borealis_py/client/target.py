"""The source that a publisher writes, and why it may not: values that its parts share."""

from __future__ import annotations

from dataclasses import dataclass

from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.protocol.settings import ROW_MAX_BYTES
from sunion.bucket import Buckets

AHEAD_MAX_US = 60_000_000
"""How far beyond the boundary and the lateness a tuple's stime may lie (the fold rejects it otherwise)."""


class PublisherError(Exception):
    """A publisher cannot start or go on. The message names the stream and says what to do."""


class PublishFailed(PublisherError):
    """The log did not take a record."""


class StreamTaken(PublisherError):
    """Another publisher is at work."""


class StreamEnded(PublisherError):
    """END lies in the log: nothing can follow. `last_seq`: of the last row before it."""

    def __init__(self, message: str, last_seq: int) -> None:
        super().__init__(message)
        self.last_seq = last_seq


class StreamFenced(PublisherError):
    """A newer publisher took the stream while this one was at work."""


class BegunAnew(PublisherError):
    """The app was begun anew, or another version writes it: what this publisher sends says nothing any more."""


class StreamForgotten(PublisherError):
    """Retention has deleted all that the stream's publishers sent: where to go on cannot be known."""


@dataclass(frozen=True, slots=True)
class Target:
    """The source to be written.

    Attributes:
        app_uid: of the app's life (its description has it); records of another one say nothing.
        origin: the app's first bucket; a new source's boundary is its start (B20).
        ahead_max_us, row_max_bytes: as the replicas have them.
    """

    app: str
    app_uid: str
    source: str
    bucket_us: int
    origin: int
    ahead_max_us: int = AHEAD_MAX_US
    row_max_bytes: int = ROW_MAX_BYTES

    @property
    def feed(self) -> Feed:
        return topics.source(self.app, self.source)

    @property
    def buckets(self) -> Buckets:
        return Buckets(self.bucket_us)

    @property
    def name(self) -> str:
        """What to call it in a message."""
        return f"source {self.source!r} of app {self.app!r}"
