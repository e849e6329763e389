"""A topic of other programs that gets more partitions while an app reads it. Broker, replica and ingresses are real."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed
from tests.cli.commands import Borealis, borealis, status  # noqa: F401  # a fixture
from tests.cli.foreign_topic import Topic, app_text
from tests.harness.readers import Results
from tests.harness.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

APP, SOON_S = "growing", 100.0
"""`SOON_S`: Kafka's client learns of new partitions by itself after 5 minutes."""
LATENESS = "10s"
CENTS = (100, 20, 3)
"""Of each row, by its partition."""


@pytest.fixture
def made(bootstrap: str) -> Iterator[Topic]:
    """Of one partition. It outlives the app."""
    with closing(Topic(bootstrap, f"prod.{APP}", 1)) as made:
        until(lambda: KafkaLog(bootstrap).admin().partitions(made.name) == 1, "clients see the topic")
        yield made


@pytest.fixture
def topic(made: Topic, run_app: Callable[[str, str], None]) -> Topic:
    """The app that reads it runs."""
    run_app(APP, app_text(APP, made.name).replace("500ms", LATENESS))
    return made


def send(topic: Topic, partition: int, sent: dict[int, int]) -> None:
    """One row of now. `sent`: cents by the window's start in microseconds."""
    at = time.time_ns() // 1_000_000
    topic.send({"shop": "berlin", "euros": float(CENTS[partition]), "at": at}, partition=partition)
    window = at // 1_000 * 1_000_000
    sent[window] = sent.get(window, 0) + CENTS[partition]


def found(results: Results) -> dict[int, int]:
    """What the corrected stream says, in the form of `sent`. Fails if a window is there twice."""
    rows = [row.value for row in results.seen]
    assert len({row["window_start"] for row in rows}) == len(rows)
    return {row["window_start"]: int(row["euros"]) for row in rows}


def owned(borealis: Borealis) -> list[list[tuple[int, int, str]]]:  # noqa: F811
    """Late and dead rows of each input since its owner began, and why it is missing; by owner."""
    owners = (one for one in status(borealis, APP)["ingresses"] if one["running"] and one["role"] == "owner")
    return [[(i["late"], i["dead"], i["missing"]) for i in one["inputs"]] for one in owners]


def test_rows_of_a_partition_that_came_while_the_app_ran_are_results_soon(
    topic: Topic,
    bootstrap: str,
    borealis: Borealis,  # noqa: F811
) -> None:
    sent: dict[int, int] = {}
    with closing(Results("sales", APP, bootstrap)) as results:
        send(topic, 0, sent)
        until(lambda: found(results) == sent, "the row of the first partition is a result")
        topic.grow(3)
        for partition in (2, 0, 1, 2):
            send(topic, partition, sent)
        until(lambda: found(results) == sent, "the rows of the new partitions are results", SOON_S)
        send(topic, 1, sent)
        until(lambda: found(results) == sent, "the topic goes on", SOON_S)
    with closing(KafkaLog(bootstrap).lookup()) as lookup:
        assert lookup.bounds(Feed(topics.deadletter(APP))) == (0, 0)
    until(lambda: owned(borealis) == [[(0, 0, "")]], "one ingress copies, and nothing is missing")
    said = borealis("verify", "--app", APP)
    assert said.code == 0, said.out + said.err
