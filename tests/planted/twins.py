"""Planted in what two processes of one replica index say at once, even with one number (A3.3, B30)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.log.stream import StreamDecoder, _Part
from borealis_py.simulation.scenario import Scenario
from tests.planted.bug import Bug
from tests.planted.worlds import SOURCES, Worlds


def _unheard(scenario: Scenario) -> Scenario:
    """One replica a node; of twins one does not hear of the other for long."""
    nodes = tuple(replace(node, replicas=1) for node in scenario.nodes)
    faults = tuple(replace(f, detail="unheard") if f.kind == "twins" else f for f in scenario.faults)
    return replace(scenario, nodes=nodes, faults=faults, lost=())


def _parts_of_an_incarnation_belong_together() -> Any:
    def gathered(self: StreamDecoder, header: Any, payload: bytes, offset: int) -> Any:
        """As they come, from one that begins a bucket to one that ends it."""
        if header.parts == 1:
            return {header.part: _Part(header, payload, offset)}
        if header.part == 0:
            self._open[header.inc] = {}
        parts = self._open.get(header.inc, {})
        if (not parts and header.part > 0) or any(part.header.bucket != header.bucket for part in parts.values()):
            return {}
        parts[len(parts)] = _Part(header, payload, offset)
        if header.part + 1 < header.parts:
            return {}
        return dict.fromkeys(range(header.parts), _Part(header, b"", offset)) | parts

    def forget(self: StreamDecoder, said: Any) -> None:
        self._open.pop(said.inc, None)

    return mock.patch.multiple(StreamDecoder, _gathered=gathered, _forget=forget)


BUGS = (
    Bug(
        "A3 parts belong together whose headers agree",
        "safety",
        _parts_of_an_incarnation_belong_together,
        Worlds(
            ("twins", *SOURCES),
            ("client", "exception", "stable", "hole", "label", "content", "convergence"),
            found=9,
            seeds=60,
            change=_unheard,
        ),
    ),
)
