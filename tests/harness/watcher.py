"""`python -m tests.harness.watcher`: the product's subscribers, both views, writing down what they see and when.

One JSON object a line: {"view", "saw": {at_us, kind, bucket, end, rows, lacked, index, partition}}, at the end
{"ended": view}.
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TextIO

from borealis_py.api import corrected, live
from borealis_py.app.state import read_app
from borealis_py.client.subscriber import Row
from borealis_py.kafka.log import KafkaLog
from tests.harness.processes import Process


class Watcher:
    """Such a process, and what its file shows so far. `partitions`: how many the query has."""

    def __init__(self, process: Process, history: Path, partitions: int = 1) -> None:
        self.process, self.history = process, history
        self.ended: set[str] = set()
        self._stable = [0] * partitions
        self._corrected = [0] * partitions
        self.live_until = [0] * partitions
        self.tentative: dict[int, tuple[str, ...]] = {}
        """What each tentative bucket lacked."""
        self._at = 0

    @property
    def stable_until(self) -> int:
        """All partitions' buckets below it were shown as stable."""
        return min(self._stable)

    @property
    def corrected_until(self) -> int:
        """Rows up to this bucket came of every partition."""
        return min(self._corrected)

    def look(self) -> None:
        """Read what it wrote since the last look."""
        if not self.history.exists():
            return
        with self.history.open("rb") as file:
            file.seek(self._at)
            whole, _, _ = file.read().rpartition(b"\n")
        self._at += len(whole) + bool(whole)
        for line in map(json.loads, whole.splitlines()):
            if "ended" in line:
                self.ended.add(line["ended"])
                continue
            saw = line["saw"]
            of = saw["partition"]
            if saw["kind"] == "TENTATIVE":
                self.tentative[saw["bucket"]] = tuple(saw["missing_sources"])
                self.live_until[of] = max(self.live_until[of], saw["end"])
            elif saw["kind"] in ("STABLE", "BOUNDARY"):
                self._stable[of] = max(self._stable[of], saw["end"])
                self.live_until[of] = max(self.live_until[of], saw["end"])
            elif saw["kind"] == "ROW":
                self._corrected[of] = max(self._corrected[of], saw["bucket"])


class Notebook:
    """A file that several threads write lines to."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def write(self, line: dict[str, Any]) -> None:
        with self._lock:
            self._file.write(json.dumps(line) + "\n")
            self._file.flush()


def live_lines(bootstrap: str, app: str, query: str) -> Iterator[dict[str, Any]]:
    log = KafkaLog(bootstrap)
    for c in live(log, read_app(log, app), query, True, threading.Event(), empty=True):
        what = {"kind": c.kind, "bucket": c.bucket, "end": c.end, "rows": c.rows, "missing_sources": c.missing_sources}
        yield {**what, "partition": c.partition}


def corrected_lines(bootstrap: str, app: str, query: str) -> Iterator[dict[str, Any]]:
    log = KafkaLog(bootstrap)
    for row in corrected(log, read_app(log, app), query, True, threading.Event()):
        assert isinstance(row, Row), f"a gap in a stream that is to have none: {row}"
        bucket, index = map(int, row.id.split(":"))
        what = {"kind": "ROW", "bucket": bucket, "end": bucket + 1, "rows": [row.value], "index": index}
        yield {**what, "partition": row.partition}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bootstrap", required=True)
    parser.add_argument("--app", required=True)
    parser.add_argument("--query", required=True)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    with args.out.open("w", encoding="utf-8") as file:
        notebook = Notebook(file)

        def follow(view: str, lines: Iterator[dict[str, Any]]) -> None:
            for line in lines:
                notebook.write({"view": view, "saw": {"at_us": time.time_ns() // 1000, **line}})
            notebook.write({"ended": view})

        where = args.bootstrap, args.app, args.query
        with ThreadPoolExecutor(2) as pool:
            list(pool.map(follow, ("live", "corrected"), (live_lines(*where), corrected_lines(*where))))


if __name__ == "__main__":
    main()
