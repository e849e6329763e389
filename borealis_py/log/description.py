"""Which life of an app a reader reads, and which version of the formats: both are the description's word.

An app lives from one `up --reset` to the next. Topics of the next life have the same names, and what a process of the
one before still had on its way lies in them: so everything that is written carries `app_uid`, and what carries another
one says nothing (PROTOCOL 1.0).
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
import structlog

from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, Lookup, Record
from borealis_py.log.messages import Description, decode

log = structlog.get_logger("borealis.life")

APP_KEY = "app"
DESCRIPTION_VERSION = 2


class OtherVersion(LogError):
    """An app, or a record of it, that another version of borealis-py has written: this program must not read on."""

    @classmethod
    def of_record(cls, topic: str, offset: int, why: str) -> OtherVersion:
        return cls(
            f"{topic}, offset {offset}: {why}. Another version of borealis-py writes this app: run the same version "
            "everywhere, or begin anew with `borealis up --reset`"
        )


class OtherLife(LogError):
    """The app was begun anew by `up --reset`: a process of the life before ends, and is not started again."""

    @classmethod
    def of_app(cls, app: str, own: str, found: str) -> OtherLife:
        return cls(
            f"app {app!r} was begun anew (`borealis up --reset`): its app_uid is {found}, this process belongs to "
            f"{own}. What it would say counts nowhere; start it again to take part in the new one"
        )


def undescribed(app: str) -> LogError:
    """The error of an app that nobody describes now: topics are deleted first and described last."""
    return LogError(f"app {app!r} has no description: it is being begun anew, or was deleted")


class _Versioned(msgspec.Struct, frozen=True):
    """The first version had no `version`, but an `app`; without either it is garbage."""

    version: int | None = None
    app: str | None = None


def read_description(app: str, raw: bytes) -> Description:
    """The value of the settings record `app`.

    Raises:
        OtherVersion: it has another version: nothing of this app is to be read.
        msgspec.DecodeError, msgspec.ValidationError: it is none.
    """
    found = decode(raw, _Versioned)
    if found.version is None and found.app is None:
        raise msgspec.DecodeError("neither a version nor an app")
    version = found.version or 1
    if version != DESCRIPTION_VERSION:
        raise OtherVersion(
            f"app {app!r}: its description has version {version}, this program reads {DESCRIPTION_VERSION}. Use the "
            "version of borealis-py that wrote it, or begin anew with `borealis up --reset`"
        )
    return decode(raw, Description)


class Life:
    """The life that a reader reads. Tells of what it meets of others: once for each topic and app_uid, then counted."""

    def __init__(self, app_uid: str) -> None:
        self.app_uid = app_uid
        self.others: dict[tuple[str, str], int] = {}
        """(topic, app_uid) -> records of other lives."""
        self.strangers = False
        """Another life was met in a topic for the first time: reset by who has looked at the description since."""

    def owns(self, record: Record, app_uid: str) -> bool:
        """Whether a record that carries this app_uid says anything."""
        if app_uid == self.app_uid:
            return True
        key = record.feed.topic, app_uid
        self.others[key] = self.others.get(key, 0) + 1
        if self.others[key] == 1:
            self.strangers = True
            log.warning(
                "records of another life of the app say nothing: a process of it still writes, or did",
                topic=record.feed.topic,
                offset=record.offset,
                app_uid=app_uid,
                own=self.app_uid,
            )
        return False

    def look(self, lookup: Lookup, app: str) -> None:
        """Look at the description if another life was met since the last look. It waits for an answer; that is rare.

        Raises:
            OtherLife, OtherVersion: it is not of this life any more.
            LogError: there is none, or the log could not be read.
        """
        if self.strangers:
            check_life(lookup, app, self.app_uid)
            self.strangers = False


def app_uid_now(lookup: Lookup, app: str) -> str | None:
    """The app_uid of the description that lies on the log now; None: there is none, or it cannot be read.

    Raises:
        OtherVersion. LogError: the log could not be read.
    """
    feed = Feed(topics.settings(app))
    found: str | None = None
    for record in lookup.read(feed, *lookup.bounds(feed)):
        if record.key == APP_KEY.encode():
            with suppress(msgspec.MsgspecError):  # garbage says nothing: who had read what it displaced goes on, too
                found = read_description(app, record.value or b"").app_uid
    return found


def check_life(lookup: Lookup, app: str, app_uid: str) -> None:
    """Look at the description as it lies on the log now.

    Raises:
        OtherLife, OtherVersion: it is not of this life any more.
        LogError: there is none, or the log could not be read.
    """
    found = app_uid_now(lookup, app)
    if found is None:
        raise undescribed(app)
    if found != app_uid:
        raise OtherLife.of_app(app, app_uid, found)
