"""Planted in what keeps two apps on one log apart: the names of topics and of transactional ids."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.node.spec import ReplicaSpec
from borealis_py.simulation.runner.generator import NEIGHBOURS
from borealis_py.simulation.scenario import Scenario
from tests.planted.bug import Bug
from tests.planted.worlds import SOURCES, Worlds


def _beside_another(scenario: Scenario) -> Scenario:
    return replace(scenario, neighbour=NEIGHBOURS[scenario.seed % len(NEIGHBOURS)])


def _writers_are_known_by_their_query() -> Any:
    return mock.patch.object(ReplicaSpec, "transactional_id", property(lambda spec: spec.node))


BUGS = (
    Bug(
        "R10 a writer is fenced by writers of its own app alone",
        "liveness",
        _writers_are_known_by_their_query,
        Worlds(SOURCES, ("convergence", "neighbour", "corrected", "end"), found=1, seeds=12, change=_beside_another),
    ),
)
