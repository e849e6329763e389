"""Planted in one replica's kernel: its bits are not those of the others (R15)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.protocol.manager import Manager
from borealis_py.simulation.scenario import Scenario
from sunion.model import Output
from tests.planted.bug import Bug
from tests.planted.worlds import Worlds


class _OtherBits:
    """A fragment whose rows have one bit that the true one's have not."""

    def __init__(self, fragment: Any) -> None:
        self._fragment = fragment

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fragment, name)

    def step(self, *arguments: Any) -> tuple[Any, Mapping[int, Output]]:
        state, outputs = self._fragment.step(*arguments)
        return state, {b: replace(o, rows=o.rows and [_flipped(row) for row in o.rows]) for b, o in outputs.items()}


def _flipped(row: Any) -> Any:
    return (*row[:-1], row[-1] ^ 1)


def _one_kernel_differs() -> Any:
    before = Manager.__init__

    def init(self: Manager, *config: Any, **more: Any) -> None:
        before(self, *config, **more)
        if self.identity.replica == 1:
            self._fragment = _OtherBits(self._fragment)

    return mock.patch.object(Manager, "__init__", init)


def _two_replicas(scenario: Scenario) -> Scenario:
    """So that there is one to compare with, and nothing else happens to them."""
    return replace(scenario, nodes=tuple(replace(node, replicas=2) for node in scenario.nodes), faults=(), lost=())


BUGS = (
    Bug(
        "R15 all replicas compute the same bits",
        "safety",
        _one_kernel_differs,
        Worlds((), ("diverged",), found=1, seeds=3, change=_two_replicas),
    ),
)
