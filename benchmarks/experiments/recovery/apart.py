"""An app with a process for each replica of each node, so that a kill hits one, and with publishers of its sources."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec

from benchmarks.experiments.recovery.cases import PASSIVE, UPSTREAM
from borealis_py.app import launch
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Running, Stage, end
from borealis_py.client.publisher import wall_us
from borealis_py.log.clock import SystemClock
from borealis_py.node.checkpoint_topic import KAFKA
from borealis_py.query import App
from borealis_py.query.recovery import RecoveryWay
from tests.harness.event_feeders import SOURCES, Feeders, FeedPlan
from tests.harness.staging import start_again

LEAD_S = 2
SETTLE_S = 120.0
LOOK_S = 0.05


def checkpoints_of(way: RecoveryWay) -> str:
    """Where replicas leave what another one begins with: in Kafka, as on machines that share nothing; those of the
    other ways begin with their own."""
    return KAFKA if way in (PASSIVE, UPSTREAM) else ""


class Apart:
    """The app, running; its sources are s0, s1 and s2."""

    def __init__(self, stage: Stage, app: App, names: Sequence[ProcessName], way: RecoveryWay, since_s: int) -> None:
        """Start it, ready but without rows. The arguments are those of `apart`. Raises LaunchError, BenchError."""
        self.stage = stage
        self._t0 = math.ceil(wall_us() / 1e6) - since_s
        state = stage.describe(app, origin=str(self._t0 * 1_000_000) if since_s else "now")
        processes = ReplicaProcesses(stage.work, state.name)
        self._spec = msgspec.structs.replace(
            ProcessSpec.unconfigured(stage.log, stage.work), checkpoints=checkpoints_of(way)
        )
        stage.endings.callback(processes.stop)
        pids = launch.start_processes(state, processes, self._spec, names)
        self.running = Running(state, processes, pids, SystemClock().wall_us() // 1000)
        stage.wait_ready(self.running)
        self._since_s = since_s
        self._feeders = Feeders(stage, state.name)
        self._feeders.wait_ready()

    @property
    def name(self) -> str:
        return self.running.state.name

    def publish(self, rate: int, seconds: int) -> float:
        """Begin: `rate` rows a second of all sources, for so many seconds from now on. Returns the first row's time, in
        seconds since 1970."""
        t0 = self._t0 if self._since_s else math.ceil(wall_us() / 1e6) + LEAD_S
        lasting = seconds + self._since_s
        self._feeders.begin(FeedPlan(rate=round(rate / SOURCES), t0_us=t0 * 1_000_000, seconds=lasting))
        return float(t0)

    def check(self) -> None:
        """Raises BenchError: a publisher has ended."""
        for name, process in self._feeders.processes.items():
            if process.poll() is not None:
                raise BenchError(f"the publisher has ended; see {name}.log")

    def start_again(self, name: ProcessName) -> None:
        """Start a process that was killed, and wait until it is ready. Raises LaunchError, BenchError."""
        start_again(self.stage, self.running, name, SETTLE_S, self._spec)

    def topics(self) -> list[str]:
        """Names of the app's topics."""
        admin = self.stage.log.admin()
        try:
            return [name for name in admin.topics() if name.startswith(f"{self.name}.")]
        finally:
            admin.close()

    def end(self) -> None:
        for process in self._feeders.processes.values():
            end(process)
        self.running.processes.stop()
        self.stage.forget(self.running.state)


@contextmanager
def apart(stage: Stage, app: App, names: Sequence[ProcessName], way: RecoveryWay, since_s: int = 0) -> Iterator[Apart]:
    """Such an app, whose topics are deleted in the end.

    Args:
        names: of its processes. way: decides where checkpoints lie.
        since_s: rows begin so many seconds before now, and those of the past are published at once; 0: in a moment.

    Raises:
        LaunchError: a replica did not start. BenchError: a publisher did not.
    """
    made = Apart(stage, app, names, way, since_s)
    try:
        yield made
    finally:
        made.end()
