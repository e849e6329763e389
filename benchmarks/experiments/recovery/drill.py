"""Kills the replica of a node that runs, and watches what a reader of a query's live view sees of it."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from statistics import median

import psutil

from benchmarks.experiments.recovery.apart import SETTLE_S, Apart
from benchmarks.experiments.recovery.cases import ACTIVE, WayStills
from benchmarks.measure.gaps import ENOUGH, Kill, longest, spacings
from borealis_py.app.replicas import ProcessName
from borealis_py.app.state import StatusReader
from borealis_py.bench import events
from borealis_py.bench.figures import BenchError
from borealis_py.log import topics
from borealis_py.log.clock import SystemClock
from borealis_py.log.messages import Status
from borealis_py.query.recovery import RecoveryWay
from borealis_py.verify.kafka_reader import read_all
from tests.harness.readers import LiveListener
from tests.harness.staging import wait

QUIET_S = 1.2
"""Undisturbed time before each kill, at least, in which ordinary spacings are measured."""
WATCH_S = 1.5
FLOWS_S, FLOWS = 0.6, 4
"""The stream flows again when so many arrivals are in so many seconds."""
OVER_S = 60.0
REPLICAS = 2


class Drill:
    """The kills of one node's replicas, and the reader of one query's live view."""

    def __init__(self, app: Apart, way: RecoveryWay, node: str, query: str, window_s: int, stack: ExitStack) -> None:
        """`way`, `window_s`: of the node, which is the query or read by it. `stack`: ends the readers."""
        self.window_s = window_s
        self.query = query
        self._app = app
        self._way = way
        self._node = node
        self._clock = SystemClock()
        self._rng = random.Random(window_s)
        self._kills: list[Kill] = []
        stop = threading.Event()
        state, log = app.running.state, app.stage.log
        self._reader = LiveListener(f"live view of {query}", log, state, query, stop)
        self._statuses = StatusReader(log, state.name, app.running.started_ms)
        stack.callback(self._statuses.close)
        self._reader.start()
        stack.callback(self._reader.join, 10)
        stack.callback(stop.set)

    def kill(self, number: int) -> None:
        """Kill the replica that runs, watch until the stream flows again, and start it as a standby.

        Raises:
            BenchError: the stream does not flow, before or after. LaunchError: the replica does not start again.
        """
        runner, quiet = self._undisturbed(number)
        name = ProcessName(runner, self._node)
        process, at = psutil.Process(self._app.running.pids[name]), self._clock.now_us()
        process.kill()
        time.sleep(WATCH_S)
        wait(self._flows, OVER_S, f"{name} was killed, and the live view stands still")
        self._kills.append(Kill(quiet, at, self._clock.now_us()))
        self._app.start_again(name)

    def settle(self) -> None:
        """Wait until the node and the query have caught up with now, and the stream flows. Raises BenchError: it takes
        too long."""
        now_us, bucket_us = self._clock.wall_us(), self._app.running.state.spec.bucket_us

        def caught_up() -> bool:
            ready = self._is_ready(self._way is ACTIVE)
            runs = [s for node in {self._node, self.query} for s in self._said(node) if s and s.state == "STABLE"]
            return ready and all(said.f_s > now_us // bucket_us for said in runs) and self._flows()

        wait(caught_up, SETTLE_S, f"{self._node} does not catch up")

    @property
    def tentative(self) -> int:
        """Buckets that the live view has shown tentatively so far."""
        return self._reader.tentative

    def figures(self, predicted_s: float) -> WayStills:
        """Of all kills so far. Raises CannotRead, BenchError."""
        times = self._reader.times
        ordinary = [us for kill in self._kills for us in spacings(times, kill.quiet, kill.at)]
        if not ordinary:
            raise BenchError(f"{self.query}: nothing arrived before the kills")
        usual = median(ordinary)
        rows, repeated, missing = read_back(self._app.stage.log.bootstrap, topics.stream(self._app.name, self.query))
        return WayStills(
            way=self._way.value,
            window_s=self.window_s,
            stills_s=[max(0.0, longest(times, k.at, k.until) - usual) / 1e6 for k in self._kills],
            quiet_s=[max(0.0, max(spacings(times, k.quiet, k.at), default=0) - usual) / 1e6 for k in self._kills],
            spacing_s=usual / 1e6,
            predicted_s=predicted_s,
            tentative=self._reader.tentative,
            rows=rows,
            repeated=repeated,
            missing=missing,
        )

    def _flows(self) -> bool:
        self._app.check()
        if self._reader.error is not None:
            raise BenchError(self._reader.error)
        now = self._clock.now_us()
        return len(spacings(self._reader.times, now - round(FLOWS_S * 1e6), now)) >= FLOWS

    def _undisturbed(self, number: int) -> tuple[int, int]:
        """Who runs, and since when the stream has flowed with nobody taking over."""
        while True:
            runner, quiet = self._runner(number), self._clock.now_us()
            time.sleep(QUIET_S + self._rng.random() / 10)  # kills fall anywhere in a bucket
            wait(partial(self._enough, quiet), OVER_S, f"{self.query}: the live view stands still")
            if self._is_ready(self._way is ACTIVE) and self._states(self._node)[runner] == "STABLE":
                return runner, quiet

    def _enough(self, since: int) -> bool:
        self._app.check()
        return len(spacings(self._reader.times, since, self._clock.now_us())) >= ENOUGH

    def _runner(self, number: int) -> int:
        """Who runs, once the others stand by; where all run, each in turn."""
        active = self._way is ACTIVE
        wait(lambda: self._is_ready(active) and self._flows(), SETTLE_S, f"{self._node} is not ready")
        return number % REPLICAS if active else self._states(self._node).index("STABLE")

    def _is_ready(self, active: bool) -> bool:
        """Whether replicas of the node all run, or one runs and one stands by; and whether all of its reader's run."""
        self._statuses.poll()
        ready = sorted(self._states(self._node)) == ["STABLE", "STABLE" if active else "STANDBY"]
        return ready and (self._node == self.query or self._states(self.query) == ["STABLE"] * REPLICAS)

    def _states(self, node: str) -> list[str]:
        """Of the replicas of a node; "": not known."""
        return ["" if said is None else said.state for said in self._said(node)]

    def _said(self, node: str) -> list[Status | None]:
        """What replicas of a node last said; None: nothing since they were started."""
        pids = self._app.running.pids
        now = [self._statuses.newest.get((node, k)) for k in range(REPLICAS)]
        return [said if said and said.pid == pids[ProcessName(k, node)] else None for k, said in enumerate(now)]


def read_back(bootstrap: str, topic: str) -> tuple[int, int, int]:
    """Rows of a corrected stream, how many are there twice, and how many windows of customers are not there between the
    first and the last. Reads with kafka-python. Raises CannotRead."""
    return counted_windows([json.loads(record.value or b"null") for record in read_all(bootstrap, topic)])


def counted_windows(rows: Sequence[Mapping[str, object]]) -> tuple[int, int, int]:
    """The same of rows that were read. The first second has no row of some customers."""
    times: Counter[int] = Counter(int(str(row["window_start"])) for row in rows)
    once = {(row["window_start"], row["customer"]) for row in rows}
    full = [start for start, n in times.items() if n >= events.CUSTOMERS]
    if not full:
        return len(rows), len(rows) - len(once), 0
    wanted = range(min(full), max(times), events.WINDOW_US)
    missing = sum(max(0, events.CUSTOMERS - times[start]) for start in wanted)
    return len(rows), len(rows) - len(once), missing
