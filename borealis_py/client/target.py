"""The source that a publisher writes, and the errors that stop it."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.protocol.settings import ROW_MAX_BYTES
from sunion.bucket import Buckets


class PublisherError(Exception):
    """A publisher cannot start or continue. The message names the stream and says what to do."""


class PublishFailed(PublisherError):
    """The log refused a record."""


class StreamTaken(PublisherError):
    """Another publisher is active."""


class StreamEnded(PublisherError):
    """The source has ended: END is in its log, and nothing can follow. `last_seq`: of the last row before it."""

    def __init__(self, message: str, last_seq: int) -> None:
        super().__init__(message)
        self.last_seq = last_seq


class StreamFenced(PublisherError):
    """A newer publisher took the stream while this one was active."""


class BegunAnew(PublisherError):
    """The app was begun anew, or another version writes it: what this publisher sends no longer counts."""


class StreamForgotten(PublisherError):
    """Retention has deleted everything that the stream's publishers sent: the position to resume at is unknown."""


@dataclass(frozen=True, slots=True)
class Target:
    """The source to be written.

    Attributes:
        app, source: names. app_uid: of the app's life, from its description; records of other lives are ignored.
        bucket_us: the app's bucket width, in microseconds.
        origin: the app's first bucket; a new source's boundary is its start (B20).
        ahead_max_us, row_max_bytes: as at the replicas.
        called: what people call the source; "": by its name.
    """

    app: str
    app_uid: str
    source: str
    bucket_us: int
    origin: int
    _: KW_ONLY
    ahead_max_us: int
    row_max_bytes: int = ROW_MAX_BYTES
    called: str = ""

    @property
    def feed(self) -> Feed:
        return topics.source(self.app, self.source)

    @property
    def buckets(self) -> Buckets:
        return Buckets(self.bucket_us)

    @property
    def name(self) -> str:
        """The source's name in messages."""
        return f"source {(self.called or self.source)!r} of app {self.app!r}"
