"""What tests of topics in a cluster of two brokers share. The app's own topics lie in the session's broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from borealis_py.cli.main import main
from tests.support.two_brokers import TwoBrokers
from tests.support.writers import Writer


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[TwoBrokers]:
    """Two brokers, `cluster="pair"` for apps of the test's directory, which is the current one."""
    found = TwoBrokers(tmp_path / "pair")
    try:
        (tmp_path / "borealis.yaml").write_text(f"clusters:\n  pair:\n    bootstrap: {found.bootstrap}\n")
        yield found
    finally:
        found.close()


@pytest.fixture
def run_app(tmp_path: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Starts an app of this name and text, without Spark; it is stopped after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    with ExitStack() as stack:

        def run(name: str, text: str) -> None:
            (tmp_path / "app.py").write_text(text)
            stack.callback(main, ["down", "--app", name])
            assert main(["up", "app.py", "--host", "process", "--reset", "--origin", "now"]) == 0

        yield run


@pytest.fixture
def write(pair: TwoBrokers) -> Iterator[Callable[[str, str], Writer]]:
    """Starts a program that writes rows of a kind into a topic of two partitions; what still runs is killed."""
    with ExitStack() as stack:

        def start(topic: str, kind: str) -> Writer:
            writer = Writer(pair.bootstrap, topic, 2, kind)
            stack.callback(writer.kill)
            return writer

        yield start
