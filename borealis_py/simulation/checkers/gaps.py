"""Judges gaps (R18): every bucket is exact or inside a named gap, every gap has a cause, and what is published keeps to
them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord, Record
from borealis_py.log.corrected import read_gap
from borealis_py.log.description import Life
from borealis_py.log.records import GapHeader, unpack_stream
from borealis_py.simulation.checkers.streams import StableOrder
from borealis_py.simulation.cluster.client_model import ClientPicture
from borealis_py.simulation.cluster.recorder import Recording
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.reference_model import NodeTruth
from borealis_py.simulation.scenario import SimulatedNode
from borealis_py.simulation.violation import Violation

Gaps = Sequence[range]


def inside(gaps: Iterable[range], bucket: int) -> bool:
    """Whether the bucket is in one of them."""
    return any(bucket in gap for gap in gaps)


def first_outside(gaps: Iterable[range], told: range) -> int | None:
    """The first of these buckets that is in none of the gaps; None: there is none. After END a gap has no end."""
    at = told.start
    for gap in sorted(gaps, key=lambda gap: gap.start):
        at = max(at, gap.stop) if gap.start <= at else at
    return at if at < told.stop else None


def published_gaps(world: SimulatedWorld, node: str) -> Gaps:
    """The gaps that a node has published, in order.

    Raises:
        Violation: two of them overlap, or its dead letters do not name the same ones, each once.
    """
    app, life = world.wiring.app, Life(world.wiring.app_uid)
    told = [read_gap(record, life) for record in world.log.decided(Feed(topics.progress(app, node)))]
    gaps = sorted((lost.first, lost.end) for lost in told if lost is not None)
    for (_, end), (first, _) in pairwise(gaps):
        if first < end:
            raise Violation("gap", f"{node}: the gaps that it publishes overlap at bucket {first}: {gaps}", first)
    letters = sorted(_told_by(world.log.decided(Feed(topics.deadletter(app))), node))
    if letters != gaps:
        raise Violation("gap", f"{node}: it publishes gaps {gaps}, and dead letters name {letters}")
    return [range(first, end) for first, end in gaps]


def _told_by(letters: Iterable[Record], node: str) -> Iterator[tuple[int, int]]:
    for record in letters:
        headers = dict(record.headers)
        if headers.get("node") == node.encode() and "gap" in headers:
            first, end = headers["gap"].split(b":")
            yield int(first), int(end)


def is_gap(record: Record) -> bool:
    """Whether a dead letter names a gap."""
    return any(name == "gap" for name, _ in record.headers)


def without(truth: NodeTruth, gaps: Gaps) -> NodeTruth:
    """The failure-free output but for what is lost."""
    if not gaps:
        return truth
    rows = {bucket: rows for bucket, rows in truth.rows.items() if not inside(gaps, bucket)}
    letters = {bucket: letters for bucket, letters in truth.letters.items() if not inside(gaps, bucket)}
    return replace(truth, rows=rows, letters=letters)


def judge_said(
    world: SimulatedWorld, plan: SimulatedNode, order: StableOrder, complete_at: Callable[[int], int]
) -> None:
    """What the replicas of a node have said of gaps.

    Args:
        complete_at: simulated time -> the first bucket that the sources behind the node leave open then.

    Raises:
        Violation: a gap has no cause, or is longer than it must be.
    """
    for heard in world.wiring.heard:
        if heard.node == plan.name:
            _judge_process(heard, list(_said(heard)), order, complete_at, world.scenario.span - 1)


def _said(heard: Recording) -> Iterator[tuple[int, GapHeader]]:
    for turn in heard.turns:
        for done in turn.done:
            if isinstance(done, NewRecord) and done.feed.topic.endswith(f".{heard.node}.r{heard.replica}"):
                header, _ = unpack_stream(done.value)
                if isinstance(header, GapHeader):
                    yield turn.now_us, header


def _judge_process(
    heard: Recording,
    said: Sequence[tuple[int, GapHeader]],
    order: StableOrder,
    complete_at: Callable[[int], int],
    lookback: int,
) -> None:
    if not said:
        return
    first, end = said[0][1].first, said[-1][1].end
    began_us, own = heard.turns[0].now_us, f"{heard.node}.r{heard.replica}"
    for one in order.statements:
        read = one.name.partition("/")[0] == own or not heard.all_run
        if read and one.at_us < began_us and one.end > first:
            what = f"{heard.name} says [{first}, {end}) is lost, and [{one.first}, {one.end}) lay in {one.name} when it"
            raise Violation("gap", f"{what} started", first)
    at_us, stands = said[0]
    limit = max(complete_at(at_us), heard.bucket) + (lookback if len(said) == 1 else 0)
    if stands.end > limit:
        raise Violation("gap", f"{heard.name} says up to {stands.end} is lost, at most {limit} can be", stands.end)
    if len(said) > 2 or (len(said) == 2 and end - stands.end != lookback):
        raise Violation("gap", f"{heard.name} says {[header for _, header in said]}, lookback is {lookback}", first)


def judge_client(picture: ClientPicture, orders: Sequence[StableOrder]) -> None:
    """Raises Violation: a client was told a gap that no replica has said."""
    said = [range(gap.first, gap.end) for order in orders for gap in order.gaps]
    for gap in picture.gaps:
        bucket = first_outside(said, gap)
        if bucket is not None:
            raise Violation("gap", f"the client was told {gap}, and nobody says bucket {bucket} is lost", bucket)


def judge_published(gaps: Gaps, orders: Sequence[StableOrder]) -> None:
    """Raises Violation: a gap is published that no replica has said."""
    said = [range(gap.first, gap.end) for order in orders for gap in order.gaps]
    for gap in gaps:
        lacking = next((bucket for bucket in (gap.start, gap.stop - 1) if not inside(said, bucket)), None)
        if lacking is not None:
            raise Violation("gap", f"{gap} is published as lost, and nobody has said so of bucket {lacking}", lacking)
