"""Status records and log lines of one replica: what people, `borealis status` and the demo see."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import psutil
import structlog

from borealis_py.log.base import Appender, NewRecord
from borealis_py.log.clock import Clock
from borealis_py.log.messages import InputStatus, RedoStatus, Status, encode
from borealis_py.node.dynamic_settings import DynamicSettings
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.publishing import Phase
from borealis_py.protocol.settings import Delays
from borealis_py.protocol.turn import EmitEvent
from sunion.input_buffers import SourceBuffer
from sunion.lateness import Lateness

PERIOD_US = 1_000_000


@dataclass(frozen=True, slots=True)
class StatusSnapshot:
    """What a loop leaves for others in its process to look at, immutable: the status, and the settings it has read.

    `delays`: of each query that reads the node. `failed_until`: source -> wall time in microseconds.
    """

    status: Status
    delays: Mapping[str, Delays]
    failed_until: Mapping[str, int]


StatusListener = Callable[[StatusSnapshot], None]
"""Called in the loop's thread: must not block."""


def ignore_status(glance: StatusSnapshot) -> None:
    """Nobody looks."""


def _late_us(of: Lateness) -> tuple[int, int, int]:
    """Half of the rows, 99 % and all came at most so late."""
    return of.percentile(0.5), of.percentile(0.99), of.max_us


class Reporter:
    """Tells of a replica once a second and at every event: the status topic, the log, and `seen`."""

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
        self._log = structlog.get_logger("borealis.replica").bind(node=spec.node, replica=spec.replica)
        self._process = psutil.Process()
        self.checkpoint_wall_us = 0
        self.checkpoint_bucket = 0

    @property
    def due(self) -> int:
        """When the next periodic record is due."""
        return self._due

    def periodic(self, now: int, manager: Manager, unreachable: frozenset[int]) -> None:
        """One record a second."""
        if now >= self._due:
            self._due = now + PERIOD_US
            self._send(manager, unreachable, EmitEvent(""))

    def note(self, note: EmitEvent, manager: Manager, unreachable: frozenset[int]) -> None:
        """One record and one log line an event."""
        line: dict[str, Any] = {"f_s": manager.f_s, "f_l": manager.f_l}
        if note.redo is not None:
            first, end, rows, engine, seconds = note.redo
            line.update(first=first, end=end, rows=rows, engine=engine, seconds=round(seconds, 3))
        if note.event == "REDO_FAILED":
            self._log.warning("redo failed; going on inline", why=note.detail, **line)
        elif note.event == "ADOPT_FAILED":
            self._log.warning("a peer's checkpoint was not adopted; going on alone", why=note.detail, **line)
        elif note.event == "DRIFT":
            self._log.warning(
                "buckets run without a source that is alive: check its clock and lateness, or raise the threshold",
                why=note.detail,
                **line,
            )
        else:
            self._log.info(note.event, detail=note.detail, **line)
        self._send(manager, unreachable, note)

    def _send(self, manager: Manager, unreachable: frozenset[int], note: EmitEvent) -> None:
        wall = self._clock.wall_us()
        status = self._status(manager, unreachable, note, wall)
        self._appender.append(NewRecord(self._spec.status_feed, encode(status), self._key))
        self._seen(StatusSnapshot(status, self._settings.queries, dict(self._settings.failed_until)))

    def _status(self, m: Manager, unreachable: frozenset[int], note: EmitEvent, wall: int) -> Status:
        redo, delays = None, self._settings.as_configured
        if note.redo is not None:
            first, end, rows, engine, seconds = note.redo
            redo = RedoStatus(first, end, rows, engine, seconds, wall)
        return Status(
            node=self._spec.node,
            replica=self._spec.replica,
            inc=m.identity.inc,
            uid=m.identity.uid,
            pid=self._spec.pid or os.getpid(),
            at_wall_us=wall,
            state=m.state.value,
            f_s=m.f_s,
            f_l=m.f_l,
            asking=m.stagger.asking,
            granted=m.stagger.granted,
            head=m.control.head,
            publishing=m.publishing.phase in (Phase.READY, Phase.COMMITTING),
            progress=m.publishing.frontier,
            stable_rows=m.counts.stable_rows,
            tentative_rows=m.counts.tentative_rows,
            stable_buckets=m.counts.stable_buckets,
            tentative_buckets=m.counts.tentative_buckets,
            tuples_in=sum(s.tuples for s in m.union.inputs),
            rejected=sum(s.rejected for s in m.union.inputs),
            checkpoint_bucket=self.checkpoint_bucket,
            checkpoint_wall_us=self.checkpoint_wall_us,
            threshold_us=delays.threshold_us,
            failure_policy=delays.failure.value,
            stabilization_policy=delays.stabilization.value,
            inputs=tuple(self._input(m, i, unreachable) for i in range(len(m.union.inputs))),
            rss_kb=self._process.memory_info().rss // 1024,
            event=note.event,
            detail=note.detail,
            redo=redo,
            why_inline=self._why_inline(),
            http=self._spec.http,
            host=self._spec.host or platform.node(),
        )

    @staticmethod
    def _input(m: Manager, index: int, unreachable: frozenset[int]) -> InputStatus:
        source = m.union.inputs[index]
        return InputStatus(
            name=source.name,
            closed=m.union.closed(index),
            late=m.intake.late(index),
            reachable=index not in unreachable,
            ended=source.fold.ended if isinstance(source, SourceBuffer) else source.closed >= m.buckets.last,
            rejected=source.rejected,
            tuples=source.tuples,
            lateness_us=source.fold.lateness_us if isinstance(source, SourceBuffer) else 0,
            late_us=_late_us(source.lateness) if isinstance(source, SourceBuffer) else (0, 0, 0),
        )
