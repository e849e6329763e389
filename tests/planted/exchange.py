"""Planted in streams that are written in a partition for each of their readers' (A6.2)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.node import peers
from borealis_py.node.output_writer import OutputWriter
from borealis_py.node.spec import ReplicaSpec
from borealis_py.simulation.scenario import Scenario
from borealis_py.simulation.toy_query import ToyKernel
from sunion.model import StableBucket, StableRange
from tests.planted.bug import Bug
from tests.planted.worlds import SOURCES, Worlds


def _in_partitions(scenario: Scenario) -> Scenario:
    """Every node but the query writes in two."""
    *cut, query = scenario.nodes
    return replace(scenario, nodes=(*(replace(node, exchange=2) for node in cut), query))


def _pairs_in_partitions(scenario: Scenario) -> Scenario:
    """Two replicas of each besides, that take over each other's checkpoints."""
    two = _in_partitions(scenario)
    return replace(two, nodes=tuple(replace(node, replicas=2) for node in two.nodes), lost=())


def _letters_everywhere() -> Any:
    before = OutputWriter._divided

    def divided(self: OutputWriter, record: Any) -> Any:
        parts = before(self, record)
        if not isinstance(record, StableBucket):
            return parts
        return [replace(p, output=replace(p.output, rejects=record.output.rejects)) for p in parts]

    return mock.patch.object(OutputWriter, "_divided", divided)


def _empty_buckets_are_the_first_ones_business() -> Any:
    before = OutputWriter._divided

    def divided(self: OutputWriter, record: Any) -> Any:
        if isinstance(record, StableRange):
            return [record] * len(self._encoders) if record.end % 7 else [record, *[replace(record, end=record.first)]]
        return before(self, record)

    return mock.patch.object(OutputWriter, "_divided", divided)


def _divided_by_place() -> Any:
    def divide(self: ToyKernel, rows: Any, by: Any, count: int) -> Any:
        return [list(rows[index::count]) or None for index in range(count)]

    return mock.patch.object(ToyKernel, "divide", divide)


def _only_the_first_partition_of_a_peer() -> Any:
    before = peers.said_by

    def said_by(spec: ReplicaSpec, replicas: Any, *rest: Any) -> Any:
        return before(replace(spec, exchange=None), replicas, *rest)

    return mock.patch.object(peers, "said_by", said_by)


WRONG = ("stable", "hole", "convergence", "exception", "client")
BUGS = (
    Bug(
        "A6 dead letters go to the first partition",
        "quality",
        _letters_everywhere,
        Worlds(SOURCES, ("dead letters", "input"), found=1, seeds=30, nodes=2, change=_in_partitions),
    ),
    Bug(
        "A6 empty buckets are told to every partition",
        "safety",
        _empty_buckets_are_the_first_ones_business,
        Worlds(SOURCES, WRONG, found=2, seeds=30, nodes=2, change=_in_partitions),
    ),
    Bug(
        "A6 rows fall by their key",
        "safety",
        _divided_by_place,
        Worlds(SOURCES, WRONG, found=1, seeds=12, nodes=2, change=_in_partitions),
        scene="partitions",
    ),
    Bug(
        "A6 what a peer said is read in every partition",
        "safety",
        _only_the_first_partition_of_a_peer,
        Worlds(SOURCES, WRONG, found=7, seeds=60, nodes=2, change=_pairs_in_partitions),
    ),
)
