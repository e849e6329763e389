"""The last status of each ingress of one process, for its HTTP pages.

The loop of each foreign topic writes its own; any thread reads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

from borealis_py.app.state import AppState
from borealis_py.log.ingress_status import IngressRole, IngressStatus
from borealis_py.observe.ingress_overview import IngressKey, ingress_overview
from borealis_py.observe.status_registry import HUNG_S


class IngressRegistry:
    """Args:
    state: the app when the process started. ingresses: (source, index) of those that run here.
    clock: monotonic seconds.
    """

    def __init__(
        self, state: AppState, ingresses: Sequence[IngressKey], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.state = state
        self.ingresses = tuple(ingresses)
        self._clock = clock
        self._told: dict[IngressKey, tuple[IngressStatus, float] | None] = dict.fromkeys(ingresses)

    def tell(self, status: IngressStatus) -> None:
        """Store a loop's new status."""
        self._told[status.source, status.ingress] = status, self._clock()

    @property
    def statuses(self) -> dict[IngressKey, IngressStatus]:
        """The statuses of those that have reported."""
        return {key: told[0] for key, told in self._told.items() if told is not None}

    def overview(self, now_us: int) -> dict[str, Any]:
        """Like `borealis status --json`, for these ingresses. `now_us`: wall time."""
        return {
            "app": self.state.name,
            "hash": self.state.hash,
            "at_wall_us": now_us,
            "ingresses": ingress_overview(self.state, self.statuses, now_us, self.ingresses),
        }

    def diverged(self) -> list[str]:
        """None: an ingress computes nothing."""
        return []

    def hung(self) -> list[str]:
        """The loops that hang, one sentence each. One that starts or has ended does not."""
        return [
            f"{_name(key)} has said nothing for {age_s:.0f} s"
            for key, told in self._told.items()
            if told is not None and told[0].role not in _OVER and (age_s := self._age_s(told[1])) > HUNG_S
        ]

    def unready(self) -> list[str]:
        """The ingresses that neither copy nor stand by, although their sources have not ended, one sentence each."""
        return [why for key in self.ingresses if (why := self._why_unready(key))]

    def _why_unready(self, key: IngressKey) -> str:
        told = self._told[key]
        if told is None or told[0].role is IngressRole.STARTING:
            why = told[0].detail if told is not None else ""
            return f"{_name(key)} is starting{f': {why}' if why else ''}"
        if told[0].role is IngressRole.STOPPED:
            return f"{_name(key)} has stopped{f': {told[0].detail}' if told[0].detail else ''}"
        age_s = 0.0 if told[0].role is IngressRole.ENDED else self._age_s(told[1])
        return f"{_name(key)} has said nothing for {age_s:.0f} s" if age_s > HUNG_S else ""

    def _age_s(self, heard_s: float) -> float:
        return self._clock() - heard_s


_OVER = (IngressRole.STOPPED, IngressRole.ENDED)
"""Roles of those that say nothing more."""


def _name(key: IngressKey) -> str:
    return f"ingress {key[1]} of {key[0]}"
