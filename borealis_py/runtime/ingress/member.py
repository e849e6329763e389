"""One foreign topic in an ingress process: its session, begun again when it fails, and what is reported of it."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

import structlog

from borealis_py.app.supervisor import exit_codes
from borealis_py.app.supervisor.exit_codes import ExitCode
from borealis_py.client.target import BegunAnew, StreamEnded, StreamForgotten
from borealis_py.ingress.source_settings import NOTHING_SET, SourceSettings
from borealis_py.log.base import LogError
from borealis_py.log.ingress_status import AbsentField, IngressInput, IngressRole, IngressStatus

log = structlog.get_logger(__package__)

RESTART_US = 1_000_000
"""Pause before a failed session is begun again."""
REPORT_US = 1_000_000
"""How often a status is reported when nothing has changed."""
ENDS: tuple[tuple[type[Exception], ExitCode], ...] = (
    (BegunAnew, exit_codes.OTHER_LIFE),
    (StreamForgotten, exit_codes.LOST),
    (StreamEnded, exit_codes.ENDED),
)
"""Ends of a session that beginning again would not heal, and the exit codes of its process."""


@dataclass(frozen=True, slots=True)
class SessionReport:
    """What a session does now: `role`, `inputs`, and `detail`: why, or what it waits for ("": nothing worth saying).
    `settings`: what it has read of those of its source. `absent`: columns that no record has had."""

    role: IngressRole
    inputs: tuple[IngressInput, ...] = ()
    detail: str = ""
    settings: SourceSettings = NOTHING_SET
    absent: tuple[AbsentField, ...] = ()


class TopicSession(Protocol):
    """A session as its process drives it. Never waits; times are wall times in microseconds, and `log_us` the log's
    (None: not known)."""

    def turn(self, now_us: int, log_us: int | None) -> None: ...

    def next_wakeup(self) -> int: ...

    def report(self) -> SessionReport: ...

    def close(self) -> None: ...


class Roused:
    """Called in any thread when something has arrived for one member: notes that (`there`), and wakes the loop."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self.there = True
        self._wake = wake

    def __call__(self) -> None:
        self.there = True
        self._wake()


class TopicMember:
    """Args:
    source: the source that it writes. ingress: the process's index. topic, cluster: what it reads.
    begin: opens a session with this uid. new_uid: unique for ever.
    tell: takes each status. http: see `IngressStatus`. roused: what its session wakes; None: a turn is always due.
    """

    def __init__(
        self,
        source: str,
        ingress: int,
        topic: str,
        cluster: str | None,
        begin: Callable[[str], TopicSession],
        new_uid: Callable[[], str],
        tell: Callable[[IngressStatus], None],
        http: str = "",
        roused: Roused | None = None,
    ) -> None:
        self._roused = roused
        self.code: ExitCode | None = None
        """How it has ended for good; None: it has not."""
        self._status = IngressStatus(
            source,
            ingress,
            topic,
            cluster or "",
            IngressRole.STARTING,
            "",
            os.getpid(),
            platform.node(),
            0,
            (),
            "",
            http,
        )
        self._begin = begin
        self._new_uid = new_uid
        self._tell = tell
        self._session: TopicSession | None = None
        self._uid = ""
        self._again_us = 0
        self._report_us = 0
        self._turned_us = 0
        self._told: tuple[IngressRole, str] | None = None
        self._over = IngressRole.STOPPED
        """The role after its end for good."""
        self._settings = NOTHING_SET
        """As last reported."""
        self._missing: tuple[str, ...] = ()
        """Of each input, why it is missing, as last reported."""
        self._absent: set[str] = set()
        """Columns that no record has had, as last logged."""
        self._log = log.bind(source=source, ingress=ingress, topic=topic)

    def due(self, now_us: int) -> bool:
        """Whether a turn has something to do: other members' arrivals are not its own."""
        if self._roused is None or self._roused.there:
            return True
        at = self.next_wakeup()
        return at is not None and (at <= now_us or now_us < self._turned_us)  # a clock set back says nothing

    def turn(self, now_us: int, log_us: int | None = None) -> None:
        """Do what is due, and report. Never raises for what a session meets."""
        if self.code is not None:
            return
        self._turned_us = now_us
        if self._roused is not None:
            self._roused.there = False
        why = ""
        try:
            if self._session is None and now_us >= self._again_us:
                self._uid = self._new_uid()
                self._session = self._begin(self._uid)
            if self._session is not None:
                self._session.turn(now_us, log_us)
        except Exception as exc:
            why = str(exc)
            self._failed(exc, now_us)
        self._report(now_us, why)

    def next_wakeup(self) -> int | None:
        """When the next turn is due, at the latest; None: never again."""
        if self.code is not None:
            return None
        due = self._again_us if self._session is None else self._session.next_wakeup()
        return min(due, self._report_us)

    def stays(self, now_us: int, remark: str) -> None:
        """Say of one that has ended what its process does now."""
        detail = f"{self._told[1]}; {remark}" if self._told is not None and self._told[1] else remark
        self._send(SessionReport(self._over, detail=detail, settings=self._settings), now_us)

    def close(self, now_us: int, why: str = "") -> None:
        """End the session, and say so."""
        self._drop()
        if self._told is None or self._told[0] not in (IngressRole.STOPPED, IngressRole.ENDED):
            self._send(SessionReport(IngressRole.STOPPED, detail=why), now_us)

    def _failed(self, exc: Exception, now_us: int) -> None:
        self._drop()
        self.code = next((code for kind, code in ENDS if isinstance(exc, kind)), None)
        self._over = IngressRole.ENDED if isinstance(exc, StreamEnded) else IngressRole.STOPPED
        if self.code is not None:
            (self._log.warning if self.code is exit_codes.ENDED else self._log.error)(
                "this ingress ends", why=str(exc), exit=self.code.name
            )
            return
        self._again_us = now_us + RESTART_US
        if self._told != (IngressRole.STARTING, str(exc)):  # not each second the same
            self._log.error(
                "this ingress failed: it begins again",
                why=f"{type(exc).__name__}: {exc}",
                exc_info=not isinstance(exc, LogError),
            )

    def _drop(self) -> None:
        if self._session is not None:
            with suppress(LogError):
                self._session.close()
            self._session = None

    def _report(self, now_us: int, why: str) -> None:
        if self.code is not None:
            found = SessionReport(self._over, detail=why, settings=self._settings)
        elif self._session is None:
            known = self._told is not None and self._told[0] is IngressRole.STARTING
            found = SessionReport(IngressRole.STARTING, detail=why or (self._told[1] if known and self._told else ""))
        else:
            found = self._session.report()
        new = (found.role, found.detail) != self._told or found.settings != self._settings
        if new or _missing(found) != self._missing or now_us >= self._report_us:
            if self._told is None or found.role is not self._told[0]:
                self._log.info(f"this ingress is {found.role}", detail=found.detail, uid=self._uid)
            for one in found.absent:
                if one.name not in self._absent:
                    self._absent.add(one.name)
                    self._log.warning(
                        "no record has this column",
                        column=one.name,
                        field=one.field or one.name,
                        records=one.records,
                        near=one.near,
                    )
            self._send(found, now_us)

    def _send(self, found: SessionReport, now_us: int) -> None:
        self._told, self._report_us = (found.role, found.detail), now_us + REPORT_US
        self._settings, self._missing = found.settings, _missing(found)
        settings = found.settings
        status = self._status
        self._tell(
            IngressStatus(
                status.source,
                status.ingress,
                status.topic,
                status.cluster,
                found.role,
                self._uid,
                status.pid,
                status.host,
                now_us,
                found.inputs,
                found.detail,
                status.http,
                settings.expect_us,
                tuple(sorted(settings.skipped)),
                settings.ending,
                found.absent,
            )
        )


def _missing(report: SessionReport) -> tuple[str, ...]:
    return tuple(one.missing for one in report.inputs)
