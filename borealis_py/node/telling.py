"""Writes into the settings that replicas differ, and writes it again while it is not there (R15.2).

Whoever has found it publishes nothing, but its peers stop for the setting alone: a record that the log has lost would
leave a peer publishing what may be wrong.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import structlog

from borealis_py.log.base import Appender, NewRecord
from borealis_py.log.messages import DisagreementSetting, encode
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import Disagreement
from borealis_py.query.names import base_name
from sunion.units import MonotonicUs

log = structlog.get_logger(__package__)

AGAIN_US = 2_000_000
"""After this long, what was not read back is taken for lost."""


class DisagreementTelling:
    """Tells all replicas of the node of a replica, and of the queries that read it: their rows come from it."""

    def __init__(self, spec: ReplicaSpec, appender: Appender) -> None:
        self.names = frozenset({base_name(spec.node), *(s.query for s in spec.serves)})
        """Under which it is told."""
        self._spec = spec
        self._appender = appender
        self._missing = frozenset[str]()
        self._value = b""
        self._written_us = MonotonicUs(0)

    def tell(self, found: Disagreement, now: MonotonicUs) -> None:
        """Write what this replica has found."""
        self._value = encode(DisagreementSetting(self._spec.app_uid, replace(found, node=self._spec.node)))
        self._missing = self.names
        self._write(now)

    def turn(self, found: Disagreement | None, said: Collection[str], now: MonotonicUs) -> None:
        """Write again what is not in the settings.

        Args:
            found: because of which nothing is published; None: nothing, or an operator has cleared it.
            said: the names under which the settings that were read since the last call say something of this.
        """
        self._missing = frozenset() if found is None else self._missing - frozenset(said)
        if self._missing and now - self._written_us >= AGAIN_US:
            log.warning("that replicas differ is not in the settings: written again", names=sorted(self._missing))
            self._write(now)

    def _write(self, now: MonotonicUs) -> None:
        self._written_us = now
        for name in sorted(self._missing):
            key = f"diverged/{name}".encode()
            self._appender.append(NewRecord(self._spec.settings_feed, self._value, key, conflatable=True))
