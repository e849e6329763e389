"""An app that begins in the middle of a topic that is being written. Broker, replica and ingresses are real."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from borealis_py.kafka.log import KafkaLog
from tests.cli.commands import Borealis, borealis  # noqa: F401  # a fixture
from tests.cli.foreign_topic import Topic, app_text
from tests.harness.readers import Results
from tests.harness.waiting import until

pytestmark = [pytest.mark.e2e, pytest.mark.broker]

APP, WINDOW_S, WINDOWS = "begun", 2, 3


class Writer:
    """Writes a row of one euro some times a second, until it is closed. `sent`: of each window that has begun, by its
    start in microseconds."""

    def __init__(self, topic: Topic) -> None:
        self.sent: Counter[int] = Counter()
        self._topic, self._stop = topic, threading.Event()
        self._thread = threading.Thread(target=self._write)
        self._thread.start()

    def _write(self) -> None:
        while not self._stop.wait(0.1):
            at = time.time_ns() // 1_000_000
            self.sent[at // (WINDOW_S * 1_000) * WINDOW_S * 1_000_000] += 1
            self._topic.send({"shop": "berlin", "euros": 1.0, "at": at})

    def close(self) -> None:
        self._stop.set()
        self._thread.join()


@pytest.fixture
def writing(bootstrap: str) -> Iterator[Writer]:
    with closing(Topic(bootstrap, f"prod.{APP}", 1)) as topic:
        until(lambda: KafkaLog(bootstrap).admin().partitions(topic.name) == 1, "clients see the topic")
        with closing(Writer(topic)) as writer:
            until(lambda: sum(writer.sent.values()) > 2, "rows are there")
            yield writer


def test_the_first_result_is_that_of_a_whole_window(
    writing: Writer,
    run_app: Callable[[str, str], None],
    bootstrap: str,
    borealis: Borealis,  # noqa: F811
) -> None:
    text = app_text(APP, f"prod.{APP}", lateness="20s").replace(
        '"1s"', f'"{WINDOW_S}s"'
    )  # no row of a busy machine late
    begun_us = time.time_ns() // 1_000
    run_app(APP, text)
    with closing(Results("sales", APP, bootstrap)) as results:
        until(lambda: len(results.seen) >= WINDOWS, "some windows are there")
        found = {row.value["window_start"]: round(row.value["euros"]) for row in results.seen}
    assert found == {start: writing.sent[start] for start in found}
    first = min(found)
    assert first >= begun_us
    assert found.keys() >= {first + n * WINDOW_S * 1_000_000 for n in range(WINDOWS)}
    said = borealis("verify", "--app", APP)
    assert said.code == 0, said.out + said.err
