"""Status records and log lines of one replica, for users, `borealis status` and the demo."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog

from borealis_py.log.base import Appender, NewRecord
from borealis_py.log.clock import Clock, ClockWatch
from borealis_py.log.messages import InputStatus, RedoStatus, Status, TrimStatus, encode
from borealis_py.node.dynamic_settings import DynamicSettings
from borealis_py.node.memory import memory_watch
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import InputReport, ReplicaStatus
from borealis_py.protocol.publishing import Phase
from borealis_py.protocol.settings import Delays
from borealis_py.protocol.turn import EmitEvent

PERIOD_US = 1_000_000
PLAY_US = 100_000
"""A turn takes a record along that is due so soon: the next bucket's does."""


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """A replica's status and the settings that it has read, immutable, for other threads of its process.

    Attributes:
        status: what it reported last.
        delays: the settings of each query that reads the node.
        failed_until: for each source that a drill fails, the wall time at which the drill ends, in microseconds.
    """

    status: Status
    delays: Mapping[str, Delays]
    failed_until: Mapping[str, int]


StatusListener = Callable[[StatusSnapshot], None]
"""Called in the loop's thread: must not block."""


def ignore_status(snapshot: StatusSnapshot) -> None:
    """A listener that does nothing."""


class Reporter:
    """Reports a replica once a second and at every event: to the status topic, the log, and `seen`."""

    def __init__(
        self,
        spec: ReplicaSpec,
        appender: Appender,
        clock: Clock,
        settings: DynamicSettings,
        why_inline: Callable[[], str],
        seen: StatusListener = ignore_status,
    ) -> None:
        self._spec = spec
        self._appender = appender
        self._clock = clock
        self._settings = settings
        self._why_inline = why_inline
        self._seen = seen
        self._due = 0
        self._key = f"{spec.node}/{spec.replica}".encode()
        self._log = structlog.get_logger(__package__).bind(node=spec.node, replica=spec.replica)
        self._memory = memory_watch()
        self._clock_watch = ClockWatch()
        self.checkpoint_wall_us = 0
        self.checkpoint_bucket = 0
        self.trims: tuple[TrimStatus, ...] = ()

    @property
    def due(self) -> int:
        """When the next periodic record is due, in monotonic microseconds."""
        return self._due

    def periodic(self, now: int, status: Callable[[], ReplicaStatus], unreachable: frozenset[int]) -> None:
        """Send one record a second; `status` is called if one is due."""
        if now >= self._due - PLAY_US:
            self._due = now + PERIOD_US
            self._send(status(), unreachable, EmitEvent(""))

    def note(self, note: EmitEvent, status: ReplicaStatus, unreachable: frozenset[int]) -> None:
        """Report an event: one status record and one log line."""
        line: dict[str, Any] = {"f_s": status.f_s, "f_l": status.f_l}
        if note.redo is not None:
            first, end, rows, engine, seconds = note.redo
            line.update(first=first, end=end, rows=rows, engine=engine, seconds=round(seconds, 3))
        if note.event == "REDO_FAILED":
            self._log.warning("redo failed; going on inline", why=note.detail, **line)
        elif note.event == "ADOPT_FAILED":
            self._log.warning("a peer's checkpoint was not adopted; correcting without it", why=note.detail, **line)
        elif note.event == "DRIFT":
            self._log.warning(
                "buckets run without a source that is alive: check its clock and lateness, or raise the threshold",
                why=note.detail,
                **line,
            )
        elif note.event == "DIVERGED":
            self._log.error(
                "replicas differ, so nothing more is published: nobody can say which is right. `borealis audit` "
                "recomputes the rows; then `borealis resume` goes on, or `borealis up --reset` begins anew",
                why=note.detail,
                **line,
            )
        elif note.event == "GAP":
            self._log.warning("GAP: what came meanwhile is lost, and named so", detail=note.detail, **line)
        else:
            self._log.info(note.event, detail=note.detail, **line)
        self._send(status, unreachable, note)

    def _send(self, status: ReplicaStatus, unreachable: frozenset[int], note: EmitEvent) -> None:
        said = self._clock_watch.changed(self._appender.clock_ahead_us)
        if said is not None:
            self._log.warning(said, ahead_us=self._appender.clock_ahead_us)
        record = self._record(status, unreachable, note, self._clock.wall_us())
        conflatable = not note.event  # events are told one by one
        self._appender.append(NewRecord(self._spec.status_feed, encode(record), self._key, conflatable=conflatable))
        self._seen(StatusSnapshot(record, self._settings.queries, dict(self._settings.failed_until)))

    def _record(self, s: ReplicaStatus, unreachable: frozenset[int], note: EmitEvent, wall: int) -> Status:
        redo, delays = None, self._settings.as_configured
        if note.redo is not None:
            first, end, rows, engine, seconds = note.redo
            redo = RedoStatus(first, end, rows, engine, seconds, wall)
        memory = self._memory.use()
        return Status(
            node=self._spec.node,
            replica=self._spec.replica,
            inc=s.identity.inc,
            uid=s.identity.uid,
            pid=self._spec.pid or os.getpid(),
            at_wall_us=wall,
            state=s.state,
            f_s=s.f_s,
            f_l=s.f_l,
            asking=s.asking,
            granted=s.granted,
            head=s.head,
            publishing=s.writer in (Phase.READY.value, Phase.COMMITTING.value),
            progress=s.progress,
            stable_rows=s.counts.stable_rows,
            tentative_rows=s.counts.tentative_rows,
            stable_buckets=s.counts.stable_buckets,
            tentative_buckets=s.counts.tentative_buckets,
            tuples_in=sum(i.tuples for i in s.inputs),
            rejected=sum(i.rejected for i in s.inputs),
            checkpoint_bucket=self.checkpoint_bucket,
            checkpoint_wall_us=self.checkpoint_wall_us,
            threshold_us=delays.threshold_us,
            failure_policy=delays.failure.value,
            stabilization_policy=delays.stabilization.value,
            inputs=tuple(_input(of, i not in unreachable) for i, of in enumerate(s.inputs)),
            rss_kb=memory.rss_kb,
            pss_kb=memory.pss_kb,
            event=note.event,
            detail=note.detail,
            redo=redo,
            why_inline=self._why_inline(),
            http=self._spec.http,
            host=self._spec.host or platform.node(),
            clock_ahead_us=self._appender.clock_ahead_us,
            trims=self.trims,
            diverged="" if s.disagreement is None else str(s.disagreement),
            recovery=(self._settings.recovery or self._spec.recovery).way.value,
            lost_from=0 if s.lost is None else s.lost[0],
            lost_buckets=0 if s.lost is None else s.lost[1] - s.lost[0],
        )


def _input(of: InputReport, reachable: bool) -> InputStatus:
    return InputStatus(
        name=of.name,
        closed=of.closed,
        late=of.late,
        reachable=reachable,
        ended=of.ended,
        rejected=of.rejected,
        tuples=of.tuples,
        lateness_us=of.lateness_us,
        late_us=of.late_us,
    )
