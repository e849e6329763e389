"""The settings topic as one replica sees it: threshold, policies, failed sources, highest incarnations."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import structlog

from borealis_py.log.base import Record
from borealis_py.log.messages import Incarnation, Policy, SourceFailure, Threshold, decode
from borealis_py.protocol.settings import DelayPolicy, Delays, SettingsError, Timing, budget

log = structlog.get_logger("borealis.settings")


class Knobs:
    """Folds settings records; a bad one is named in a warning and changes nothing."""

    def __init__(self, query: str, replica: int, delays: Delays, timing: Timing) -> None:
        self.delays = delays
        self.failed_until: dict[str, int] = {}
        self.inc = 0
        self._query = query
        self._incarnation = f"incarnation/{query}/{replica}"
        self._timing = timing

    def read(self, record: Record) -> None:
        """Take one record, in the log's order."""
        key = (record.key or b"").decode(errors="replace")
        kind, _, name = key.partition("/")
        try:
            self._read(kind, name, key, record.value or b"")
        except (msgspec.DecodeError, msgspec.ValidationError, ValueError, SettingsError) as exc:
            log.warning("setting ignored", key=key, why=str(exc))

    def _read(self, kind: str, name: str, key: str, value: bytes) -> None:
        if kind == "threshold" and name == self._query:
            threshold_us = decode(value, Threshold).threshold_us
            budget(self._timing, threshold_us)
            self.delays = replace(self.delays, threshold_us=threshold_us)
        elif kind == "policy" and name == self._query:
            policy = decode(value, Policy)
            failure, stabilization = DelayPolicy(policy.failure), DelayPolicy(policy.stabilization)
            self.delays = replace(self.delays, failure=failure, stabilization=stabilization)
        elif kind == "fail":
            self.failed_until[name] = decode(value, SourceFailure).until_wall_us
        elif key == self._incarnation:
            self.inc = max(self.inc, decode(value, Incarnation).inc)
