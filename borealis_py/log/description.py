"""The description determines which life of an app, and which version of the formats, a process reads.

An app lives from one `up --reset` to the next. Topics keep their names from life to life, and may still receive records
from processes of the previous one. Hence every record carries `app_uid`, and records with another `app_uid` are ignored
(A0).
"""

from __future__ import annotations

import msgspec
import structlog

from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, Lookup, Record
from borealis_py.log.messages import Description, decode
from borealis_py.log.unreadable import ignored

log = structlog.get_logger(__package__)

APP_KEY = "app"
DESCRIPTION_VERSION = 2


class OtherVersion(LogError):
    """Another version of borealis-py wrote this app or record: this program must not read on."""

    @classmethod
    def of_record(cls, topic: str, offset: int, why: str) -> OtherVersion:
        return cls(
            f"{topic}, offset {offset}: {why}. Another version of borealis-py writes this app: run the same version "
            "everywhere, or start anew with `borealis up --reset`"
        )


class OtherLife(LogError):
    """The app was begun anew by `up --reset`: a process of the previous life ends and is not restarted."""

    @classmethod
    def of_app(cls, app: str, own: str, found: str) -> OtherLife:
        return cls(
            f"app {app!r} was begun anew (`borealis up --reset`): its app_uid is now {found}, this process belongs to "
            f"{own}. What it writes no longer counts; start it again to take part in the new life"
        )


def undescribed(app: str) -> LogError:
    """The error for an app without a description: topics are deleted first, and the description is written last."""
    return LogError(f"app {app!r} has no description: it is being begun anew, or was deleted")


class _Versioned(msgspec.Struct, frozen=True):
    """The first version had no `version`, but an `app`; bytes with neither are garbage."""

    version: int | None = None
    app: str | None = None


def read_description(app: str, raw: bytes) -> Description:
    """Parse the value of the settings record `app`.

    Raises:
        OtherVersion: the description has another version; nothing of this app may be read.
        msgspec.DecodeError, msgspec.ValidationError: not a description.
    """
    found = decode(raw, _Versioned)
    if found.version is None and found.app is None:
        raise msgspec.DecodeError("neither a version nor an app")
    version = found.version or 1
    if version != DESCRIPTION_VERSION:
        raise OtherVersion(
            f"app {app!r}: its description has version {version}, this program reads {DESCRIPTION_VERSION}. Use the "
            "version of borealis-py that wrote it, or start anew with `borealis up --reset`"
        )
    return decode(raw, Description)


class Life:
    """The life that a reader reads. Reports records of other lives: once per topic and app_uid,
    then only counts them.
    """

    def __init__(self, app_uid: str) -> None:
        self.app_uid = app_uid
        self.others: dict[tuple[str, str], int] = {}
        """(topic, app_uid) -> number of records of other lives."""
        self.strangers = False
        """Set when a topic first shows another life; reset by whoever has checked the description since."""

    def owns(self, record: Record, app_uid: str) -> bool:
        """Whether a record with this app_uid counts."""
        if app_uid == self.app_uid:
            return True
        key = record.feed.topic, app_uid
        self.others[key] = self.others.get(key, 0) + 1
        if self.others[key] == 1:
            self.strangers = True
            log.warning(
                "records of another life of the app ignored: one of its processes writes, or wrote, here",
                topic=record.feed.topic,
                offset=record.offset,
                app_uid=app_uid,
                own=self.app_uid,
            )
        return False

    def look(self, lookup: Lookup, app: str) -> None:
        """Check the description if another life was met since the last check. Blocks for an answer, which is rare.

        Raises:
            OtherLife, OtherVersion: the app is no longer of this life.
            LogError: there is no description, or the log could not be read.
        """
        if self.strangers:
            check_life(lookup, app, self.app_uid)
            self.strangers = False


def app_uid_now(lookup: Lookup, app: str) -> str | None:
    """The app_uid of the description in the log now; None: there is none, or it cannot be decoded.

    Raises:
        OtherVersion: it has another version.
        LogError: the log could not be read.
    """
    feed = Feed(topics.settings(app))
    found: str | None = None
    for record in lookup.read(feed, *lookup.bounds(feed)):
        if record.key == APP_KEY.encode():
            try:
                found = read_description(app, record.value or b"").app_uid
            except msgspec.MsgspecError as exc:  # as by readers of what it displaced
                ignored(log, "description ignored", record, exc)
    return found


def check_life(lookup: Lookup, app: str, app_uid: str) -> None:
    """Check the description that is in the log now.

    Raises:
        OtherLife, OtherVersion: the app is no longer of this life.
        LogError: there is no description, or the log could not be read.
    """
    found = app_uid_now(lookup, app)
    if found is None:
        raise undescribed(app)
    if found != app_uid:
        raise OtherLife.of_app(app, app_uid, found)
