"""How far a topic may be deleted (R16). Pure.

The least of what anybody may still read decides; on any doubt nothing goes. Who may read what:

- a source: each replica of each node that reads it, from its oldest kept checkpoint (R11.2, R12.2). A redo reads from
  F_s, which is not below it. If it is to be audited, also the next audit of each query that its rows come to.
- a replica's topic: each replica of each node that reads the stream, likewise (R5); peers that take over a checkpoint,
  from their own F_s (R14), and those that start from one, from their own bucket (B45); whoever publishes, from the
  progress (R10); a new live subscriber, from there, too. Subscribers say nothing: one that falls behind what is kept
  learns that the rest is gone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from borealis_py.protocol.trimming.need import Need, Needs, ReplicaName
from sunion.bucket import Buckets
from sunion.model import FOREVER
from sunion.units import Bucket, Offset


@dataclass(frozen=True, slots=True)
class NodeReads:
    """One node as trimming sees it: its number of `replicas`, and the `sources` and `streams` (other nodes) that it
    reads, by name."""

    replicas: int
    sources: tuple[str, ...] = ()
    streams: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """All `nodes` of an app as it runs, by name, in its order."""

    nodes: Mapping[str, NodeReads]

    def readers_of_source(self, source: str) -> list[str]:
        """The nodes that read a source, in the app's order. The first one trims it."""
        return [name for name, node in self.nodes.items() if source in node.sources]

    def readers_of_stream(self, node: str) -> list[str]:
        """The nodes that read the stream of a node."""
        return [name for name, reader in self.nodes.items() if node in reader.streams]


@dataclass(frozen=True, slots=True)
class Retain:
    """How much of a topic is kept beyond what is needed: `lag_us` of stime behind the stable frontier, in microseconds.
    0: nothing. None: all, so nothing is ever deleted. `audited`: of a source, also what audits have not verified."""

    lag_us: int | None
    audited: bool = False

    def bucket(self, frontier: Bucket, buckets: Buckets) -> Bucket | None:
        """The first bucket that it keeps, if `frontier` is the stable frontier. None: all.

        After END the frontier is no time any more, and nothing follows: what was kept of the last time stays.
        """
        if self.lag_us is None or (self.lag_us and frontier >= buckets.of(FOREVER)):
            return None
        return Bucket(frontier - -(-self.lag_us // buckets.width_us))


@dataclass(frozen=True, slots=True)
class TrimLimit:
    """How far one topic may be deleted.

    Attributes:
        below: everything below this bucket (of a source: offset) may go. None: nothing may go.
        held_by: in words, who needs the first that stays; where nothing may go, for whom trimming waits.
    """

    below: int | None
    held_by: tuple[str, ...]

    @property
    def waits(self) -> bool:
        """Whether nothing may go, and not because all is to be kept."""
        return self.below is None and self.held_by != ("retain",)


_Hold = tuple[int, str]


class Unsure(Exception):
    """Nothing may go: what is needed is not known of `names`, in words."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names = tuple(names)
        super().__init__(", ".join(self.names))


def stream_limit(graph: Graph, needs: Needs, node: str, published: Bucket | None, kept: Bucket | None) -> TrimLimit:
    """The bucket below which the topics of all replicas of `node` may be deleted, in all their partitions.

    Args:
        published: the first bucket that a take-over may publish. None: not known.
        kept: the first bucket that the policy keeps (`Retain.bucket`). None: all.
    """
    if kept is None:
        return TrimLimit(None, ("retain",))
    holds: list[_Hold] = [(kept, "retain")]
    try:
        if published is None:
            raise Unsure([f"progress of {node}"])
        holds.append((published, f"progress of {node}"))
        for reader in (node, *graph.readers_of_stream(node)):
            holds += [(need.bucket, str(name)) for name, need in holders(graph, needs, reader)]
    except Unsure as unsure:
        return TrimLimit(None, unsure.names)
    return _lowest(holds)


def source_limit(
    graph: Graph,
    needs: Needs,
    source: str,
    resumable: Offset | None,
    kept: Offset | None,
    audits: Iterable[str] = (),
) -> TrimLimit:
    """The offset below which a source may be deleted.

    Args:
        resumable: the highest offset from which on the log still shows a publisher where to resume (B5). None: not
            known.
        kept: the first offset that the policy keeps. None: all.
        audits: queries whose next audit is to find what it reads.
    """
    if kept is None:
        return TrimLimit(None, ("retain",))
    holds: list[_Hold] = [(kept, "retain")]
    try:
        for query in audits:
            holds.append((_audited(needs, query, source), f"audit of {query}"))
        if resumable is None:
            raise Unsure([f"publisher of {source}"])
        holds.append((resumable, f"publisher of {source}"))
        readers = graph.readers_of_source(source)
        if not readers:
            raise Unsure([f"readers of {source}"])
        for reader in readers:
            for name, need in holders(graph, needs, reader):
                if source not in need.offsets:
                    raise Unsure([f"{name} (says nothing of {source})"])
                holds.append((need.offsets[source], str(name)))
    except Unsure as unsure:
        return TrimLimit(None, unsure.names)
    return _lowest(holds)


def _audited(needs: Needs, query: str, source: str) -> Offset:
    """The first offset of a source that the next audit of a query reads. Raises Unsure."""
    if query not in needs.audits:
        raise Unsure([f"audit of {query} (none has ended with --advance yet)"])
    offsets = needs.audits[query]
    if offsets is None:
        raise Unsure([f"audit of {query} (what it said cannot be used)"])
    if source not in offsets:
        raise Unsure([f"audit of {query} (says nothing of {source})"])
    return offsets[source]


def holders(graph: Graph, needs: Needs, node: str) -> Iterator[tuple[ReplicaName, Need]]:
    """The replicas of a node whose needs hold what they read, with these.

    A replica that has been silent for long holds nothing if a live peer's checkpoints lie where it can read them: it
    will start from one of these (B45), and what they need is held. One that a user has forgotten holds nothing while a
    peer lives, whether or not the node still has it. While no replica of the node lives, all hold.

    Raises:
        Unsure: of some replica it is not known.
    """
    all_of_it = [ReplicaName(node, k) for k in range(graph.nodes[node].replicas)]
    strangers = [name for name in needs.of(node) if name not in all_of_it and name not in needs.forgotten]
    unsure = [f"{name} (unknown replica)" for name in strangers]
    out = {*needs.doubts, *needs.silent, *needs.forgotten}
    live = [name for name in all_of_it if name in needs.said and name not in out]
    covered = {needs.said[name].place for name in live} - {""}
    found = []
    for name in all_of_it:
        need = needs.said.get(name)
        if live and name in needs.forgotten:
            continue
        if name in needs.doubts:
            unsure.append(f"{name} ({needs.doubts[name]})")
        elif need is None:
            unsure.append(f"{name} (has said nothing yet)")
        elif name in live or need.place not in covered:
            found.append((name, need))
    if unsure:
        raise Unsure(unsure)
    return iter(found)


def _lowest(holds: Iterable[_Hold]) -> TrimLimit:
    found = list(holds)
    below = min(at for at, _ in found)
    return TrimLimit(below, tuple(dict.fromkeys(who for at, who in found if at == below)))
