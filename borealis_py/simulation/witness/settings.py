"""The delay threshold and policies that one node has to obey, from the settings that it has read
(A5.4, R13).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from borealis_py.log.base import Record
from borealis_py.simulation.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Orders:
    """What a node has to obey. Policies: "process", "delay" or "suspend"."""

    wait_us: int
    delta_us: int
    failure: str
    stabilization: str


class Settings:
    """The settings of the query, as read so far; one that cannot hold changes nothing (R13.3).

    Args:
        query: their query. hops: from the node to its result. depth: nodes in its longest chain. position: of the node
            in its own, from 1.
    """

    def __init__(self, scenario: Scenario, query: str, hops: int, depth: int, position: int) -> None:
        timing, delays = scenario.timing, scenario.delays
        last_delta_us = timing.delta_us + (depth - 1) * timing.hop_us
        self._keep_us = max(timing.slack_us, last_delta_us + timing.skew_us) + hops * timing.hop_us
        self._least_us = timing.delta_us + self._keep_us + (depth - 1 - hops) * timing.hop_us
        self._query = query
        delta_us = timing.delta_us + (position - 1) * timing.hop_us
        self.orders = Orders(0, delta_us, delays.failure.value, delays.stabilization.value)
        self._threshold(delays.threshold_us)

    def _threshold(self, threshold_us: int) -> None:
        if threshold_us >= self._least_us:
            wait_us = max(self.orders.delta_us, threshold_us - self._keep_us)
            self.orders = replace(self.orders, wait_us=wait_us)

    def read(self, records: Sequence[Record]) -> None:
        for record in records:
            try:
                value = json.loads(record.value or b"")
                if record.key == f"threshold/{self._query}".encode():
                    self._threshold(_whole(value["threshold_us"]))
                elif record.key == f"policy/{self._query}".encode():
                    named = _policy(value["failure"]), _policy(value["stabilization"])
                    self.orders = replace(self.orders, failure=named[0], stabilization=named[1])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue


def _whole(value: object) -> int:
    """A number in a message is 0 to 2^53 (A5.1)."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= 2**53:
        raise ValueError
    return value


def _policy(value: object) -> str:
    if value not in ("process", "delay", "suspend"):
        raise ValueError
    return str(value)
