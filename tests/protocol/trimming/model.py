"""A chain of nodes, its logs and checkpoints as numbers only: what is deleted, and what each possible start would read.

It shares nothing with the rule but the acknowledgements: what a start reads is written down here once more, start by
start. Time passes only when a step says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from borealis_py.protocol.trimming import need as need_module
from borealis_py.protocol.trimming.fold import SILENCE_US, AckFold
from borealis_py.protocol.trimming.limit import Graph, NodeReads, source_limit, stream_limit
from borealis_py.protocol.trimming.need import KeptCheckpoint, Need, ReplicaName

KEEP = 3
ORIGIN = 5
GRAPH = Graph(
    {
        "clean": NodeReads(2, ("web", "till")),
        "sums": NodeReads(3, ("till",), ("clean",)),
        "alarms": NodeReads(1, ("web",), ("clean", "sums")),
    }
)
PACE = {"web": 2, "till": 3}
"""Records of each source in one bucket."""
PLACES = {"clean": ("m1", "m1"), "sums": ("shared", "shared", "m3"), "alarms": ("m1",)}
MINUTE_US = 60_000_000


@dataclass
class Life:
    """One replica. `topic`: the first bucket that its topic still has. `stood_for`: it was silent for so long that it
    may have to start from a peer's checkpoint, and none of a peer's results may reach it; that stays so until all it
    has can be used again."""

    name: ReplicaName
    place: str
    fold: AckFold
    f_s: int = ORIGIN
    inc: int = 1
    number: int = 0
    alive: bool = True
    kept: list[int] = field(default_factory=list)
    sending: list[Need] = field(default_factory=list)
    read_to: int = 0
    told_us: int = 0
    topic: int = ORIGIN
    end: int = ORIGIN
    stood_for: bool = False

    @property
    def starts(self) -> list[int]:
        """Buckets of all starts that are possible: from any checkpoint, since later ones may be torn."""
        return [*([ORIGIN] if len(self.kept) < KEEP else []), *self.kept]


Entry = tuple[ReplicaName, Need | str]


class Model:
    """Interprets steps, each three small numbers; `lost` holds what some start no longer finds."""

    def __init__(self) -> None:
        self.now = 0
        self.lives = {
            name: Life(name, PLACES[node][k], AckFold(name))
            for node, reads in GRAPH.nodes.items()
            for k in range(reads.replicas)
            for name in [ReplicaName(node, k)]
        }
        self.log: list[Entry] = []
        self.progress = dict.fromkeys(GRAPH.nodes, ORIGIN)
        self.sources = dict.fromkeys(PACE, 0)
        self.resumable = dict.fromkeys(PACE, 0)
        self.lost: list[str] = []
        self.trimmed = 0

    def step(self, kind: int, which: int, size: int) -> None:
        """One step: `kind` chooses what happens, `which` to whom, `size` how much."""
        steps = (
            self.run,
            self.run,
            self.checkpoint,
            self.checkpoint,
            self.say,
            self.say,
            self.deliver,
            self.deliver,
            self.read,
            self.read,
            self.crash,
            self.start,
            self.publish,
            self.adopt,
            self.trim_stream,
            self.trim_source,
            self.trim_source,
            self.wait,
            self.garbage,
            self.round,
            self.round,
            self.round,
            self.start,
        )
        names = list(self.lives)
        chosen = steps[kind % len(steps)]
        chosen(self.lives[names[which % len(names)]], size)
        if chosen in (self.trim_stream, self.trim_source, self.start):  # nothing else takes anything away
            self.lost += self.missing()

    # What happens -----------------------------------------------------------------------------------------------------

    def run(self, life: Life, size: int) -> None:
        upstream = [max(up.end for up in self.of(node)) for node in GRAPH.nodes[life.name.node].streams]
        if life.alive:
            life.f_s = max(life.f_s, min([life.f_s + size, *upstream]))
            life.end = max(life.end, life.f_s)
            for source in GRAPH.nodes[life.name.node].sources:
                if size % 4 == 0:  # an idle source's log may show only far back who owns it
                    self.resumable[source] = max(self.resumable[source], self.offset(source, life.f_s) - 2 * size)

    def checkpoint(self, life: Life, size: int) -> None:
        if life.alive and life.f_s > max(life.kept, default=ORIGIN):
            life.kept = [*life.kept, life.f_s][-KEEP:]

    def say(self, life: Life, size: int) -> None:
        if life.alive:
            sources = GRAPH.nodes[life.name.node].sources
            kept = [KeptCheckpoint(c, tuple(self.offset(s, c) for s in sources)) for c in life.kept]
            oldest = need_module.least(kept, ORIGIN, len(sources), KEEP)
            life.number += 1
            said = Need(
                inc=life.inc,
                uid="u",
                number=life.number,
                bucket=oldest.bucket,
                offsets=dict(zip(sources, oldest.offsets, strict=True)),
                place=life.place,
            )
            life.fold.sent(said, self.now)
            life.sending.append(said)

    def deliver(self, life: Life, size: int) -> None:
        for said in life.sending[: size + 1]:
            self.log.append((life.name, said))
            life.told_us = self.now
        del life.sending[: size + 1]

    def read(self, life: Life, size: int) -> None:
        if life.alive:
            for name, said in self.log[life.read_to :]:
                if isinstance(said, str):
                    life.fold.doubt(name, said)
                else:
                    life.fold.read(name, said, self.now)
            life.read_to = len(self.log)

    def crash(self, life: Life, size: int) -> None:
        life.alive = False
        del life.sending[size:]

    def start(self, life: Life, size: int) -> None:
        """A new incarnation, from a checkpoint that depends on `size`. The compacted log has the last of each key."""
        if life.alive:
            return
        starts = [at for at in life.starts if not self.unreadable(life.name.node, at)]
        covered = [at for peer in self.peers(life) for at in peer.kept if peer.place == life.place]
        chosen = (starts or sorted(covered, reverse=True) or [life.f_s])[size % (len(starts) or 1)]
        life.alive, life.f_s, life.inc, life.number = True, chosen, life.inc + 1, 0
        life.fold = AckFold(life.name)
        for name, said in dict(self.log).items():
            if isinstance(said, str):
                life.fold.doubt(name, said)
            else:
                life.fold.read(name, said, self.now)
        life.read_to = len(self.log)

    def publish(self, life: Life, size: int) -> None:
        if life.alive:
            node = life.name.node
            self.progress[node] = max(self.progress[node], min(life.f_s, self.progress[node] + 4 * size))

    def adopt(self, life: Life, size: int) -> None:
        ahead = [c for peer in self.peers(life) for c in peer.kept if c > life.f_s]
        if life.alive and ahead:
            life.f_s = ahead[size % len(ahead)]
            life.end = max(life.end, life.f_s)

    def trim_stream(self, life: Life, size: int) -> None:
        if not life.alive:
            return
        limit = stream_limit(GRAPH, life.fold.needs(), life.name.node, self.progress[life.name.node], life.f_s)
        if limit.below is not None and limit.below > life.topic:
            life.topic = limit.below
            self.trimmed += 1

    def trim_source(self, life: Life, size: int) -> None:
        if not life.alive:
            return
        for source in PACE:
            if GRAPH.readers_of_source(source)[0] == life.name.node:
                kept = self.offset(source, life.f_s)
                limit = source_limit(GRAPH, life.fold.needs(), source, self.resumable[source], kept)
                if limit.below is not None and limit.below > self.sources[source]:
                    self.sources[source] = limit.below
                    self.trimmed += 1

    def wait(self, life: Life, size: int) -> None:
        self.now += size * 4 * MINUTE_US

    def garbage(self, life: Life, size: int) -> None:
        if size == 1:
            self.log.append((life.name, "garbage"))

    def round(self, life: Life, size: int) -> None:
        """All that live go on, take a checkpoint, publish, and hear what all need."""
        for other in self.lives.values():
            for of in (self.run, self.checkpoint, self.say):
                of(other, 1 + size // 2)
            self.deliver(other, KEEP)
        for other in self.lives.values():
            self.read(other, 0)

    # What must be there -----------------------------------------------------------------------------------------------

    def missing(self) -> Iterator[str]:
        """What a possible start does not find now."""
        for life in self.lives.values():
            node = life.name.node
            starts = {at: self.unreadable(node, at) for at in life.starts}
            gone = {at: lost for at, lost in starts.items() if lost}
            behind = [
                f"{life.name} at {at} takes over from {peer.name}, kept from {peer.topic}"
                for peer in self.peers(life)
                for at in ((*starts, life.f_s) if life.alive else starts)
                if max(peer.kept, default=at) > at and peer.topic > at
            ]
            long = self.now - life.told_us >= SILENCE_US
            life.stood_for = long or (life.stood_for and bool(gone or behind))
            if not life.stood_for:
                yield from behind
            if gone and not (life.stood_for and self.covered(life)):
                yield f"start of {life.name}: {gone}"
            if life.alive and not gone and self.unreadable(node, life.f_s):
                yield f"redo of {life.name} from {life.f_s}"
            if life.topic > self.progress[node]:
                yield f"publishing {node} from {self.progress[node]}: {life.name} kept from {life.topic}"
        for source, first in self.sources.items():
            if first > self.resumable[source]:
                yield f"publisher of {source}"

    def unreadable(self, node: str, at: int) -> str:
        """What a start of the node from bucket `at` lacks; empty: nothing."""
        reads = GRAPH.nodes[node]
        lost = [s for s in reads.sources if self.sources[s] > self.offset(s, at)]
        return ", ".join([*lost, *(n for n in reads.streams if any(up.topic > at for up in self.of(n)))])

    def covered(self, life: Life) -> bool:
        """Whether it can read the checkpoints of a peer that starts from any of them."""
        peers = [peer for peer in self.peers(life) if peer.place == life.place and len(peer.kept) == KEEP]
        return any(not any(self.unreadable(peer.name.node, at) for at in peer.kept) for peer in peers)

    def of(self, node: str) -> list[Life]:
        return [life for life in self.lives.values() if life.name.node == node]

    def peers(self, life: Life) -> list[Life]:
        return [peer for peer in self.of(life.name.node) if peer is not life]

    def offset(self, source: str, bucket: int) -> int:
        return (bucket - ORIGIN) * PACE[source]


def run(steps: list[tuple[int, int, int]]) -> Model:
    """The model after these steps, or after the first one that lost something."""
    model = Model()
    for step in steps:
        model.step(*step)
        if model.lost:
            break
    return model


def totals(model: Model) -> Mapping[str, int]:
    """How much was deleted, by topic."""
    return {**model.sources, **{str(life.name): life.topic - ORIGIN for life in model.lives.values()}}
