"""Draws a scenario from its seed."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace

from borealis_py.protocol.settings import DelayPolicy, Delays, Timing
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.simulation.fault_kinds import AIMED, KINDS, LATER, LATER_AIMS, Failpoint, FaultTarget
from borealis_py.simulation.scenario import (
    ROWS_MAX,
    SECOND,
    SIZES,
    Fault,
    Retention,
    Scenario,
    SimulatedNode,
    names_of,
)
from borealis_py.simulation.toy_query import BIG, QUERY

NODES_MAX = 4
REPLICA_SECONDS_MAX = 75
"""Big worlds live shorter, so that no seed takes forever."""
LEAST_S, MOST_S = 12, 56
INPUT_FAILS = ("source_cut", "source_failed", "source_hangs", "source_crashes", "source_mute", "source_flaps")
"""Kinds that make replicas diverge: most other faults matter only meanwhile."""
ORDINARY = tuple(kind for kind in KINDS if kind not in LATER)
SCRIBBLES = "scribbles"
"""The kind of faults that is about these topics."""
LATER_SHARE = {
    "twins": 0.125,
    "reset": 0.1,
    "source_deaf": 0.1,
    "recovery": 0.1,
    "lagging": 0.1,
    "coordinator": 0.1,
    "open_transaction": 0.1,
    SCRIBBLES: 0.1,
}
"""Share of worlds in which a kind of `LATER` is drawn; 0.04 if not given."""
TRIMMED_SHARE = 0.9
"""Share of worlds that are trimmed. The others keep everything, as an app does that asks for it (`retain="all"`)."""
STANDBY_SHARE = 0.4
"""Share of worlds in which nodes are drawn that have standbys."""
WAYS = tuple(way for way in RecoveryWay if way is not RecoveryWay.AMNESIA)
AMNESIA_SHARE = 0.15
"""Share of the worlds with standbys in which the query's way is amnesia."""
GAP_SHARE = 0.5
"""Share of the worlds whose logs lose what is needed in which the query names what it lacks, instead of ending."""
AHEAD_US = 10 * SECOND
"""Longer than any source is away: of one that comes back no row may lie too far ahead of its boundary."""
AUDITED_SHARE = 0.3
"""Share of the trimmed worlds of one node whose sources are kept until they are audited."""
LATER_DICE = {"twins": "later"}
PARTED_SHARE = 0.1
"""Share of worlds with partitioned sources and nodes."""
NEIGHBOURS = ("si", "sim2", "sim-q", "simq", "q")
"""Names of a second app; the first one is "sim"."""
NEIGHBOUR_SHARE = 0.06
SPARKLESS_SHARE = 0.125
BY_TOPICS_SHARE = 0.2
"""Share of worlds whose redos and checkpoints lie in topics."""
PARTS = 2
REPLICAS_MAX = 8
SLOW_SHARE = 0.15
"""Share of worlds in which processing a row takes noticeable time."""
LONG_STARTS_SHARE = 0.3
LONG_START_US = 4 * SECOND
"""In how many worlds with standbys that do not compute a replica that one becomes takes time to start, and how long at
most: elsewhere nothing starts so, and no bound allows for it."""
AIMED_SHARE = 0.25
"""In how many worlds faults strike where a standby takes over, and in how many where a topic is trimmed."""
TINY = 2
"""Rows per part in worlds with twins: output of one bucket must take many records to interleave."""
SHORT_TURN_US = 5_000
"""Worlds of such turns catch up bucket by bucket."""


def draw(seed: int, kinds: Sequence[str] = (), seconds: float | None = None, nodes: int | None = None) -> Scenario:
    """Draw the scenario of this seed.

    Args:
        kinds: draw faults of these kinds only.
        seconds: how long the world lives until it heals; None: drawn, 12 to 56 s.
        nodes: number of nodes; None: drawn.
    """
    whole = _basis(seed, kinds, seconds, nodes)
    if not kinds:
        whole = _sliced(whole)
        whole = _with_faults(whole, _later(seed, whole.sources, whole.nodes, whole.heal_us))
    part_rows = TINY if any(f.kind == "twins" for f in whole.faults) else BIG
    timing = small(whole.timing) if any(f.kind in SIZES for f in whole.faults) else whole.timing
    whole = _publishers(replace(whole, part_rows=part_rows, timing=timing))
    if random.Random(f"trimmed {seed}").random() < TRIMMED_SHARE:
        whole = replace(whole, retain=_retention(seed, whole.nodes))
    return replace(whole, by_topics=SCRIBBLES in kinds) if kinds else _varied(whole)


def _basis(seed: int, kinds: Sequence[str], seconds: float | None, nodes: int | None) -> Scenario:
    """What one generator draws, in an order that must stay: nodes, rates, policies, and the faults that are not of
    `LATER`. All else is drawn by generators of its own, so that the rest of the world stays the same.
    """
    rng = random.Random(f"scenario {seed}")
    sources = rng.choice((1, 1, 2, 2, 3, 4))
    plans = _exchanges(seed, _nodes(rng, sources, nodes))
    plans = plans if kinds else _shared(seed, plans)
    replicas = sum(n.replicas for n in plans)
    most = max(LEAST_S + 2, min(MOST_S, REPLICA_SECONDS_MAX // replicas))
    drawn_s = LEAST_S + rng.random() ** 3 * (most - LEAST_S)
    heal_us = int((drawn_s if seconds is None else max(3.0, seconds)) * SECOND)
    rate = rng.choice((5, 5, 10, 20, 50))
    low = rng.choice((200, 500, 1_000))
    width_us = rng.choice((100_000, 100_000, 50_000, 200_000, 200_000))
    depth = len(plans)
    least = 250_000 + 125_000 + 3 * 100_000 * (depth > 1)
    scenario = Scenario(
        seed=seed,
        sources=sources,
        nodes=plans,
        width_us=width_us,
        span=rng.choice((1, 3, 10, 20)),
        rate=rate,
        delays=Delays(max(least, rng.choice((1_000_000, 2_000_000, 3_000_000, 4_000_000))), *_policies(rng)),
        timing=Timing(
            stagger_us=3_000_000,  # heads that hang are passed while the world lasts
            heartbeat_us=rng.choice((100_000, 200_000)),
            inline_us=rng.choice((0, 20, 100, 1_000_000)),
            redo_rows=rng.choice((4 * rate * sources, 20_000, 20_000)),  # a job must be faster than real time
            slice_buckets=rng.choice((3, 20, 100)),  # less if the outbox is smaller
            slice_us=random.Random(f"slices {seed}").choice((1_000, 20_000, 100_000)),
            outbox_max=random.Random(f"outbox {seed}").choice((20, 80, 200)),
            publish_buckets=rng.choice((5, 200)),
            checkpoint_us=rng.choice((500_000, 2_000_000)),
            buffer_rows_max=rng.choice((2 * rate * sources, 2_000_000, 2_000_000)),
        ),
        message_us=(low, low * rng.choice((2, 5, 10))),
        turn_us=rng.choice(((1_000, 5_000), (10_000, 30_000), (20_000, 45_000), (25_000, 45_000), (25_000, 45_000))),
        poll_records_max=rng.choice((50, 200, None)),
        heal_us=heal_us,
        ends=rng.random() < 0.4,
        latecomer=rng.random() < 0.4,
        lost=_lost(rng, plans),
        faults=_faults(rng, sources, plans, heal_us, kinds or ORDINARY),
    )
    return _with_faults(scenario)


def _with_faults(scenario: Scenario, more: Sequence[Fault] = ()) -> Scenario:
    """The scenario with more faults, in the order of their times."""
    return replace(scenario, faults=tuple(sorted((*scenario.faults, *more), key=lambda f: f.at_us)))


def _varied(scenario: Scenario) -> Scenario:
    """What is drawn only where faults of all kinds are: a neighbour, no Spark, topics, partitions, ways of recovery,
    rows and starts that take time.
    """
    seed = scenario.seed
    beside, rng = random.Random(f"neighbour {seed}"), random.Random(f"partitions {seed}")
    neighbour = beside.choice(NEIGHBOURS) if beside.random() < NEIGHBOUR_SHARE else ""
    whole = replace(
        scenario,
        neighbour=neighbour,
        spark=random.Random(f"spark {seed}").random() > SPARKLESS_SHARE,
        by_topics=random.Random(f"by topics {seed}").random() < BY_TOPICS_SHARE,
    )
    whole = whole if rng.random() > PARTED_SHARE else parted(rng, whole)
    whole = _recovering(whole)
    named = random.Random(f"gap {seed}").random() < GAP_SHARE
    whole = naming_losses(replace(whole, gap=named)) if any(f.kind == "retention" for f in whole.faults) else whole
    starts = random.Random(f"starts {seed}")
    if starts.random() < LONG_STARTS_SHARE and any(plan.recovery.idles for plan in whole.nodes):
        whole = replace(whole, starts_us=int(starts.random() * LONG_START_US))
    whole = _with_faults(whole, _aimed(whole))
    slow = random.Random(f"slow rows {seed}")
    if slow.random() < SLOW_SHARE:
        whole = replace(whole, rows_per_s=slow.choice((4, 16)) * whole.busiest)
    return whole


def naming_losses(scenario: Scenario) -> Scenario:
    """A world whose query may name what logs have lost: that may end as far ahead as rows may lie, which is to come."""
    ahead_us = AHEAD_US if scenario.may_lose(QUERY) else scenario.timing.ahead_max_us
    return replace(scenario, timing=replace(scenario.timing, ahead_max_us=ahead_us))


def _aimed(scenario: Scenario) -> list[Fault]:
    """Faults at take-overs and at deletions. Drawn separately, so that the rest of the world stays the same."""
    rng = random.Random(f"aimed {scenario.seed}")
    stands_by = any(plan.recovery.stands_by for plan in scenario.nodes)
    may_come = {Failpoint.TAKE_OVER: stands_by, Failpoint.TRIMMING: scenario.retain is not None}
    faults = []
    for aim in LATER_AIMS:
        if not may_come[aim] or rng.random() > AIMED_SHARE:
            continue
        for _ in range(rng.randint(1, 3)):
            kind, at = rng.choice(AIMED), rng.randrange(SECOND // 10, scenario.heal_us - SECOND)
            until = min(scenario.heal_us, at + _lasts_us(rng, kind))
            faults.append(Fault(kind, 0, at, until, rng.choice(KINDS[kind].details), aim))
    return faults


def _recovering(scenario: Scenario) -> Scenario:
    """Who runs each node. Drawn separately, so that the rest of the world stays the same."""
    rng = random.Random(f"recovery {scenario.seed}")
    if rng.random() > STANDBY_SHARE:
        return scenario
    nodes = tuple(
        replace(plan, recovery=RecoveryPlan(rng.choice(WAYS))) if plan.replicas > 1 else plan for plan in scenario.nodes
    )
    return _forgetful(replace(scenario, nodes=nodes))


def _forgetful(scenario: Scenario) -> Scenario:
    """Some queries recover by amnesia, since no node reads them. Drawn separately, too."""
    *cut, query = scenario.nodes
    if query.replicas == 1 or random.Random(f"amnesia {scenario.seed}").random() > AMNESIA_SHARE:
        return scenario
    return replace(scenario, nodes=(*cut, replace(query, recovery=RecoveryPlan(RecoveryWay.AMNESIA))))


def _retention(seed: int, plans: Sequence[SimulatedNode]) -> Retention:
    """How the world is trimmed. Drawn separately, so that the rest of the world stays the same."""
    rng = random.Random(f"retention {seed}")
    kept = Retention(rng.choice((0, 0, 500_000, 3 * SECOND)), rng.choice((SECOND, 3 * SECOND)))
    return replace(kept, audited=len(plans) == 1 and random.Random(f"audited {seed}").random() < AUDITED_SHARE)


def small(timing: Timing) -> Timing:
    """The timing of a world in which a backlog matters (`SIZES`)."""
    return replace(timing, publish_rows=ROWS_MAX, unpublished_rows_max=ROWS_MAX // 3)


def _publishers(scenario: Scenario) -> Scenario:
    """The inputs, and their lateness. Drawn separately, so that the rest of the world stays the same."""
    rng = random.Random(f"publishers {scenario.seed}")
    bad, lateness_us = rng.choice((0.0, 0.02, 0.2)), rng.choice((150_000, 400_000, 1_500_000))
    data = frozenset(i for i in range(scenario.sources) if rng.random() < 0.5)
    how = rng.random()
    if how < 0.15:
        return replace(scenario, bad=bad, lateness_us=lateness_us)
    return (
        replace(scenario, bad=bad, lateness_us=lateness_us, by_data=data) if how < 0.3 else replace(scenario, bad=bad)
    )


def _nodes(rng: random.Random, sources: int, wanted: int | None) -> tuple[SimulatedNode, ...]:
    """A chain, or a small graph: every source and node has a reader."""
    count = rng.choices((1, 2, 3, 4), (50, 32, 13, 5))[0]
    count = min(count, NODES_MAX) if wanted is None else wanted
    names = [*(f"n{i}" for i in range(1, count)), QUERY]
    unread = [f"s{i}" for i in range(sources)]
    rng.shuffle(unread)
    plans: list[SimulatedNode] = []
    for i, name in enumerate(names):
        last = i == count - 1
        take = len(unread) if last else max(1 if i == 0 else 0, rng.randint(0, len(unread)))
        mine, unread = unread[:take], unread[take:]
        before = [p.name for p in plans]
        read = {n for p in plans for n in p.inputs}
        streams = [n for n in before if n not in read and (last or rng.random() < 0.7 or not mine)]
        if not mine and not streams:
            streams = before[-1:] or []
        again = [n for n in before if n not in streams and rng.random() < 0.15]
        inputs = sorted({*mine, *streams, *again})
        if not inputs:
            inputs = [f"s{rng.randrange(sources)}"]
        plans.append(SimulatedNode(name, tuple(inputs), rng.choices((1, 2, 3), (4, 5, 2))[0]))
    return tuple(plans)


def _exchanges(seed: int, plans: tuple[SimulatedNode, ...]) -> tuple[SimulatedNode, ...]:
    """Some nodes write partitioned streams. Drawn separately, so that the rest of the world stays the same."""
    rng = random.Random(f"exchanges {seed}")
    *cut, query = plans
    return (*(replace(p, exchange=rng.choice((2, 3))) if rng.random() < 0.25 else p for p in cut), query)


def parted(rng: random.Random, scenario: Scenario) -> Scenario:
    """The scenario with partitioned sources and cut nodes: each partition is a source, or a node, of its own
    (A6).
    """
    counts = {name: PARTS if rng.random() < 0.5 else 1 for name in scenario.source_names}
    *cut, _ = scenario.nodes
    replicas = scenario.replicas
    for plan in cut:
        split = rng.random() < 0.6 and replicas + plan.replicas <= REPLICAS_MAX
        counts[plan.name] = PARTS if split else 1
        replicas += plan.replicas if split else 0
    if all(count == 1 for count in counts.values()):
        counts[rng.choice(scenario.source_names)] = PARTS
    sources = sum(counts[name] for name in scenario.source_names)
    whole = [name for name in scenario.source_names for _ in range(counts[name])]
    by_data = {name for i, name in enumerate(scenario.source_names) if i in scenario.by_data}
    more = -(-sources // scenario.sources)
    timing = scenario.timing  # drawn for fewer sources: scale it
    few, small = timing.redo_rows < 20_000, timing.buffer_rows_max < 2_000_000
    return replace(
        scenario,
        sources=sources,
        source_parts=tuple(counts[name] for name in scenario.source_names),
        by_data=frozenset(i for i, name in enumerate(whole) if name in by_data),
        nodes=tuple(part for plan in scenario.nodes for part in _parts(plan, counts, scenario.nodes)),
        lost=(),
        timing=replace(
            timing,
            redo_rows=timing.redo_rows * (more if few else 1),
            buffer_rows_max=timing.buffer_rows_max * (more if small else 1),
        ),
    )


def _parts(plan: SimulatedNode, counts: Mapping[str, int], plans: Sequence[SimulatedNode]) -> list[SimulatedNode]:
    """A node's partitions, which read all partitions of its inputs."""
    readers = {counts.get(other.name, 1) for other in plans if plan.name in other.inputs}
    apart = readers == {PARTS}
    exchange = PARTS if apart else plan.exchange if readers == {1} else 1
    count = counts.get(plan.name, 1)
    inputs = tuple(part for name in plan.inputs for part in names_of(name, counts.get(name, 1)))
    return [
        replace(plan, name=name, inputs=inputs, exchange=exchange, parts=count) for name in names_of(plan.name, count)
    ]


def _shared(seed: int, plans: tuple[SimulatedNode, ...]) -> tuple[SimulatedNode, ...]:
    """In some worlds the query also reads a source directly that an earlier node reads. Drawn separately, too."""
    rng = random.Random(f"shared {seed}")
    *cut, query = plans
    sources = sorted({name for p in cut for name in p.inputs if name.startswith("s")} - set(query.inputs))
    if not sources or rng.random() > 0.15:
        return plans
    return (*cut, replace(query, inputs=tuple(sorted((*query.inputs, rng.choice(sources))))))


def _lost(rng: random.Random, plans: Sequence[SimulatedNode]) -> tuple[int, ...]:
    """Replicas that do not come back; each node keeps one."""
    if rng.random() > 0.15:
        return ()
    lost, at = [], 0
    for plan in plans:
        if plan.replicas > 1 and rng.random() < 0.6:
            lost.append(at + rng.randrange(plan.replicas))
        at += plan.replicas
    return tuple(lost)


def _policies(rng: random.Random) -> tuple[DelayPolicy, DelayPolicy]:
    if rng.random() < 0.75:
        return DelayPolicy.PROCESS, DelayPolicy.PROCESS
    return rng.choice(list(DelayPolicy)), rng.choice(list(DelayPolicy))


def _faults(
    rng: random.Random, sources: int, plans: Sequence[SimulatedNode], heal_us: int, kinds: Sequence[str]
) -> tuple[Fault, ...]:
    """Some input failures, long enough to matter, and other faults, most of them meanwhile."""
    counts = _counts(sources, plans)
    last_us = heal_us - SECOND
    inputs = [k for k in kinds if k in INPUT_FAILS]
    faults = []
    for _ in range(rng.randint(1, 1 + heal_us // (9 * SECOND)) if inputs else 0):
        at = rng.randrange(SECOND, last_us)
        lasts = int((1.0 + rng.random() * 6.0) * SECOND)
        faults.append(_fault(rng, rng.choice(inputs), counts, at, min(heal_us, at + lasts)))
    others = [kind for kind in kinds if kind not in INPUT_FAILS] or list(kinds)
    weights = [KINDS[kind].weight for kind in others]
    failures = tuple(faults)
    for name in rng.choices(others, weights, k=rng.randint(1, 5 + heal_us // (5 * SECOND))):
        at = rng.randrange(SECOND, last_us)
        if failures and rng.random() < 0.6:
            during = rng.choice(failures)
            at = min(last_us - 1, rng.randrange(during.at_us, during.until_us + 2 * SECOND))
        faults.append(_fault(rng, name, counts, at, min(heal_us, at + _lasts_us(rng, name))))
    if kinds == ORDINARY and rng.random() < 0.07:
        faults += _slow_start(rng, counts, heal_us)
    return tuple(sorted(faults, key=lambda f: f.at_us))


def _later(seed: int, sources: int, plans: Sequence[SimulatedNode], heal_us: int) -> list[Fault]:
    """Faults of the kinds in `LATER`: each has its own random generator, so that a new kind moves
    none of the others.
    """
    faults = []
    for kind in LATER:
        rng = random.Random(f"{LATER_DICE.get(kind, kind)} {seed}")
        if rng.random() > LATER_SHARE.get(kind, 0.04):
            continue
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(SECOND, heal_us - SECOND)
            rng.choice((kind,))
            until = min(heal_us, at + _lasts_us(rng, kind))
            faults.append(_fault(rng, kind, _counts(sources, plans), at, until))
    return faults


def _lasts_us(rng: random.Random, kind: str) -> int:
    return int((0.1 + rng.random() ** 1.5 * KINDS[kind].longest_s) * SECOND)


def _counts(sources: int, plans: Sequence[SimulatedNode]) -> dict[FaultTarget, int]:
    """The number of possible targets of each kind."""
    replicas = sum(p.replicas for p in plans)
    return {
        FaultTarget.SOURCE: sources,
        FaultTarget.REPLICA: replicas,
        FaultTarget.NODE: len(plans),
        FaultTarget.WORLD: 1,
    }


def _slow_start(rng: random.Random, counts: Mapping[FaultTarget, int], heal_us: int) -> list[Fault]:
    """A replica that starts while an input is gone, whose heartbeats are lost until long after that is back, so that it
    continues after T while it is still RECOVERING, and whose redo takes long.
    """
    replica, at = rng.randrange(counts[FaultTarget.REPLICA]), rng.randrange(SECOND, 2 * SECOND)
    back = at + 5 * SECOND
    return [
        Fault("source_cut", rng.randrange(counts[FaultTarget.SOURCE]), at, back),
        Fault("crash", replica, at + SECOND // 4, at + SECOND // 2),
        Fault("beats_lost", replica, at + SECOND // 2 + 50, min(heal_us, back + rng.randrange(3 * SECOND, 5 * SECOND))),
        Fault("redos", replica, at, heal_us, rng.choice(("hang", "slow"))),
    ]


def _fault(rng: random.Random, name: str, counts: Mapping[FaultTarget, int], at: int, until: int) -> Fault:
    kind = KINDS[name]
    aim = rng.choice(kind.aims) if kind.aims and rng.random() < 0.3 else None
    detail = "/".join(p.value for p in _policies(rng)) if name == "policy" else rng.choice(kind.details)
    return Fault(name, rng.randrange(counts[kind.target]), at, until, detail, aim)


def _sliced(scenario: Scenario) -> Scenario:
    """The least and the most that a turn runs, from one bucket to what is usual. Drawn separately, so that the rest of
    the world stays the same. A replica must catch up: no less than four times as much as its longest turn takes."""
    rng, a_second = random.Random(f"slice sizes {scenario.seed}"), scenario.rate * scenario.sources
    least_us = rng.choice((0, scenario.width_us, 500_000))
    longest_us = scenario.turn_us[1]
    timing = replace(
        scenario.timing,
        slice_least_us=least_us if longest_us <= SHORT_TURN_US else max(least_us, 4 * longest_us),
        slice_rows=rng.choice((a_second, 20 * a_second, 20_000)),
    )
    return replace(scenario, timing=timing)
