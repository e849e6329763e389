"""The logs under contract. Another one is one more line in `LOGS` and a class like `worlds.MemoryWorld`."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import pytest

from tests.contract.worlds import LogWorld

LOGS = [
    pytest.param("tests.contract.worlds:MemoryWorld", id="memory"),
    pytest.param("tests.contract.worlds:InstantWorld", id="instant"),
    pytest.param("tests.contract.kafka_world:KafkaWorld", id="kafka", marks=pytest.mark.broker),
]


@pytest.fixture(params=LOGS)
def log_world(request: pytest.FixtureRequest) -> Iterator[LogWorld]:
    module, name = request.param.split(":")
    kind = getattr(import_module(module), name)  # only the chosen one is imported: memory needs no Kafka client
    world = kind(*(request.getfixturevalue(needed) for needed in kind.FIXTURES))
    yield world
    world.close()
