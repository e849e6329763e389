"""An app whose nodes have standbys, for tests that kill: a process for each replica index, rows that go on, and what
the corrected streams must hold by plain arithmetic."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import psutil

from borealis_py.api import publisher
from borealis_py.app import launch
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replica_health import all_compute
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.client.publisher import Publisher
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.clock import SystemClock
from borealis_py.log.messages import Status
from borealis_py.protocol.settings import Timing
from borealis_py.query import App
from tests.harness.launching import described
from tests.harness.statuses import Statuses
from tests.harness.waiting import PATIENCE_S, until

REPLICAS = (0, 1)
SOURCE, KEYS = "src", "abcdefg"
WINDOW_US, EVERY_US, BUCKET_US = 1_000_000, 200_000, 100_000
ROW_S = 0.01
Window = tuple[int, str]
"""Its start, and its key."""
Sums = dict[Window, tuple[int, int]]


def an_app(name: str, ways: Collection[str], guarantee: str | None = None) -> App:
    """One query for each way, all with the same sliding windows; a query has the name of its way, without hyphens.

    Args:
        guarantee: of each; None: the strongest that its way has.
    """
    it = App(name, bucket="100ms")
    source = it.source(SOURCE, schema={"key": "string", "n": "int64"})
    for way in ways:
        sums = source.window("1s", every="200ms").group_by("key").agg(n="count(*)", total="sum(n)")
        least = guarantee or ("gap" if way == "amnesia" else None)
        it.query(way.replace("-", ""), sums, "2s", replicas=len(REPLICAS), recovery=way, guarantee=least)
    return it


class RowsSent(threading.Thread):
    """Sends a row every `ROW_S` until `over`, each at the time at which it is sent. `rows`: stime -> key, number."""

    def __init__(self, to: Publisher) -> None:
        super().__init__(name="rows", daemon=True)
        self.over = threading.Event()
        self.rows: dict[int, tuple[str, int]] = {}
        self._to = to

    def run(self) -> None:
        number, at = 0, 0
        while not self.over.wait(ROW_S):
            at = max(at + 1, time.time_ns() // 1_000)
            key = KEYS[number * number % len(KEYS)]
            self._to.send({"key": key, "n": number}, at)
            self.rows[at] = key, number  # only what was sent is to be found
            number += 1

    def sums(self) -> Sums:
        """Count and sum of every window that has rows, of what was sent so far."""
        counts: Counter[Window] = Counter()
        totals: defaultdict[Window, int] = defaultdict(int)
        for at, (key, number) in dict(self.rows).items():
            last = at // EVERY_US * EVERY_US
            for start in range(last, at - WINDOW_US, -EVERY_US):
                counts[start, key] += 1
                totals[start, key] += number
        return {window: (n, totals[window]) for window, n in counts.items()}


class StandbyApp:
    """A described app and its processes.

    Args:
        data: where the checkpoints of each replica index lie. checkpoints: "kafka"; "": below `data`.
        host: of the replicas: "process" or "spark".
    """

    def __init__(
        self,
        bootstrap: str,
        app: App,
        work: Path,
        data: dict[int, Path] | None = None,
        checkpoints: str = "",
        host: str = "process",
    ) -> None:
        self.log, self.work = KafkaLog(bootstrap), work
        self.state = described(self.log, app, Timing(checkpoint_us=500_000))
        spec = self.state.spec
        self.queries = tuple(spec.queries)
        self.processes = ReplicaProcesses(work, spec.name)
        self._statuses = Statuses(self.log, spec.name)
        self._specs = {
            k: ProcessSpec(bootstrap, (data or {}).get(k, work), checkpoints=checkpoints, host=host) for k in REPLICAS
        }
        self._lookup = self.log.lookup()
        self._read: dict[str, tuple[list[Any], int]] = {}
        self.source = publisher(SOURCE, boundary="data", lateness="0s", app=spec.name, bootstrap=bootstrap)
        self.sending = RowsSent(self.source)

    def start(self, *replicas: int, take_over: bool = False) -> None:
        """Start those of these that do not run; returns when all of them are ready."""
        since_ms = SystemClock().wall_us() // 1_000
        pids: dict[ProcessName, int] = {}
        for k in replicas:
            pids |= launch.start_processes(
                self.state, self.processes, self._specs[k], [ProcessName(k)], take_over=take_over
            )
        launch.wait_ready(self.log, self.state, self.processes, pids, since_ms, timeout_s=PATIENCE_S)

    def process(self, replica: int) -> psutil.Process:
        return self.processes.running()[ProcessName(replica)]

    def kill(self, *replicas: int) -> None:
        """kill -9, all at once."""
        victims = [self.process(k) for k in replicas]
        for victim in victims:
            victim.kill()
        psutil.wait_procs(victims, PATIENCE_S)

    def read(self, topic: str) -> list[Any]:
        """All that is committed, decoded; what was read before is not read again."""
        found, next_offset = self._read.get(topic, ([], 0))
        end = self._lookup.bounds(Feed(topic))[1]
        if end > next_offset:
            records = self._lookup.read(Feed(topic), next_offset, end)
            found += [json.loads(record.value) for record in records if record.value is not None]
            self._read[topic] = found, end
        return found

    def statuses(self, query: str, replica: int) -> list[Status]:
        """What the incarnations of a replica have said, oldest first."""
        self._statuses.poll()
        return self._statuses.of(query, replica)

    def state_of(self, query: str, replica: int) -> str:
        """The newest that the process says which runs now; "": nothing yet."""
        pid = self.process(replica).pid
        said = [s.state for s in self.statuses(query, replica) if s.pid == pid]
        return said[-1] if said else ""

    def runner(self) -> int:
        """The index that runs most queries. On a busy machine a standby may take over from one that is only slow."""
        for query in self.queries:
            until(partial(self._one_runs, query), f"of {query} one replica runs and one stands by")
        return max(REPLICAS, key=lambda k: [self.state_of(query, k) for query in self.queries].count("STABLE"))

    def _one_runs(self, query: str) -> bool:
        return sorted(self.state_of(query, k) for k in REPLICAS) == ["STABLE", "STANDBY"]

    def _stood_by(self, query: str, replica: int, since_us: int) -> bool:
        return any(s.state == "STANDBY" and s.at_wall_us >= since_us for s in self.statuses(query, replica))

    def until_stood_by(self, replica: int, since_us: int) -> None:
        """Wait until it has stood by since then, for every query."""
        for query in self.queries:
            stood_by = partial(self._stood_by, query, replica, since_us)
            until(stood_by, f"replica {replica} of {query} stands by")

    def until_saved(self) -> None:
        """Wait until each query has checkpoints, of all replicas that compute, that are later than the first row by
        more than its windows: a start from them needs nothing of the source's beginning."""
        until(lambda: bool(self.sending.rows), "a row is sent")
        behind = min(dict(self.sending.rows)) // BUCKET_US + 2 * WINDOW_US // BUCKET_US

        def saved(query: str) -> bool:
            said = [self.statuses(query, k) for k in REPLICAS]
            there = [any(s.checkpoint_bucket > behind for s in of) for of in said]
            return all(there) if any(all_compute(s) for of in said for s in of) else any(there)

        until(lambda: all(map(saved, self.queries)), "each query has such checkpoints")

    def sums(self, query: str) -> tuple[Sums, int]:
        """What the corrected stream has, and how many rows it has beyond one a window."""
        rows = self.read(topics.stream(self.state.name, query))
        found = {(row["window_start"], row["key"]): (row["n"], row["total"]) for row in rows}
        return found, len(rows) - len(found)

    def goes_on(self) -> None:
        """Wait until each query has results of rows that were sent after now; all that it has must be right."""
        until(lambda: bool(self.sending.rows), "a row is sent")
        now = max(dict(self.sending.rows))
        wanted = now - now % EVERY_US + EVERY_US

        def there(query: str) -> bool:
            rows = self.read(topics.stream(self.state.name, query))
            return bool(rows) and rows[-1]["window_start"] >= wanted

        until(lambda: all(map(there, self.queries)), "results of rows that were sent after that")
        self.right()

    def right(self) -> None:
        """All windows up to the last that is there are as plain arithmetic has them, and each is there once."""
        for query in self.queries:
            found, more = self.sums(query)
            upto = max(start for start, _ in found)
            first = min(dict(self.sending.rows))
            lost = {bucket for first_, end in self.gaps(query) for bucket in range(first_, end)}
            wanted = {
                window: sums
                for window, sums in self.sending.sums().items()
                if window[0] <= upto and (window[0] + WINDOW_US - 1) // BUCKET_US not in lost
            }
            assert more == 0, f"{query}: {more} rows more than windows"
            assert found == wanted, f"{query}: {_differences(found, wanted, first)}"

    def gaps(self, query: str) -> list[tuple[int, int]]:
        """The lost buckets [first, end) that its progress names."""
        said = self.read(topics.progress(self.state.name, query))
        return [(one["first"], one["end"]) for one in said if "first" in one]

    def tentative(self) -> int:
        """How many tentative buckets anybody has said."""
        found = {
            (query, k, s.inc): s.tentative_buckets for query in self.queries for k in REPLICAS
            for s in self.statuses(query, k)
        }  # fmt: skip
        return sum(found.values())

    def close(self) -> None:
        self.sending.over.set()
        if self.sending.is_alive():
            self.sending.join(PATIENCE_S)
        self.processes.stop()
        self._statuses.close()
        self._lookup.close()


def _differences(found: Sums, wanted: Sums, first: int) -> str:
    missing, extra = wanted.keys() - found.keys(), found.keys() - wanted.keys()
    other = [window for window in wanted.keys() & found.keys() if wanted[window] != found[window]]
    example = [(w, found[w], wanted[w]) for w in sorted(other)[:3]]
    return (
        f"{len(missing)} missing {sorted(missing)[:3]}, {len(extra)} that should not be there {sorted(extra)[:3]}, "
        f"{len(other)} different {example}; the first row is of {first}"
    )


@contextmanager
def standing_by(app: StandbyApp, in_turn: bool = False) -> Iterator[StandbyApp]:
    """One replica of each query runs, one stands by, and rows come. `in_turn`: replica 0 is the one that runs."""
    try:
        for some in [[k] for k in REPLICAS] if in_turn else [REPLICAS]:
            app.start(*some)
        with app.source:
            app.sending.start()
            try:
                app.goes_on()
                yield app
            finally:
                app.sending.over.set()
                app.sending.join(PATIENCE_S)
    finally:
        app.close()
