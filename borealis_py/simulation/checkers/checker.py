"""Judges a finished world: every oracle (A10), node by node, against the naive recomputation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from borealis_py.log import topics
from borealis_py.log.base import Feed, Record
from borealis_py.log.corrected import letter_id, read_progress
from borealis_py.log.description import Life
from borealis_py.query.names import base_name
from borealis_py.simulation.checkers import oracles
from borealis_py.simulation.checkers.delays import LOOK_US, DelayChecks, Sources
from borealis_py.simulation.checkers.gaps import (
    is_gap,
    judge_client,
    judge_published,
    judge_said,
    published_gaps,
    without,
)
from borealis_py.simulation.checkers.observer import Observer
from borealis_py.simulation.checkers.oracles import SETTLE_US
from borealis_py.simulation.checkers.streams import StableOrder, judge_stream
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.cluster.machines import SourceMachine
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.reference_model import compute_all, read_source
from borealis_py.simulation.scenario import SimulatedNode
from borealis_py.simulation.toy_query import QUERY
from borealis_py.simulation.violation import Violation
from borealis_py.simulation.witness.budgets import transactions_fit
from borealis_py.simulation.witness.judge import judge_processes
from sunion.model import TupleId

HIDDEN = 2
"""Transactions that a broker can hide before a writer looks: one, and the next, whose markers end both."""


def judge(world: SimulatedWorld, observer: Observer) -> None:
    """Raises Violation."""
    s = world.scenario
    observer.close()
    sources = _sources(world)
    truths = compute_all(s, sources, world.wiring.teller)
    transactions_fit(world.log.transactions, s.timing)
    transactions_fit(world.log.mends, s.timing, HIDDEN)
    for why in (*world.wiring.disagreements, *(why for redos in world.wiring.redos for why in redos.disagreements)):
        raise Violation("redo", why)
    letters = _letters(world)
    lost = {plan.name: published_gaps(world, plan.name) for plan in s.nodes}
    _inputs(world, observer, sources, letters, lost)
    delays = DelayChecks(world, observer, sources)
    for plan in s.nodes:
        orders = []
        for p in range(plan.exchange):
            truth = truths[plan.name].part(p, plan.exchange)
            how = world.origin, world.wiring.app_uid, not s.stands_by(plan.name), s.may_lose(plan.name)
            order = judge_stream(world.log, APP, plan, p, truth, *how)
            orders += [] if order is None else [order]
        _gaps(world, plan, lost[plan.name], orders, delays)
    letters = [letter for letter in letters if not is_gap(letter)]
    truths_told = {name: without(truth, lost[name]) for name, truth in truths.items()}
    for name in dict.fromkeys(base_name(plan.name) for plan in s.nodes):
        parts = [plan.name for plan in s.nodes if base_name(plan.name) == name]
        oracles.dead_letters(name, letters, [(truths_told[part], _published(world, part)) for part in parts])
    rows = world.log.committed(Feed(topics.stream(APP, QUERY)))
    oracles.corrected(rows, observer.progress_seen, truths_told[QUERY], s.width_us)
    oracles.client(world.picture, truths[QUERY])
    if world.latecomer is not None:
        oracles.client(world.latecomer, truths[QUERY])
    delays.judge()
    judge_processes(world, observer.readable, sources, truths)


def _gaps(
    world: SimulatedWorld,
    plan: SimulatedNode,
    published: Sequence[range],
    orders: Sequence[StableOrder],
    delays: DelayChecks,
) -> None:
    """What is lost of a node (R18)."""

    def complete_at(at_us: int) -> int:
        return min(delays.closed_by(name, at_us) for name in world.wiring.origins[plan.name])

    for order in orders:
        judge_said(world, plan, order, complete_at)
    judge_published(published, orders)
    for picture in (world.picture, world.latecomer) if plan.name == QUERY else ():
        if picture is not None:
            judge_client(picture, orders)


def _letters(world: SimulatedWorld) -> list[Record]:
    """The dead letters of all nodes. If a life ends before a writer could repair what the broker hid, includes hidden
    ones.
    """
    feed = Feed(topics.deadletter(APP))
    seen = world.log.decided(feed)
    if not _cut_short(world):
        return seen
    partition, hidden = world.log.broker.partition(feed), dict[tuple[str, TupleId], Record]()
    for node in dict.fromkeys(plan.name for plan in world.scenario.nodes):
        there, published = {letter_id(record, node) for record in seen}, _published(world, node)
        for record in partition.read_raw(partition.start, len(partition.records)):
            at = letter_id(record, node)
            if at is not None and at not in there and at.bucket < published:
                hidden[node, at] = record
    return [*seen, *hidden.values()]


def _cut_short(world: SimulatedWorld) -> bool:
    """Whether its life, or that of a node, may have ended before a writer could repair what the broker hid."""
    ended = bool(world.scenario.reset) or world.ended_by_retention is not None
    return ended and any(f.kind == "markers_lost" for f in world.scenario.faults)


def _published(world: SimulatedWorld, node: str) -> int:
    """How far a node is published, including what the broker hid: the dead letters of a transaction may be visible and
    its progress not.
    """
    if not _cut_short(world):
        return world.progress(node)
    feed, life = Feed(topics.progress(APP, node)), Life(world.wiring.app_uid)
    partition, seen = world.log.broker.partition(feed), {record.offset for record in world.log.decided(feed)}
    hidden = (r for r in partition.read_raw(partition.start, len(partition.records)) if r.offset not in seen)
    return max(world.progress(node), *(read_progress(record, life, world.origin) or 0 for record in hidden), 0)


def _sources(world: SimulatedWorld) -> Sources:
    s = world.scenario
    how = s.width_us, world.origin, s.timing.ahead_max_us, world.wiring.app_uid
    return {
        machine.name: read_source(machine.name, world.log.committed(machine.feed), *how) for machine in world.sources
    }


def _inputs(
    world: SimulatedWorld,
    observer: Observer,
    sources: Sources,
    letters: Sequence[Record],
    lost: Mapping[str, Sequence[range]],
) -> None:
    """Check the path from the publishers' inputs to the sources and dead letters.

    If strangers wrote in a publisher's name, their records took positions of its input; if its boundaries were removed
    from its records, only the publisher knows them.
    """
    wiring, s = world.wiring, world.scenario
    forged, mute = (
        {f.index % s.sources for f in s.faults if f.kind in kinds}
        for kinds in (("garbage", "big", "poison"), ("source_mute",))
    )
    for machine in world.sources:
        if machine.index not in forged:
            teller = wiring.teller(machine.name)
            published, known = world.progress(teller), machine.index not in mute
            taken = partial(_must_be_taken, world, observer, machine)
            items, truth, gaps = wiring.items[machine.index], sources[machine.name], lost[teller]
            oracles.inputs(machine.name, items, truth, letters, published, known, taken, gaps)


def _must_be_taken(world: SimulatedWorld, observer: Observer, machine: SourceMachine, n: int) -> bool:
    """Whether the item came within its lateness to a healthy publisher."""
    items, s = world.wiring.items[machine.index], world.scenario
    if items.lateness_us is None or items.stime(n) < world.origin * s.width_us:
        return False
    at, left_us = items.at(n), items.lateness_us - (items.at(n) - items.stime(n))
    if machine.index in s.by_data:
        return left_us >= 0
    well = observer.sources[machine.name].covers(at - SETTLE_US, at + s.width_us + LOOK_US)
    return left_us >= s.width_us + LOOK_US and well
