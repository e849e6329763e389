"""What tests of topics in a cluster of two brokers share. The app's own topics lie in the session's broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from borealis_py.app.state import StatusReader, read_app
from borealis_py.cli.main import main
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Log
from borealis_py.log.ingress_status import IngressRole
from tests.harness.broker import TwoBrokers
from tests.harness.waiting import until
from tests.harness.writers import Writer


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[TwoBrokers]:
    """Two brokers, `cluster="pair"` for apps of the test's directory, which is the current one."""
    found = TwoBrokers(tmp_path / "pair")
    try:
        (tmp_path / "borealis.yaml").write_text(f"clusters:\n  pair:\n    bootstrap: {found.bootstrap}\n")
        yield found
    finally:
        found.close()


def wait_copied(log: Log, app: str) -> None:
    """Until each source has an owner that has begun."""
    with closing(StatusReader(log, app)) as reader:

        def begun() -> set[str]:
            reader.poll()
            return {one.source for one in reader.ingresses.values() if one.role is IngressRole.OWNER and one.inputs}

        sources = set(read_app(log, app).spec.ingresses)
        until(lambda: begun() == sources, "all topics are copied")


@pytest.fixture
def run_app(tmp_path: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Starts an app of this name and text, without Spark, and waits until its topics are copied: what is written before
    an ingress has asked for their ends is not. It is stopped after the test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
    with ExitStack() as stack:

        def run(name: str, text: str) -> None:
            (tmp_path / "app.py").write_text(text)
            stack.callback(main, ["down", "--app", name])
            assert main(["up", "app.py", "--host", "process", "--reset", "--origin", "now"]) == 0
            wait_copied(KafkaLog(bootstrap), name)

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
