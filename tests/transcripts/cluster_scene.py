"""Scenes in the simulated cluster: production replicas and publishers on the simulated log, read back from that log.

A time is the time at which a record entered the log. The simulator checks its invariants after every turn; `judge`
heals what is still broken, waits for convergence, and asks all oracles, which recompute the result by themselves.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from borealis_py.log import topics
from borealis_py.log.base import Feed, Record
from borealis_py.log.corrected import Progress, row_id
from borealis_py.log.description import Life
from borealis_py.log.messages import Heartbeat, Status, decode
from borealis_py.log.stream import Encoded, StreamDecoder
from borealis_py.protocol.states import ReplicaState
from borealis_py.query.units import parse_duration
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.cluster.client_model import ClientPicture
from borealis_py.simulation.cluster.machines import ReplicaMachine, SourceMachine
from borealis_py.simulation.log.network import Cut, cut_of
from borealis_py.simulation.quiet import quiet
from borealis_py.simulation.runner.simulation import Simulation
from borealis_py.simulation.scenario import Scenario, SimulatedNode
from borealis_py.simulation.toy_query import QUERY, ToyKernel
from sunion.view import Change
from tests.transcripts.datadriven import Command, TranscriptError
from tests.transcripts.scene import OK, Scene, timing_and_delays
from tests.transcripts.timeline import PLACES, Entry, change_entry, record_entry, state_entry

STATES = {state.name: state.value for state in ReplicaState}
UNTOLD = ("", "READY", "FIRST_TENTATIVE", "REC_DONE")
"""Events of a status that other lines tell."""
RATE = 50
"""Rows a second and source."""


class ClusterScene(Scene):
    """An app on the simulated log.

        cluster sources=s0,s1 threshold=1s heals=12s show=q,corrected hide=checkpoint
        clean reads s0,s1 replicas 2
        q reads clean replicas 2

    A line for each node, after the nodes that it reads; the last one is the query, q. Further arguments are fields of
    `Timing`. `heals`: when `judge` begins to heal. `show`, `hide`: which actors and which kinds of lines to print.
    """

    def __init__(
        self,
        *nodes: str,
        sources: str = "s0,s1",
        heals: str = "12s",
        show: str = "",
        hide: str = "",
        **settings: str,
    ) -> None:
        super().__init__()
        self.timeline.shown, self.timeline.hidden = tuple(show.split(",")), tuple(hide.split(",") if hide else ())
        feeds = sources.split(",")
        parts = [sum(1 for feed in feeds if feed.split(".")[0] == f"s{i}") for i in range(len(feeds))]
        timing, chosen = timing_and_delays(settings)
        scenario = Scenario(
            seed=1,
            sources=len(feeds),
            nodes=tuple(_node(line) for line in nodes),
            width_us=100_000,
            span=4,
            rate=RATE,
            delays=chosen,
            timing=timing,
            message_us=(1_000, 1_001),
            turn_us=(1_000, 1_001),
            poll_records_max=None,
            heal_us=parse_duration(heals),
            ends=False,
            latecomer=False,
            source_parts=tuple(count for count in parts if count),
        )
        self._simulation = Simulation(scenario)
        self._world = self._simulation.world
        for machine in self._world.sources:
            machine.clock.skew_us = 0
        self._cuts: dict[str, Cut] = {}
        self._read: dict[Feed, int] = {}
        self._decoders: dict[Feed, StreamDecoder] = {}
        self._asking: dict[str, bool] = {}
        self._begun: set[tuple[str, int]] = set()
        self._checkpoints: dict[str, int] = {}
        self._published = 0
        kernel = ToyKernel(scenario.width_us, scenario.span)
        self._count = lambda rows: len(rows.rows(kernel) if isinstance(rows, Encoded) else rows)
        observed = self._world.hooks.client_changed

        def changed_client(name: str, picture: ClientPicture, changes: Sequence[Change]) -> None:
            observed(name, picture, changes)
            for change in changes:
                self.timeline.add(change_entry(self._now, name, change, self._count, self._world.origin))

        self._world.hooks.client_changed = changed_client
        with quiet():
            self._simulation.start_world()

    @property
    def _now(self) -> int:
        return self._world.scheduler.now_us - self._world.start_us

    def act(self, command: Command) -> str:
        with quiet():
            return super().act(command)

    # Commands ---------------------------------------------------------------------------------------------------------

    def do_run(self, until: str) -> str:
        """Let time pass, and print what entered the log."""
        self._world.scheduler.run_until(self._world.start_us + parse_duration(until))
        self._read_all()
        return self.timeline.take()

    def do_lose(self, source: str) -> str:
        """Cut its publisher off from the log."""
        self._cuts[source] = cut_of()
        self._source(source).cut(self._cuts[source])
        return OK

    def do_return(self, source: str) -> str:
        """Reconnect its publisher, which then sends what has waited."""
        self._source(source).mend(self._cuts.pop(source))
        return OK

    def do_kill(self, replica: str) -> str:
        """Kill its process; whatever was in memory is lost."""
        self._replica(replica).crash()
        return OK

    def do_start(self, replica: str) -> str:
        """Start a new process for a replica that was killed."""
        self._replica(replica).restart()
        return OK

    def do_pause(self, replica: str) -> str:
        """Stop its process, which does not notice."""
        self._replica(replica).pause()
        return OK

    def do_resume(self, replica: str) -> str:
        """Let it go on where it stopped."""
        self._replica(replica).resume()
        return OK

    def do_frontiers(self) -> str:
        """Print state and frontiers of each running replica."""
        lines = []
        for machine in self._world.replicas:
            for process in machine.replicas:
                m, origin = process.replica.manager, self._world.origin
                lines.append(f"{_name(machine)}  {m.state.value}  F_s {m.f_s - origin}  F_l {m.f_l - origin}")
        return "\n".join(lines)

    def do_judge(self) -> str:
        """Heal everything, wait for convergence, and ask every oracle. Raises Violation."""
        self._simulation.finish()
        world = self._world
        rows = len(world.log.committed(Feed(topics.stream(APP, QUERY))))
        self.timeline.entries.clear()
        return f"corrected  0..{world.progress(QUERY) - world.origin - 1}  {rows} rows  as without failures"

    # What lies in the log ---------------------------------------------------------------------------------------------

    def _read_all(self) -> None:
        for plan in self._world.scenario.nodes:
            for k in range(plan.replicas):
                for p, feed in enumerate(topics.own_feeds(APP, plan.name, k, plan.exchange)):
                    self._stream(f"{plan.name}.r{k}" + f"/{p}" * (plan.exchange > 1), feed)
        for partition in self._world.log.broker.partitions(topics.control(APP)):
            self._control(partition.feed)
        for partition in self._world.log.broker.partitions(topics.status(APP)):
            self._status(partition.feed)
        self._corrected()

    def _new(self, feed: Feed) -> Iterator[tuple[int, Record]]:
        """Records that were not read before, with the times at which they entered the log."""
        first, partition = self._read.get(feed, 0), self._world.log.broker.partition(feed)
        for record in self._world.log.committed(feed):
            if record.offset >= first:
                self._read[feed] = record.offset + 1
                yield partition.appended_us[record.offset] - self._world.start_us, record

    def _stream(self, name: str, feed: Feed) -> None:
        decoder = self._decoders.setdefault(feed, StreamDecoder(Life(self._world.wiring.app_uid)))
        for at, record in self._new(feed):
            told = decoder.decode(record)
            if told is not None:
                self.timeline.add(record_entry(at, name, told, self._count, self._world.origin, apart=False))

    def _control(self, feed: Feed) -> None:
        for at, record in self._new(feed):
            beat, name = decode(record.value or b"", Heartbeat), (record.key or b"").decode().replace("/", ".r")
            if beat.asking != self._asking.get(name, False):
                self._asking[name] = beat.asking
                self.timeline.add(Entry(at, name, "asks" if beat.asking else "asks no more"))
            if beat.checkpoint_bucket > self._checkpoints.get(name, -1):
                self._checkpoints[name] = beat.checkpoint_bucket
                bucket = beat.checkpoint_bucket - self._world.origin
                self.timeline.add(Entry(at, name, f"checkpoint at {bucket}"))

    def _status(self, feed: Feed) -> None:
        for at, record in self._new(feed):
            status = decode(record.value or b"", Status)
            name, origin = f"{status.node}.r{status.replica}", self._world.origin
            if (name, status.inc) not in self._begun:
                self._begun.add((name, status.inc))
                what = ReplicaState.RECOVERING.value
                self.timeline.add(Entry(at, name, what, f"inc {status.inc}, from bucket {status.f_s - origin}"))
            if status.event in STATES:
                self.timeline.add(state_entry(at, name, STATES[status.event], self._relative(status.detail)))
            elif status.redo is not None:
                first, end = status.redo.first - origin, status.redo.end - origin
                where = PLACES[status.redo.engine]
                self.timeline.add(Entry(at, name, "redo done", where, first, end, status.redo.rows))
            elif status.event == "TOOK_OVER":
                self.timeline.add(Entry(at, name, "publishes", f"from bucket {status.progress - origin}"))
            elif status.event not in UNTOLD:
                self.timeline.add(Entry(at, name, status.event, status.detail))

    def _relative(self, detail: str) -> str:
        """Its bucket numbers counted from the first bucket of the app."""
        return re.sub(r"\d+", lambda bucket: str(int(bucket[0]) - self._world.origin), detail)

    def _corrected(self) -> None:
        origin, rows = self._world.origin, [row_id(r).bucket for _, r in self._new(Feed(topics.stream(APP, QUERY)))]
        for at, record in self._new(Feed(topics.progress(APP, QUERY))):
            told = decode(record.value or b"", Progress)
            end, count = told.bucket - origin, sum(1 for bucket in rows if bucket - origin < told.bucket - origin)
            rows = rows[count:]
            who = f"by {QUERY}.r{told.replica}"
            if end > self._published:
                self.timeline.add(Entry(at, "corrected", "published", who, self._published, end, count, commits=1))
            self._published = end

    # Names ------------------------------------------------------------------------------------------------------------

    def _source(self, name: str) -> SourceMachine:
        return next(machine for machine in self._world.sources if machine.name == name)

    def _replica(self, name: str) -> ReplicaMachine:
        return next(machine for machine in self._world.replicas if _name(machine) == name)


def _name(machine: ReplicaMachine) -> str:
    return f"{machine.node}.r{machine.index}"


def _node(line: str) -> SimulatedNode:
    """`name reads a,b replicas 2 parts 2 exchange 2`; the last three where they are not 1."""
    name, *words = line.split()
    told = dict(zip(words[::2], words[1::2], strict=True))
    if told.keys() - {"reads", "replicas", "parts", "exchange"}:
        raise TranscriptError(f"node {name}: {sorted(told)}")
    numbers = {key: int(value) for key, value in told.items() if key != "reads"}
    return SimulatedNode(name, tuple(told["reads"].split(",")), numbers.pop("replicas", 1), **numbers)
