"""A scenario: sizes, latencies, policies and faults of one simulated world. Values only; `runner.generator` draws them.

The same seed gives the same scenario. A scenario with fewer faults is a smaller world to examine.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from borealis_py.protocol.settings import DelayPolicy, Delays, Timing
from borealis_py.query.names import part_index, part_name
from borealis_py.query.recovery import ACTIVE, RecoveryPlan, RecoveryWay
from borealis_py.simulation.fault_kinds import KINDS, Failpoint
from borealis_py.simulation.latency import Latencies, between
from borealis_py.simulation.toy_query import BIG, QUERY
from sunion.model import FOREVER

START_US = 1_700_000_000_000_000
SECOND = 1_000_000
FENCE_US = (50_000, 800_000)
SIZES = ("corrected_away", "commits_grow")
"""Fault kinds whose worlds keep few unpublished rows, and publish few at once."""
ROWS_MAX = 60
"""Number of rows that still commits in time where commits grow, apart from a transaction's largest bucket, which may
have any size.
"""
STANDS_ROWS = 5
"""With boundaries by the data, one may stand still for this many rows without a fault: some are bad, or later than
earlier ones.
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault from `at_us` to `until_us` (since the start).

    `index`: which source, replica or node (counted through, modulo their number). `aim`: it strikes at the first such
    failpoint after `at_us`, for the same duration; not at all if there is none.
    """

    kind: str
    index: int
    at_us: int
    until_us: int
    detail: str = ""
    aim: Failpoint | None = None

    def __str__(self) -> str:
        what = f"{self.kind}({self.index}{', ' + self.detail if self.detail else ''})"
        aimed = f", aimed: {self.aim.value}" if self.aim else ""
        label = KINDS[self.kind].fault_class
        return f"{self.at_us / 1e6:7.3f} .. {self.until_us / 1e6:7.3f} s  {label:3} {what}{aimed}"


@dataclass(frozen=True, slots=True)
class Retention:
    """How a world is trimmed (R16.1): what is kept of each source and stream beyond what is needed, in microseconds of
    stime (`lag_us`), and how often replicas trim (`every_us`). `audited`: of sources instead what audits have not
    verified; only in worlds of one node."""

    lag_us: int
    every_us: int
    audited: bool = False


def names_of(name: str, parts: int) -> list[str]:
    """The names of the partitions of a source or node, as they run."""
    return [name] if parts == 1 else [part_name(name, i) for i in range(parts)]


@dataclass(frozen=True, slots=True)
class SimulatedNode:
    """A node: its name (also its stream's), the sources and earlier nodes it reads, its number of replicas.

    `exchange`: number of partitions of its stream; each of its readers reads one. `parts`: number of partitions of the
    node of which this is one, given by its name; it selects its rows if its input is not separated by partition.
    `recovery`: which of its replicas run.
    """

    name: str
    inputs: tuple[str, ...]
    replicas: int
    exchange: int = 1
    parts: int = 1
    recovery: RecoveryPlan = ACTIVE

    @property
    def part(self) -> int:
        """The partition number."""
        return part_index(self.name)


@dataclass(frozen=True, slots=True)
class Scenario:
    """One world.

    Attributes:
        nodes: each after those it reads; the last one is the query that clients read.
        span: buckets in a window of the toy query. rate: tuples per second and source.
        message_us: range of a message's latency. turn_us: range of a turn's duration.
        heal_us: when everything heals. lost: replicas (counted through) that stay away then: only a core heals.
        ends: the sources end when everything is well again. latecomer: a second client comes in the middle, and asks
            for what the first one saw `late_by` buckets before.
        part_rows: an output of more rows is split into parts.
        bad: share of the sources' input that is not a row. lateness_us: how late most rows come; None: stamped when
            sent. by_data: sources (by index) whose boundaries follow their rows' times.
        neighbour: the name of another app on the same log; empty: there is none.
        source_parts: number of partitions of each source as a user would name it (empty: one each); `sources` counts
            partitions.
        spark: redo jobs run on Spark; otherwise all are local. by_topics: they are sent there and answered, and
            checkpoints are kept, in topics of the log, as production reads and writes them.
        reset: it does not heal: the app is begun anew then, and this part of it survives.
        retain: how its topics are trimmed; None: not at all.
        rows_per_s: how fast a replica's kernel and a redo job process rows; None: rows take no time of their own.
        gap: the query names what it lacks because logs have lost it, instead of ending, as one by amnesia does.
        starts_us: how long at most the replica starts that a standby becomes; each start takes another time, and some
            fail. 0: none takes any.
    """

    seed: int
    sources: int
    nodes: tuple[SimulatedNode, ...]
    width_us: int
    span: int
    rate: int
    delays: Delays
    timing: Timing
    message_us: tuple[int, int]
    turn_us: tuple[int, int]
    poll_records_max: int | None
    heal_us: int
    ends: bool
    latecomer: bool
    lost: tuple[int, ...] = ()
    faults: tuple[Fault, ...] = field(default=())
    part_rows: int = BIG
    bad: float = 0.0
    lateness_us: int | None = None
    by_data: frozenset[int] = frozenset()
    source_parts: tuple[int, ...] = ()
    neighbour: str = ""
    spark: bool = True
    by_topics: bool = False
    reset: str = ""
    rows_per_s: int | None = None
    gap: bool = False
    starts_us: int = 0
    retain: Retention | None = None
    late_by: int = 30

    def rows_us(self, rows: int) -> int:
        """How long this many rows take."""
        return 0 if self.rows_per_s is None else rows * SECOND // self.rows_per_s

    @property
    def turn_rows(self) -> int:
        """How many rows a turn runs at most if each bucket has no more than its share of the rate: live ones and
        corrections, or as many as it may while their cost is unknown.
        """
        return max(2 * self.busiest * self.timing.slice_least_us // SECOND, self.timing.slice_rows // 200)

    @property
    def backlog(self) -> float:
        """How long replicas work on what came during an outage, and on what comes meanwhile, for each second of it."""
        step_us = min(self.timing.slice_buckets, self.timing.outbox_max // 2 + 1) * self.width_us
        busy = self.turn_us[1] / step_us + 2 * self.rows_us(self.busiest) / SECOND  # live, and corrections
        return busy / (1 - busy) if busy < 1 else float("inf")

    def without(self, index: int) -> Scenario:
        """The scenario without one fault."""
        return replace(self, faults=self.faults[:index] + self.faults[index + 1 :])

    @property
    def busiest(self) -> int:
        """The most rows a second that a node reads: it may pass on all that it reads, and a result a bucket."""
        rows = dict.fromkeys(self.source_names, self.rate)
        for plan in self.nodes:
            rows[plan.name] = sum(rows[name] for name in plan.inputs) + SECOND // self.width_us
        return max(sum(rows[name] for name in plan.inputs) for plan in self.nodes)

    @property
    def source_names(self) -> tuple[str, ...]:
        parts = self.source_parts or (1,) * self.sources
        return tuple(name for i, count in enumerate(parts) for name in names_of(f"s{i}", count))

    @property
    def lag_us(self) -> int:
        """How long after its end a source closes a bucket without faults: its lateness. By the data, the next row whose
        stime is later by the lateness closes it, and such a row may itself be that late.
        """
        lateness_us = self.lateness_us or 0
        return lateness_us + (lateness_us + 2 * SECOND // self.rate + self.width_us if self.by_data else 0)

    @property
    def positions(self) -> dict[str, int]:
        """Position of each node in its longest chain, from 1."""
        found: dict[str, int] = {}
        for plan in self.nodes:
            found[plan.name] = 1 + max((found.get(name, 0) for name in plan.inputs), default=0)
        return found

    @property
    def healed_threshold_us(self) -> int | None:
        """The delay threshold set when everything heals; None: unchanged.

        An input by the data that stands still for longer than D is missing (A10): with less, failures would never end.
        """
        if not self.by_data or self.reset:
            return None
        depth = self.positions[QUERY]
        stands_us = (self.lateness_us or 0) + STANDS_ROWS * SECOND // self.rate + self.width_us + self.timing.hop_us
        least_us = stands_us + self.timing.slack_of(depth) + (depth - 1) * self.timing.hop_us
        found = [self.delays.threshold_us, *(us for at_us, us in self._set_thresholds() if at_us <= self.heal_us)]
        return least_us if found[-1] < least_us else None

    def partition(self, reader: str, of: str) -> int:
        """The partition of a node's stream that another node reads."""
        names = [node.name for node in self.nodes]
        node = self.nodes[names.index(reader)]
        return (node.part if node.parts > 1 else names.index(reader)) % self.nodes[names.index(of)].exchange

    def picks(self, reader: SimulatedNode) -> frozenset[int]:
        """The inputs from which a partition of a node selects its rows: from the others it gets only those."""
        divided = {node.name for node in self.nodes if node.exchange > 1}
        return frozenset(i for i, name in enumerate(reader.inputs) if reader.parts > 1 and name not in divided)

    @property
    def replicas(self) -> int:
        """Total number of replicas."""
        return sum(node.replicas for node in self.nodes)

    @property
    def latencies(self) -> Latencies:
        message = between(*self.message_us)
        return Latencies(append=message, ack=message, fetch=message, fence=between(*FENCE_US))

    @property
    def threshold_max_us(self) -> int:
        """The largest delay threshold that is ever in force."""
        return self.threshold_us(self.heal_us)

    def threshold_us(self, end_us: int) -> int:
        """The largest threshold that may still have been in force when a bucket with this end was due."""
        most = self.delays.threshold_us
        for at_us, new_us in self._thresholds():
            if at_us <= end_us + most:
                most = max(most, new_us)
        return most

    def threshold_min_us(self, at_us: int) -> int:
        """The smallest threshold up to then."""
        return min([self.delays.threshold_us, *(new_us for since, new_us in self._thresholds() if since <= at_us)])

    def _thresholds(self) -> list[tuple[int, int]]:
        """Threshold changes: (from when, to what)."""
        healed_us = self.healed_threshold_us
        return self._set_thresholds() + ([] if healed_us is None else [(self.heal_us, healed_us)])

    def _set_thresholds(self) -> list[tuple[int, int]]:
        """The changes among the faults."""
        return [(f.at_us, int(f.detail)) for f in self.faults if f.kind == "threshold"]

    @property
    def speaks_until_us(self) -> int:
        """From then on some policy may suppress tentative results altogether."""
        if DelayPolicy.SUSPEND in (self.delays.failure, self.delays.stabilization):
            return 0
        return min((f.at_us for f in self.faults if f.kind == "policy" and "suspend" in f.detail), default=FOREVER)

    def ahead_us(self, first_us: int, last_us: int) -> int:
        """How far any publisher's clock is ahead at most between these times: buckets are created that early."""
        ahead_us = 0
        for fault in self.faults:
            if fault.kind not in ("source_clock", "source_drift"):
                continue
            per_us = SECOND if fault.kind == "source_clock" else fault.until_us - fault.at_us
            by_us = int(float(fault.detail) * per_us)
            if by_us > 0 and fault.at_us <= last_us and first_us <= fault.until_us + by_us:
                ahead_us += by_us
        return ahead_us

    def ways(self, node: str) -> tuple[RecoveryPlan, ...]:
        """How a node recovers at first, and all that may be set later."""
        first = next(plan.recovery for plan in self.nodes if plan.name == node)
        changes = [f for f in self.faults if f.kind == "recovery" and self.changed_by(f) == node]
        return first, *(RecoveryPlan(RecoveryWay(fault.detail)) for fault in changes)

    def stands_by(self, node: str) -> bool:
        """Whether one replica runs for the others at any time."""
        return any(way.stands_by for way in self.ways(node))

    def may_lose(self, node: str) -> bool:
        """Whether the node names what it has lost (R18)."""
        by_amnesia = any(plan.name == node and plan.recovery.way is RecoveryWay.AMNESIA for plan in self.nodes)
        return by_amnesia or (self.gap and node == QUERY)

    def changed_by(self, fault: Fault) -> str | None:
        """The node whose way of recovery a fault changes; None: it has one replica, or must lose nothing."""
        plan = self.nodes[fault.index % len(self.nodes)]
        loses = fault.detail == RecoveryWay.AMNESIA
        return plan.name if plan.replicas > 1 and (self.may_lose(plan.name) or not loses) else None

    @property
    def eaten(self) -> frozenset[str]:
        """Sources of which retention may delete what is still needed: then the named error is an acceptable end."""
        return frozenset(self.source_names[f.index % self.sources] for f in self.faults if f.kind == "retention")

    def __str__(self) -> str:
        d, healed_us = self.delays, self.healed_threshold_us
        nodes = "; ".join(
            f"{n.name} reads {', '.join(n.inputs)} x{n.replicas}"
            + f" in {n.exchange} partitions" * (n.exchange > 1)
            + f" by {n.recovery.way}" * n.recovery.stands_by
            for n in self.nodes
        )
        head = (
            f"{self.sources} sources of {self.rate} tuples/s; {nodes}; W {self.width_us / 1e3:g} ms, "
            f"window {self.span} buckets, X {d.threshold_us / 1e6:g} s, {d.failure.value}/{d.stabilization.value}, "
            f"memory {self.timing.buffer_rows_max} rows, heals at {self.heal_us / 1e6:g} s"
            + (f" with X {healed_us / 1e6:g} s" if healed_us is not None else "")
            + (f", but for replicas {', '.join(map(str, self.lost))}" if self.lost else "")
            + (f", beside an app {self.neighbour!r}" if self.neighbour else "")
            + ("" if self.spark else ", without Spark")
            + (", redos and checkpoints in topics" if self.by_topics else "")
            + (", what is lost is named" if self.gap else "")
            + (f", starts of standbys take up to {self.starts_us / 1e6:g} s" if self.starts_us else "")
            + ("" if self.retain is None else f", trimmed but for {self.retain.lag_us / 1e6:g} s")
            + (", sources as audited" if self.retain is not None and self.retain.audited else "")
            + (f"; of the input {self.bad:.0%} is bad" if self.bad else "")
            + (f"; rows up to {self.lateness_us / 1e3:g} ms late" if self.lateness_us is not None else "")
            + (f"; by their data: {', '.join(f's{i}' for i in sorted(self.by_data))}" if self.by_data else "")
        )
        return "\n".join([head, *(f"  [{i}] {fault}" for i, fault in enumerate(self.faults))])
