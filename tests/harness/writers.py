"""Plain programs that write JSON, and what lies in their topics, read by a client that the product does not use."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from tests.harness.waiting import PATIENCE_S

PROGRAM = Path(__file__).with_name("json_writer.py")


class Writer:
    """A process of `json_writer.py`. `acknowledged`: the ids that the broker has, as far as it was told."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, kind: str) -> None:
        self.acknowledged: list[int] = []
        what = [bootstrap, topic, str(partitions), kind]
        self._process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *what], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.endswith("\n"):  # one that was killed may have printed half of it
                self.acknowledged.append(int(line))

    def kill(self) -> None:
        """kill -9."""
        self._process.kill()
        self._ended()

    def close(self) -> None:
        """Write what there is, and no more. Raises AssertionError: the broker did not take it."""
        self._process.send_signal(signal.SIGTERM)
        code = self._ended()
        assert code == 0, f"the writer ended with {code}"

    def _ended(self) -> int:
        code = self._process.wait(PATIENCE_S)
        self._thread.join()
        return code


def lying_in(bootstrap: str, topic: str, partitions: int) -> list[dict[str, Any]]:
    """All rows of a topic, partition by partition."""
    from kafka import KafkaConsumer, TopicPartition  # warns, and a conftest is loaded before pytest knows of that

    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap, enable_auto_commit=False, consumer_timeout_ms=int(1000 * PATIENCE_S)
    )
    try:
        all_of = [TopicPartition(topic, p) for p in range(partitions)]
        ends = {tp: end for tp, end in consumer.end_offsets(all_of).items() if end > 0}
        consumer.assign(list(ends))
        consumer.seek_to_beginning()
        rows = []
        while any(consumer.position(tp) < end for tp, end in ends.items()):
            rows += [json.loads(r.value) for records in consumer.poll(1_000).values() for r in records]
        return rows
    finally:
        consumer.close()
