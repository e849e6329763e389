"""Statuses that a driver writes for replicas that cannot: to the status topic and to its own pages."""

from __future__ import annotations

import time
from collections.abc import Iterable

import structlog
from msgspec.structs import replace as changed

from borealis_py.log.base import NewRecord
from borealis_py.log.messages import encode
from borealis_py.node.reporter import StatusListener, StatusSnapshot, ignore_status
from borealis_py.node.spec import ReplicaSpec

log = structlog.get_logger(__package__)

WRITTEN_S = 2.0


class ProxyStatus:
    """Keeps each replica's last status, in order to repeat it with what has happened since.

    Args:
        seen: called with the replicas' statuses, and with those written for them.
    """

    def __init__(self, specs: Iterable[ReplicaSpec], seen: StatusListener = ignore_status) -> None:
        self._specs = {(spec.node, spec.replica): spec for spec in specs}
        self._seen = seen
        self._last: dict[tuple[str, int], StatusSnapshot] = {}

    def see(self, snapshot: StatusSnapshot) -> None:
        """Take a status that a replica reported."""
        self._last[snapshot.status.node, snapshot.status.replica] = snapshot
        self._seen(snapshot)

    def stopped(self, names: Iterable[str], why: str) -> None:
        """Report that these replicas (`sales.r0`) do not run. Skips replicas that never reported."""
        for key, snapshot in list(self._last.items()):  # a thread may add to it
            spec = self._specs[key]
            if spec.name in names:
                wall_us = time.time_ns() // 1000
                status = changed(
                    snapshot.status, event="STOPPED", detail=why, at_wall_us=wall_us, publishing=False, redo=None
                )
                self._seen(StatusSnapshot(status, snapshot.delays, snapshot.failed_until))
                _write(spec, encode(status))


def _write(spec: ReplicaSpec, value: bytes) -> None:
    appender = spec.log.appender(lambda: None)
    try:
        appender.append(NewRecord(spec.status_feed, value, f"{spec.node}/{spec.replica}".encode()))
        if not appender.flush(WRITTEN_S):
            log.warning("status not written: is the broker reachable?", task=spec.name)
    finally:
        appender.close()
