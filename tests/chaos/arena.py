"""The cluster that chaos is done to, and what doing it needs: who runs where, who is well again, who was impaired."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from borealis_py.verify import Verdict
from tests.chaos.faults import FEEDERS, INGRESSES
from tests.chaos.impaired import Group, Impaired
from tests.harness import family
from tests.harness.broker import START_S, LinkedBroker
from tests.harness.brokers import Brokers
from tests.harness.cluster import Cluster
from tests.harness.faults import FullDisk
from tests.harness.foreign import PRODUCER
from tests.harness.links import Links
from tests.harness.network import BUCKET_US
from tests.harness.plan import Member, Plan
from tests.harness.processes import Process
from tests.harness.waiting import PATIENCE_S, until, wall_us

Wait = Callable[[], bool]
Steps = Iterator[Wait]
"""What a fault does, stopping where it waits for something."""

BROKER, SUBSCRIBER, ELSEWHERE = "broker", "subscriber", "elsewhere"
BEHIND_US = 2_000_000
"""A replica is well when its live frontier is behind by no more than this beyond the threshold."""
STOP_S = 60.0
HEAR_S = 0.2
WELL_S = 120.0
STARTS_AGAIN = 1
"""Exit code of a process that could not start."""
COULD_NOT = "does not start"
"""What an ingress says that could not start: one that ran and ended may have the same exit code."""
AGAIN_MAX = 10


@dataclass
class Restarting(Cluster):
    """Starts processes of replicas and ingresses again that could not start, as a container's restart policy does."""

    impaired: Impaired = field(default_factory=Impaired)
    born_us: dict[int, int] = field(default_factory=dict)
    """When each process was first looked at."""
    deaf: bool = False
    """There is no broker to ask: who asks would wait for an answer and break nothing meanwhile."""
    heard: float = 0.0
    again: int = 0
    """How often a process could not start."""
    crashed: list[str] = field(default_factory=list)
    """Processes that a signal ended which nobody sent: errors of their own, whatever else is found."""

    def start_old(self, member: Member) -> Process:
        """Start one of another life of the app beside it, with files of its own. It is to end by itself."""
        directory = self.directory / "old-life"
        process = self._replica(f"old-{member}", member, directory, "process", "tests.chaos.old_life")
        process.may_end = True
        return process

    def look(self) -> None:
        for process in self.all_started:
            self.born_us.setdefault(process.popen.pid, wall_us())
        super().look()

    def hear(self) -> None:
        """Not at every look: it costs replicas their cores."""
        if not self.deaf and time.monotonic() - self.heard >= HEAR_S:
            super().hear()
            self.heard = time.monotonic()

    def ended(self, process: Process) -> None:
        """One that ran and ended is an error; one that could not start, or crashed, is started again."""
        member = next((m for m, p in self.replicas.items() if p is process), None)
        born_us = self.born_us[process.popen.pid]
        could_not = process.popen.returncode == STARTS_AGAIN and self.again < AGAIN_MAX
        ran = any(self.plan.process(m) == member and "READY" in self.events(m, born_us) for m in self.plan.members)
        if member is not None and process.popen.returncode < 0:
            self.crashed.append(f"{process.output.name}, signal {-process.popen.returncode}")
            process.may_end = True
            self.start(member)
            return
        start = self._starts(process, member)
        if start is None or ran or not could_not:
            super().ended(process)
        elif not self.deaf:
            process.may_end = True
            self.again += 1
            start()

    def _starts(self, process: Process, member: Member | None) -> Callable[[], object] | None:
        """What starts another one in place of a process that could not start; None: nothing does."""
        if member is not None:
            return partial(self.start, member)
        copies = next((index for index, one in self.foreign.ingresses.items() if one is process), None)
        return None if copies is None or COULD_NOT not in process.said else partial(self.foreign.copy, copies)


@dataclass
class Arena:
    """Everything there is to break. Made by `arena`."""

    cluster: Restarting
    kafka: LinkedBroker | Brokers
    links: Links
    disks: dict[str, FullDisk]
    impaired: Impaired
    stopped: list[psutil.Process] = field(default_factory=list)
    """Processes that are paused now."""
    known: set[psutil.Process] = field(default_factory=set)
    """Whatever ran below a process that was killed alone."""
    verdicts: list[Verdict] = field(default_factory=list)
    """Of apps beside, which are over."""

    @property
    def plan(self) -> Plan:
        return self.cluster.plan

    @property
    def broker(self) -> LinkedBroker:
        """Where there is one."""
        assert isinstance(self.kafka, LinkedBroker)
        return self.kafka

    @property
    def brokers(self) -> Brokers:
        """Where there are three."""
        assert isinstance(self.kafka, Brokers)
        return self.kafka

    # Who is who -------------------------------------------------------------------------------------------------------

    def parts(self, process: Member) -> list[Member]:
        """What a process runs."""
        return [m for m in self.plan.members if self.plan.process(m) == process]

    def jvm(self, process: Member) -> psutil.Process | None:
        return family.jvm(self.cluster.replicas[process])

    def worker(self, member: Member) -> psutil.Process | None:
        """The Python worker that runs it; None: it does not run now."""
        return family.workers(self.cluster.replicas[self.plan.process(member)]).get(member)

    def beside(self, members: Sequence[Member]) -> list[Member]:
        """They, and those who share a worker with one of them: standbys that do not compute do."""
        pids = {worker.pid for worker in map(self.worker, members) if worker is not None}
        found = [m for m in self.plan.members if (worker := self.worker(m)) is not None and worker.pid in pids]
        return list(dict.fromkeys([*members, *found]))

    def idle_workers(self, process: Member) -> list[psutil.Process]:
        """Those for redos."""
        return family.idle_workers(self.cluster.replicas[process])

    # Pausing and killing ----------------------------------------------------------------------------------------------

    def pause(self, processes: Sequence[psutil.Process]) -> list[psutil.Process]:
        """SIGSTOP. Returns those that were there."""
        done = []
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.suspend()
                done.append(process)
        self.stopped += done
        return done

    def resume(self, processes: Sequence[psutil.Process]) -> None:
        """SIGCONT."""
        for process in processes:
            with suppress(psutil.NoSuchProcess):
                process.resume()
            with suppress(ValueError):
                self.stopped.remove(process)

    def kill_alone(self, process: Process) -> None:
        """kill -9, and nothing below it: that must end by itself."""
        self.known |= set(family.tree(process)[1:])
        process.may_end = True
        process.popen.kill()
        process.popen.wait()

    # Waiting ----------------------------------------------------------------------------------------------------------

    def after(self, s: float) -> Wait:
        """So many seconds from now."""
        end = time.monotonic() + s
        return lambda: time.monotonic() >= end

    def doing(self, what: Callable[[], object]) -> Wait:
        """Do something that blocks in a thread; true when it is done. Raises what it raises."""
        failed: list[BaseException] = []

        def run() -> None:
            try:
                what()
            except BaseException as exc:
                failed.append(exc)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()

        def done() -> bool:
            if failed:
                raise failed[0]
            return not thread.is_alive()

        return done

    def becomes(self, condition: Callable[[], bool]) -> Wait:
        """What has to be asked for, in a thread, again and again; true once it was."""
        return self.doing(lambda: until(condition, getattr(condition, "__name__", "it is so")))

    def broker_there(self) -> bool:
        """It runs, although its readers may not be well yet: they may be waiting for who waits for this."""
        return not self.cluster.deaf

    def ready(self, members: Sequence[Member], since_us: int) -> Wait:
        """All have started anew since then, and are past RECOVERING."""
        return lambda: all("READY" in self.cluster.events(m, since_us) for m in members) and self.well(members)

    def well(self, members: Sequence[Member], since_us: int = 0) -> bool:
        """All have said since then that they are past RECOVERING and not behind, STABLE or not."""
        return all(self._well(m, since_us) for m in members)

    def _well(self, member: Member, since_us: int) -> bool:
        said = self.cluster.newest(member)
        if said is None or said.at_wall_us < since_us or said.state == "RECOVERING":
            return False
        return said.f_l * BUCKET_US >= said.at_wall_us - self.plan.threshold_us - BEHIND_US

    def seen_until(self, at_us: int) -> Wait:
        """A subscriber was told of every partition's buckets up to then."""
        return lambda: any(min(w.live_until) * BUCKET_US >= at_us for w in self.cluster.watchers)

    @contextmanager
    def impairing(self, *what: str) -> Iterator[None]:
        """They are not well while it lasts."""
        tickets = [(one, self.impaired.begin(one, wall_us())) for one in what]
        try:
            yield
        finally:
            for one, ticket in tickets:
                self.impaired.end(one, ticket, wall_us())

    # The end ----------------------------------------------------------------------------------------------------------

    def end(self, timeout_s: float = STOP_S) -> Verdict:
        """End the sources, let everything drain, stop the replicas, and judge."""
        self.cluster.until_well(timeout_s=WELL_S)
        self.cluster.finish(timeout_s)
        left = self.left()
        assert not left, f"these outlived what they belong to: {left}"
        files = self.cluster.directory.glob("seen-*.jsonl")
        until_us = max(path.stat().st_mtime_ns // 1000 for path in files)
        groups = groups_of(self.plan, "no broker" if isinstance(self.kafka, LinkedBroker) else "no leader")
        self.cluster.blackouts = self.impaired.blackouts(groups, until_us)
        return self.cluster.judge().and_beside(self.verdicts)

    def left(self, timeout_s: float = PATIENCE_S) -> list[psutil.Process]:
        """What should have ended with its driver and runs on after so long."""
        _, alive = psutil.wait_procs(list(self.known), timeout=timeout_s)
        return list(alive)

    def close(self) -> None:
        """End whatever still runs."""
        self.resume(list(self.stopped))
        for process in self.cluster.all_started:
            self.known |= set(family.tree(process))
        self.cluster.close()
        for one in self.known:
            with suppress(psutil.NoSuchProcess):
                one.kill()


def groups_of(plan: Plan, no_log: str = "no broker") -> list[Group]:
    """A partition of the query says what it has without the others; a cut node's feeds all of them."""
    nodes = dict.fromkeys(m.node for m in plan.members)
    of = {node: tuple(str(m) for m in plan.members if m.node == node) for node in nodes}
    parts = {name: i for i, name in enumerate(plan.results)} if len(plan.results) > 1 else {}
    replicas = [  # where one runs, it may be any of them that is not well
        Group(f"no replica of {node}", some, parts.get(node))
        for node, members in of.items()
        for some in ([(member,) for member in members] if plan.stands_by(node) else [members])
    ]
    return [*replicas, Group(no_log, (BROKER,)), Group("no subscriber", (SUBSCRIBER,))]


def link_names(plan: Plan) -> list[str]:
    """Who has a link of its own: each replica's process, publisher, producer, ingress, and the app beside's machine."""
    return [*map(str, plan.processes), *FEEDERS, PRODUCER, *INGRESSES, ELSEWHERE]


@contextmanager
def arena(plan: Plan, directory: Path, brokers: int = 1) -> Iterator[Arena]:
    """One or three brokers, links and a cluster that runs and is well; ended whatever happens."""
    disks: dict[str, FullDisk] = {}
    with ExitStack() as closing:
        names = link_names(plan)
        kafka = LinkedBroker(directory / "broker", names) if brokers == 1 else Brokers(directory / "brokers", names)
        closing.callback(kafka.close)
        links = Links(dict(kafka.ports), directory / "links.log")
        closing.callback(links.close)
        kafka.up(START_S)
        for member in plan.members:
            disks[str(member)] = FullDisk(directory / plan.name / "checkpoints" / str(member))
            closing.callback(disks[str(member)].close)
        impaired = Impaired()
        addresses = {name: kafka.address(name) for name in names}
        cluster = Restarting(kafka.bootstrap, plan, directory, addresses, impaired=impaired)
        it = Arena(cluster, kafka, links, disks, impaired)
        closing.callback(it.close)
        cluster.bring_up()
        yield it


def publishing(it: Arena, query: str) -> Member | None:
    """Who says that it writes this partition of the corrected stream; None: nobody, or not known now."""
    found = [m for m in it.plan.members if m.node == query and (s := it.cluster.newest(m)) is not None and s.publishing]
    return found[0] if len(found) == 1 else None
