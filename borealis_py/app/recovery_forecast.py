"""What each way of recovery would cost each node of an app, and what its readers would see of a crash.

Waits of the protocol come from the timing; what the processors do comes from a trial; the rest are the assumptions
below.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from borealis_py.app.explain import Explanation
from borealis_py.app.recovery_trial import TriedNode
from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.log.acks import ack_record
from borealis_py.node.delays import reader_wait_us
from borealis_py.node.recovery_setting import STANDBY_BEAT_US
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.trimming import Need, ReplicaName
from borealis_py.protocol.trimming.plan import EVERY_US
from borealis_py.query.recovery import SYNC_US, RecoveryPlan, RecoveryWay
from borealis_py.recovery.predict import NodeLoad, Prediction, predict
from borealis_py.recovery.ways import refusal
from sunion.units import Bucket, Offset

SYNC_S = SYNC_US / 1_000_000
"""How often a passive standby would get what changed, unless the node says so itself."""
HEARD_AGAIN = 3
"""A standby would run once it has read back so many of its own heartbeats without one of who ran. A fourth, since that
one's last may have come just before, is not seen: readers of active standbys stood still for 0.2 s at the median in
the benchmark `recovery`."""
START_S, WAY_S = 0.15, 0.02
"""From knowing that it is to run until a standby that does not compute gives results again: 0.05 to 0.1 s to find where
to begin, as much to open its inputs and catch up, in timelines of that bench's kills. A record's way to it."""
BUCKET_S = 0.0002
"""To read one bucket again, beside its rows as they are tried: at most that is left of what a window of 60 s takes in
the benchmark `recovery`."""
COMPUTING_CORES, WAITING_CORES = 0.05, 0.015
"""What a replica takes that computes, beside its rows, and one that does not: of a core, with buckets of 100 ms, by
the benchmark `recovery` (at 20 000 rows/s: 0.067 and 0.002 to 0.023)."""
SWITCH_S = 0.05
"""Readers of several replicas go over to another one: p99 of the benchmark `failover`."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """One way for one node.

    Attributes:
        way: it. in_force: it is the way of the node now. sync_us: how often a passive standby gets what changed; of
            other ways 0.
        refused: why it cannot be had with the guarantee "precise", or with "gap" if that is asked for; empty: it can.
        predicted: what it would cost. None: not known, as `unknown` says in words.
        wait_s: how long the node's readers wait for it before they go on without it.
        others: whether all of them have other inputs to go on with.
    """

    way: RecoveryWay
    in_force: bool
    refused: str
    predicted: Prediction | None
    wait_s: float
    others: bool
    unknown: str = ""
    sync_us: int = 0

    @property
    def beyond_s(self) -> float:
        """For how long readers see that it stands still; 0: X hides it."""
        return 0.0 if self.predicted is None else self.predicted.tentative_s(self.wait_s)

    @property
    def seen(self) -> str:
        """What they see: "nothing" of it, "tentative" results, or "silence"."""
        return "nothing" if not self.beyond_s else "tentative" if self.others else "silence"


def forecasts(
    of: Explanation,
    timing: Timing,
    tried: Mapping[str, TriedNode | str],
    written: Mapping[str, float],
    plans: Mapping[str, RecoveryPlan] | None = None,
    kafka_keeps_state: bool = True,
) -> dict[str, list[Forecast]]:
    """All ways for each node, by its name as it runs.

    Args:
        tried: what `try_nodes` found. written: bytes a second that a replica writes of its stream, where measured.
        plans: how nodes recover now; None: as the app's file says. kafka_keeps_state: `checkpoints: kafka`.
    """
    if plans is None:
        plans = {node.report.name: of.spec.node(node.report.name).recovery for node in of.nodes}
    found: dict[str, list[Forecast]] = {}
    for node in of.nodes:
        name, operators = node.report.name, OperatorClass(node.report.operator_class)
        trial, plan = tried[name], plans[name]
        load = None if isinstance(trial, str) else _load(of, name, trial, timing, written.get(name))
        sync_us = plan.sync_us if plan.way is RecoveryWay.PASSIVE_STANDBY else SYNC_US
        readers = [other.report.name for other in of.nodes if name in other.report.inputs]
        wait_s, others = _wait_s(of, name, timing), _others(of, name)
        least, unbounded = of.spec.node(name).guarantee, node.report.unbounded
        found[name] = [
            Forecast(
                way,
                way is plan.way and (node.replicas > 1 or way is RecoveryWay.AMNESIA),
                refusal(way, operators, readers, unbounded, least),
                None if load is None else predict(way, _by(way, load, sync_us, timing, kafka_keeps_state), operators),
                wait_s,
                others,
                trial if isinstance(trial, str) else "",
                sync_us if way is RecoveryWay.PASSIVE_STANDBY else 0,
            )
            for way in RecoveryWay
        ]
    return found


def _load(of: Explanation, name: str, trial: TriedNode, timing: Timing, written: float | None) -> NodeLoad:
    return NodeLoad(
        rows_per_s=trial.rows_per_s,
        row_us=trial.row_us,
        window_s=trial.window_s or 0.0,  # where it has no bound, upstream backup is refused, and only keys count
        state_bytes=trial.state_bytes,
        keys=trial.keys,
        result_bytes_per_s=trial.result_bytes_per_s if written is None else written,
        sync_s=SYNC_S,
        position_bytes=_position_bytes(of, name),
        detect_s=HEARD_AGAIN * min(timing.heartbeat_us, STANDBY_BEAT_US) / 1e6,
        start_s=START_S,
        delay_s=WAY_S,
        switch_s=SWITCH_S,
        bytes_per_core_s=trial.state_bytes_per_s or 1.0,  # nothing is written of an empty state
        again_s_per_s=BUCKET_S * 1_000_000 / of.spec.bucket_us,
        computing_cores=COMPUTING_CORES,
        waiting_cores=WAITING_CORES if of.spec.node(name).replicas > 1 else 0.0,
    )


def _by(way: RecoveryWay, load: NodeLoad, sync_us: int, timing: Timing, kafka_keeps_state: bool) -> NodeLoad:
    """The load as a way has it: a passive standby has an interval of its own, and a state that is written; an upstream
    backup gets the position to begin at with each checkpoint, and trimming that of an active standby."""
    if way is RecoveryWay.ACTIVE_STANDBY:
        return replace(load, sync_s=max(timing.checkpoint_us, EVERY_US) / 1_000_000)
    if way is RecoveryWay.UPSTREAM_BACKUP:
        return replace(load, sync_s=timing.checkpoint_us / 1_000_000)
    if way is not RecoveryWay.PASSIVE_STANDBY:
        return load
    return replace(load, sync_s=sync_us / 1_000_000, kafka_keeps_state=kafka_keeps_state)


def _position_bytes(of: Explanation, name: str) -> int:
    """The size of an acknowledgement."""
    offsets = {i: Offset(10**9) for i in of.spec.node(name).inputs if i in of.spec.sources}
    need = Need(inc=1, uid="0" * 16, number=1000, bucket=Bucket(10**10), offsets=offsets, published=Bucket(10**10))
    record = ack_record(of.spec.name, "0" * 16, ReplicaName(name, 0), need)
    return len(record.value or b"") + len(record.key or b"")


def _wait_s(of: Explanation, name: str, timing: Timing) -> float:
    """The shortest wait of those that read a node: other nodes, and of a query its live subscribers (R5.3)."""
    waits_us = [node.report.delays.wait_us for node in of.nodes if name in node.report.inputs]
    waits_us += [
        reader_wait_us(of.spec, name, timing, plan.declared.threshold_us) for plan in of.queries if plan.name == name
    ]
    return min(waits_us) / 1e6


def _others(of: Explanation, name: str) -> bool:
    """Whether whoever reads a node has other inputs; who subscribes to a query has none."""
    readers = [node.report.inputs for node in of.nodes if name in node.report.inputs]
    return name not in of.spec.queries and all(len(inputs) > 1 for inputs in readers)
