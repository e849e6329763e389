"""Kills the ingress that copies a topic, again and again, while a producer writes it, and counts what that costs."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack, closing

import psutil

from benchmarks.ingress import apps
from benchmarks.ingress.figures import KilledFigures
from benchmarks.ingress.writer import TopicWriter
from benchmarks.measure.failover import read_back
from borealis_py.app.replicas import ProcessName
from borealis_py.app.state import StatusReader
from borealis_py.bench.console import Bars
from borealis_py.bench.stage import Running, Stage
from borealis_py.client.publisher import wall_us
from borealis_py.log import topics
from borealis_py.log.ingress_status import IngressRole
from tests.harness.readers import Heard, Hearing
from tests.harness.staging import start_again, wait

RATE = 200
"""Rows a second: some in every bucket."""
TAKEOVER_S, READY_S, END_S = 20.0, 60.0, 60.0
LOOK_S = 0.05
AFTER_US = 500_000
"""Results flow again when the live view speaks for a bucket that begins so long after the other took over."""


def measure(stage: Stage, kills: int, bars: Bars) -> KilledFigures:
    """One app, whose owner is killed `kills` times, and started again before the next kill.

    Raises:
        BenchError: nobody took over, or the results do not come.
        LaunchError: a process did not start.
        CannotRead: the corrected stream cannot be read back.
    """
    name, topic = "ingress-killed", "ingress-killed-plain"
    bars.say("kills: starting 2 replicas and 2 ingresses")
    apps.create(stage, topic, appended=True)
    running = stage.start_replicas(stage.describe(apps.numbered(name, topic)))
    stage.wait_ready(running)
    with ExitStack() as stack:
        hearing = stack.enter_context(Hearing(stage.log, running.state, apps.PLAIN, statuses=False))
        writer = TopicWriter(stage, topic, "numbered", RATE)
        drill = stack.enter_context(closing(_Drill(stage, running, hearing, writer)))
        wait(lambda: drill.speaks_for(wall_us() - 2 * AFTER_US), END_S, "no results come")
        with bars.bar(f"{kills} kills of an ingress", kills) as at:
            for n in range(kills):
                drill.kill()
                at(n + 1)
        sent = writer.stop()

        def came() -> bool:
            late.update({letter.offset for letter in stage.read(topics.deadletter(name))})
            return len({row.id for _, row in hearing.got}) + len(late) >= sent

        late = set[int]()
        wait(came, END_S, f"not all of {sent} rows came")
    running.processes.stop()
    content = read_back(stage.log.bootstrap, topics.stream(name, apps.PLAIN))
    stage.forget(running.state)
    stage.delete([topic])
    left = max(content.missing, sent - content.rows + content.repeated) - len(late)  # below 0: some are in both
    tentative = [change for since, end in drill.times for change in tentative_of(hearing.heard, since, end)]
    return KilledFigures(
        gaps_ms=[gap_us(hearing.heard, since, end) / 1e3 for since, end in drill.times],
        with_tentative=sum(bool(tentative_of(hearing.heard, since, end)) for since, end in drill.times),
        unlabelled=sum(not labelled for labelled in tentative),
        sent=sent,
        rows=content.rows,
        repeated=content.repeated + max(0, -left),
        missing=max(0, left),
        late=len(late),
    )


def gap_us(heard: Heard, since_us: int, until_us: int) -> int:
    """The longest time in which the live view got no further, wall microseconds, around a kill.

    Args:
        since_us: of the kill. until_us: results flow again.
    """
    furthest, last, longest = 0, 0, 0
    for wall, change in heard:
        if change.end <= furthest or change.kind in ("UNDO", "REC_DONE"):
            continue
        furthest = change.end
        if last and wall >= since_us and last <= until_us:
            longest = max(longest, wall - last)
        last = wall
    return longest


def tentative_of(heard: Heard, since_us: int, until_us: int) -> list[bool]:
    """Of each tentative change in that time: whether it names what it lacks."""
    found = [change for wall, change in heard if since_us <= wall < until_us and change.kind == "TENTATIVE"]
    return [bool(change.missing_sources) for change in found]


class _Drill:
    """The app under test. `times`: of each kill, when it was and when the killed process was ready again."""

    def __init__(self, stage: Stage, running: Running, hearing: Hearing, writer: TopicWriter) -> None:
        self.times: list[tuple[int, int]] = []
        self._stage = stage
        self._running = running
        self._hearing = hearing
        self._writer = writer
        self._statuses = StatusReader(stage.log, running.state.name, running.started_ms)

    def close(self) -> None:
        self._statuses.close()

    def kill(self) -> None:
        """Kill the owner, wait until the other one copies, and start the killed one again."""
        index = self._owner()
        name = ProcessName(index, ingress=True)
        at = wall_us()
        psutil.Process(self._running.pids[name]).kill()
        self._until(lambda: self._owner_since(at) == 1 - index, TAKEOVER_S, f"{name} was killed, nobody took over")
        took = wall_us()
        self._until(lambda: self.speaks_for(took + AFTER_US), TAKEOVER_S, "the other ingress copies nothing")
        self._start_again(name)
        self.times.append((at, wall_us()))

    def speaks_for(self, time_us: int) -> bool:
        """Whether the live view has got to this stime."""
        width = self._running.state.spec.bucket_us
        return any(change.end * width > time_us for _, change in self._hearing.heard[-50:] if change.kind != "UNDO")

    def _owner(self) -> int:
        found: list[int] = []

        def known() -> bool:
            found[:] = [index for index in (0, 1) if self._owner_since(0) == index]
            return bool(found)

        self._until(known, TAKEOVER_S, "no ingress copies the topic")
        return found[0]

    def _owner_since(self, since_us: int) -> int | None:
        """Which ingress said last, after that time, that it owns the inputs."""
        self._statuses.poll()
        owners = [
            s for s in self._statuses.ingresses.values() if s.role is IngressRole.OWNER and s.at_wall_us > since_us
        ]
        return max(owners, key=lambda s: s.at_wall_us).ingress if owners else None

    def _start_again(self, name: ProcessName) -> None:
        start_again(self._stage, self._running, name, READY_S, check=self._writer.check)

    def _until(self, condition: Callable[[], bool], timeout_s: float, otherwise: str) -> None:
        wait(condition, timeout_s, otherwise, self._writer.check)
