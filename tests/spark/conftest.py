"""One Spark session for all tests of this folder: a process has one, and starting it takes seconds.

Tests that start one themselves are elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from borealis_py.runtime.spark.session import ReplicaSession
from tests.spark.settings import SETTINGS
from tests.support.bell import Bell


@pytest.fixture(scope="package")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSession]:
    """A running session, its workers not yet warm."""
    started = ReplicaSession.start_spark("tests", SETTINGS, tmp_path_factory.mktemp("spark") / "spark.log")
    yield started
    started.stop()


@pytest.fixture
def bell() -> Bell:
    return Bell()
