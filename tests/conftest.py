"""What all tests share: one real Kafka broker a session, started when the first test asks for it."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import HealthCheck, settings

from borealis_py.kafka.broker import LocalBroker
from borealis_py.log import unreadable
from tests.examples import examples
from tests.harness.broker import started
from tests.support import strict, whole_run
from tests.support.wheel import build
from tests.tiers import plugin
from tests.tiers.plugin import (  # noqa: F401  hooks
    pytest_ignore_collect,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
)

# The same examples every time, so that a red run is red again: in a rotation those of its seed, which pytest is given.
# BOREALIS_EXPLORE=1 draws new ones. How fast an example is drawn or runs depends on what else the machine does.
anyhow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("fixed", anyhow, derandomize=True, max_examples=examples(100))
settings.register_profile("rotation", anyhow, database=None, max_examples=examples(100))
settings.register_profile("explore", anyhow)
explores, rotates = os.environ.get("BOREALIS_EXPLORE"), plugin.rotation() is not None
settings.load_profile("explore" if explores else "rotation" if rotates else "fixed")

# A shell has what it runs in the background ignore Ctrl-C, and whatever that starts would ignore it, too.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Tests start some 40 JVMs for Spark, none of which lives long enough for the second compiler to be worth its time.
for name in ("SPARK_LAUNCHER_OPTS", "SPARK_SUBMIT_OPTS"):
    os.environ.setdefault(name, "-XX:TieredStopAtLevel=1")


@pytest.fixture(autouse=True)
def logs_as_installed() -> Iterator[None]:
    """A command that a test runs in this process sets what is logged: not for the tests after it."""
    yield
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def nothing_ignored() -> None:
    """What another test's readers could not read is logged again where it lies in this one's log."""
    unreadable.forget()


@pytest.fixture(autouse=True)
def unknown_fields_refused(request: pytest.FixtureRequest) -> Iterator[None]:
    """Unless the test has the mark `later_version`: it is about fields that the product does not know and ignores."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("later_version") is None:
            strict.refuse_unknown(patch)
        yield


@pytest.fixture(autouse=True)
def modules_as_installed() -> Iterator[None]:
    """What a replica's process does without (`runtime/lean_imports.py`), others may want."""
    before = list(sys.meta_path)
    yield
    sys.meta_path[:] = before


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a wheel installs, in a directory of its own."""
    return build(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    """A running broker on a port of the system's choice; topics are to have names that no other test uses."""
    with started(tmp_path_factory.mktemp("broker")) as local:
        yield local


@pytest.fixture(scope="session")
def bootstrap(broker: LocalBroker) -> str:
    """Where that broker listens."""
    return broker.bootstrap


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--rewrite", action="store_true", help="write what transcripts print now into tests/testdata")
    plugin.add_options(parser)


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Transcripts are to be written anew, not compared."""
    return bool(request.config.getoption("--rewrite"))


def pytest_configure(config: pytest.Config) -> None:
    """kafka-python reads its own resources in a way that Python 3.11 calls deprecated."""
    plugin.register(config)
    whole_run.register(config)
    config.addinivalue_line("filterwarnings", "ignore:(read|open)_text is deprecated:DeprecationWarning")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Marks, and the tests of the tier and the rotation."""
    plugin.select(config, items)
