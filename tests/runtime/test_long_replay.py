"""A replay that takes longer than readers wait, on a real broker: upstream backup, a window of 5 minutes that is full,
X = 1 s, and kill -9 of who runs. Who reads another input, too, goes on tentatively, and corrects it later."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from borealis_py.api import publisher
from borealis_py.app import launch
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.state import AppState
from borealis_py.client.publisher import Publisher, wall_us
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.messages import Status, decode
from borealis_py.protocol.settings import Timing
from borealis_py.query import App
from tests.cli.commands import Borealis, borealis  # noqa: F401  # a fixture
from tests.support.running import until

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(400)]
SECOND_US = 1_000_000
HISTORY_S, RATE, KEYS = 310, 2_000, 100
"""So many seconds of so many rows a second are there when the app begins: its window is full."""
PATIENCE_S = 120.0
NODE, QUERY = "totals", "seen"


def an_app() -> App:
    it = App("long-replay", bucket="100ms")
    columns = {"key": "string", "n": "int64"}
    rows, others = (it.source(name, schema=columns) for name in ("rows", "others"))
    totals = rows.window("5m", every="1s").group_by("key").agg(n="count(*)").map(key="key", n="n")
    slow = totals.node(NODE, replicas=2, recovery="upstream-backup")
    counts = it.union(slow, others).window("1s").group_by("key").agg(rows="count(*)", n="sum(n)")
    it.query(QUERY, counts, "1s", replicas=2)
    return it


class Sending:
    """Publishes rows of both sources at their time, until its end, in a thread of the caller's."""

    def __init__(self, rows: Publisher, others: Publisher) -> None:
        self._to = {"rows": (rows, RATE), "others": (others, 10)}
        self._sent_us = 0

    def upto(self, first_us: int, end_us: int) -> None:
        """Send all rows of [first_us, end_us)."""
        for to, rate in self._to.values():
            every_us = SECOND_US // rate
            stimes = range(first_us, end_us, every_us)
            to.send_many(({"key": f"k{at // every_us % KEYS}", "n": 1} for at in stimes), stimes)
        self._sent_us = end_us

    def turn(self) -> None:
        """Send what is due."""
        now_us = wall_us() // 100_000 * 100_000
        if now_us > self._sent_us:
            self.upto(self._sent_us, now_us)


class Running:
    """The app, both of whose replicas run, and what it has said."""

    def __init__(self, state: AppState, log: KafkaLog, processes: ReplicaProcesses, sending: Sending) -> None:
        self.state, self.processes, self.sending = state, processes, sending
        self._lookup = log.lookup()

    def statuses(self, node: str, replica: int) -> list[Status]:
        feed = Feed(topics.status(self.state.name))
        records = self._lookup.read(feed, *self._lookup.bounds(feed))
        found = [decode(record.value or b"", Status) for record in records]
        return [status for status in found if (status.node, status.replica) == (node, replica)]

    def newest(self, node: str, replica: int) -> Status | None:
        found = self.statuses(node, replica)
        return found[-1] if found else None

    def until(self, node: str, replica: int, state: str, beyond_us: int = 0) -> Status:
        """Wait, while rows are sent, until a replica is in that state, stable up to that time."""
        return self._wait(f"{node}.r{replica} is {state}", lambda: self._is(node, replica, state, beyond_us))

    def until_one_runs(self, node: str, beyond_us: int) -> int:
        """Wait until one replica of a node is STABLE up to that time, and the other one stands by: on a busy machine
        either may have taken over. Returns its index."""

        def found() -> Status | None:
            for k in (0, 1):
                runs = self._is(node, k, "STABLE", beyond_us)
                if runs is not None and self._is(node, 1 - k, "STANDBY") is not None:
                    return runs
            return None

        return self._wait(f"one replica of {node} runs", found).replica

    def _is(self, node: str, replica: int, state: str, beyond_us: int = 0) -> Status | None:
        said = self.newest(node, replica)
        if said is None or said.state != state or said.f_s < beyond_us // self.state.spec.bucket_us:
            return None
        return said

    def _wait(self, what: str, find: Callable[[], Status | None]) -> Status:
        found: list[Status] = []

        def there() -> bool:
            self.sending.turn()
            found.extend(one for one in [find()] if one is not None)
            return bool(found)

        until(there, what, PATIENCE_S)
        return found[0]


@contextmanager
def running(bootstrap: str, work: Path) -> Iterator[Running]:
    log, spec = KafkaLog(bootstrap), an_app().describe()
    began_us = wall_us() // SECOND_US * SECOND_US - HISTORY_S * SECOND_US
    timing = Timing(checkpoint_us=500_000)
    state = launch.describe(log, spec, launch.check(spec, timing), str(began_us), wall_us(), timing)
    processes = ReplicaProcesses(work, spec.name)
    with ExitStack() as stack:
        stack.callback(processes.stop)
        sources = [
            stack.enter_context(publisher(name, boundary="data", lateness="0s", app=spec.name, bootstrap=bootstrap))
            for name in ("rows", "others")
        ]
        sending = Sending(*sources)
        sending.upto(began_us, began_us + HISTORY_S * SECOND_US)
        app = Running(state, log, processes, sending)
        for k in (0, 1):
            since_ms = wall_us() // 1_000
            how = ProcessSpec(bootstrap, work, host="process")
            pids = launch.start_processes(state, processes, how, [ProcessName(k)])
            launch.wait_ready(log, state, processes, pids, since_ms, timeout_s=PATIENCE_S)
        yield app


def test_what_takes_longer_than_x_is_tentative_then_corrected(
    bootstrap: str,
    tmp_path: Path,
    borealis: Borealis,  # noqa: F811
) -> None:
    with running(bootstrap, tmp_path) as app:
        now_us = wall_us()
        runs = app.until_one_runs(NODE, now_us)
        before = app.until(QUERY, 1 - runs, "STABLE", now_us).tentative_buckets

        app.processes.running()[ProcessName(runs)].kill()
        killed_us = wall_us()
        app.until(QUERY, 1 - runs, "UPSTREAM_FAILURE")
        app.until(NODE, 1 - runs, "STABLE", killed_us)
        after = app.until(QUERY, 1 - runs, "STABLE", killed_us + 2 * SECOND_US)
        assert after.tentative_buckets > before
        for command in (["verify", QUERY], ["audit", QUERY, "--no-spark"]):
            said = borealis(*command, "--app", app.state.name, "--bootstrap", bootstrap)
            assert said.code == 0, said.out + said.err
