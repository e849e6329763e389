"""What people write into a topic from a shell: lines of JSON, by Kafka's own console producer and by kcat. They carry
no time, so the records' own timestamps count. Broker, replica and ingresses are real.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from borealis_py.kafka.errors import BrokerError
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed
from tests.cli.commands import Borealis, borealis  # noqa: F401  # a fixture
from tests.cli.foreign_topic import Topic
from tests.harness.readers import Results
from tests.harness.waiting import until
from tests.support import kafka_tools
from tests.support.right import exactly

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

APP = "typed"
TEXT = """
from borealis_py import App

app = App("typed")
lines = app.topic("lines", topic="TOPIC", schema={"n": "int64", "name": "string"}, lateness="15s")
app.query("all", lines.filter("n >= 0"), replicas=1)
"""
"""`lateness`: a console producer stamps rows before it has connected."""
NAMES = ("tea", "Käse", 'a "b" \\ c', "💧", "")


@pytest.fixture
def made(bootstrap: str, tmp_path: Path) -> Iterator[Topic]:
    """Of two partitions. It outlives the app."""
    with closing(Topic(bootstrap, f"prod.typed.{tmp_path.name}", 2)) as made:
        yield made


@pytest.fixture
def topic(made: Topic, run_app: Callable[[str, str], None]) -> Topic:
    """The app that reads it runs."""
    run_app(APP, TEXT.replace("TOPIC", made.name))
    return made


def dead_letters(bootstrap: str) -> list[tuple[str, bytes | None]]:
    """Why each is one, and what it was."""
    feed = Feed(topics.deadletter(APP))
    with closing(KafkaLog(bootstrap).lookup()) as lookup:
        found = list(lookup.read(feed, *lookup.bounds(feed)))
    return [(dict(letter.headers)["reason"].decode(), letter.value) for letter in found]


def write_lines(command: Sequence[str], bootstrap: str, borealis: Borealis) -> None:  # noqa: F811
    """Pipe lines into a program; each is to be one row, and what is no JSON a dead letter."""
    rows = [{"n": n, "name": NAMES[n % len(NAMES)]} for n in range(300)]
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    lines.insert(100, "no JSON")
    with closing(Results("all", APP, bootstrap)) as results:
        done = subprocess.run(
            command, input="\n".join(lines) + "\n", capture_output=True, encoding="utf-8", timeout=60, check=False
        )
        assert done.returncode == 0, done.stderr
        until(lambda: len(results.seen) >= len(rows), "each line is a row")
    with exactly():
        assert sorted((row.value for row in results.seen), key=lambda row: row["n"]) == rows
    until(lambda: dead_letters(bootstrap) != [], "what is no JSON is a dead letter")
    ((why, raw),) = dead_letters(bootstrap)
    assert (why.startswith("malformed: not JSON"), raw) == (True, b"no JSON"), why
    said = borealis("verify", "--app", APP)
    assert said.code == 0, said.out + said.err


def test_lines_of_kafkas_console_producer_are_rows(
    topic: Topic,
    bootstrap: str,
    borealis: Borealis,  # noqa: F811
) -> None:
    try:
        command = kafka_tools.console_producer(bootstrap, topic.name)
    except BrokerError as exc:
        pytest.skip(str(exc))
    write_lines(command, bootstrap, borealis)


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_lines_of_kcat_are_rows(
    topic: Topic,
    bootstrap: str,
    borealis: Borealis,  # noqa: F811
) -> None:
    write_lines(["kcat", "-P", "-b", bootstrap, "-t", topic.name], bootstrap, borealis)
