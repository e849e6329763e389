"""Planted in what partitions of sources and nodes read and tell (PROTOCOL 4.6)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.simulation.cluster.builder import Builder
from borealis_py.simulation.runner.generator import parted
from borealis_py.simulation.runner.scenario import Scenario
from sunion.model import Input
from tests.simulation.planted.bug import SOURCES, Bug


def _parted(scenario: Scenario) -> Scenario:
    """Some sources and cut nodes lie in partitions."""
    return parted(random.Random(f"planted {scenario.seed}"), scenario)


def _every_partition_tells_dead_letters() -> Any:
    before = Builder.inputs

    def inputs(self: Builder, node: str) -> tuple[Input, ...]:
        return tuple(replace(of, dead_letters=True) for of in before(self, node))

    return mock.patch.object(Builder, "inputs", inputs)


def _a_source_lies_in_its_first_partition() -> Any:
    before = topics.input_feeds

    def input_feeds(app: str, of: Input) -> tuple[Feed, ...]:
        return before(app, of) if of.replicas else (Feed(topics.source(app, of.name).topic),)

    return mock.patch.object(topics, "input_feeds", input_feeds)


BUGS = (
    Bug(
        "of partitions that read one source the first tells its dead letters",
        "quality",
        _every_partition_tells_dead_letters,
        ("garbage", *SOURCES),
        ("dead letters", "input"),
        30,
        3,
        _parted,
        found=2,
    ),
    Bug(
        "partition i of a source lies in partition i of its topic",
        "safety",
        _a_source_lies_in_its_first_partition,
        SOURCES,
        ("stable", "hole", "convergence", "client", "exception", "availability"),
        12,
        2,
        _parted,
        found=1,
    ),
)
