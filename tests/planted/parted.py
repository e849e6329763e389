"""Planted in what partitions of sources and nodes read and tell (A6)."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any
from unittest import mock

from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.simulation.cluster.builder import Builder
from borealis_py.simulation.runner.generator import parted
from borealis_py.simulation.scenario import Scenario
from sunion.model import Input
from tests.planted.bug import Bug
from tests.planted.worlds import SOURCES, Worlds


def _parted(scenario: Scenario) -> Scenario:
    """Some sources and cut nodes lie in partitions."""
    return parted(random.Random(f"planted {scenario.seed}"), scenario)


def every_reader_tells_dead_letters() -> Any:
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
        "A6 of partitions that read one source the first tells its dead letters",
        "quality",
        every_reader_tells_dead_letters,
        Worlds(("garbage", *SOURCES), ("dead letters", "input"), found=2, seeds=30, nodes=3, change=_parted),
    ),
    Bug(
        "A6 partition i of a source lies in partition i of its topic",
        "safety",
        _a_source_lies_in_its_first_partition,
        Worlds(
            SOURCES,
            ("stable", "hole", "convergence", "client", "exception", "availability"),
            found=1,
            seeds=12,
            nodes=2,
            change=_parted,
        ),
    ),
)
