"""What is done to the cluster, drawn from a seed: pure. How it is done: `processes.py`, `inputs.py`, `several.py`.

Kinds come like cards of a shuffled deck, so that a run of some length has each of them about equally often. Lengths are
drawn around the protocol's timeouts, shorter and longer than each. Two faults run at once unless they take the same
thing: at any time one replica of each node, one source and the broker's settings are left to look at, but for the kinds
whose point it is that they are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from borealis_py.protocol.settings import Timing
from tests.harness.foreign import PRODUCER
from tests.harness.links import WAYS
from tests.harness.network import NODE, PARTITIONS, QUERY, WITH_FOREIGN
from tests.harness.plan import INDEX, Member
from tests.harness.poison import WHATS

GAP_S = (3.0, 15.0)
SOURCES = WITH_FOREIGN.sources
HUNG = "c.0"
REPLICAS = 2
LOST_S = (2.0, 8.0)
DOWN_S = (0.5, 4.0)
FEEDERS = ("feeder-a", "feeder-b")
INGRESSES = ("ingress-0", "ingress-1")
BURST = (20, 200)
POISONED = (5, 40)
"""So many rows in a row, each kind of poison in turn."""
STARTS_S = (0.3, 6.0)
"""A process that was started has imported, asked, or begun to read by then."""
FEEDER_STARTS_S = (0.3, 4.0)
"""The same of a publisher, which reads less."""

THREE = 3
AWAY_S = (0.3, 8.0)
"""A broker's session with the controller ends after 3 s."""
COMES_BACK = ("back soon", "back once others lead")
JUMPS_S = {"forward 1 s": 1, "forward 1 h": 3_600, "back 1 h": -3_600, "forward 8 days": 8 * 86_400}
"""Of a clock: beyond a transaction's time, and beyond what Kafka keeps of producers and their transactions."""
CUT_FROM = ("from the brokers", "from the controller", "from both")

_TIMING = Timing()
TRANSACTION_S = 10.0
_PATIENCE_US = _TIMING.patience_us + _TIMING.patience_step_us
_TIMEOUTS_US = (_TIMING.gap_us, _TIMING.suspicion_us, _PATIENCE_US, _TIMING.redo_deadline_us, _TIMING.stagger_us)
TIMEOUTS_S = (*(us / 1e6 for us in _TIMEOUTS_US), TRANSACTION_S)
"""A pause is shorter than one of these, or longer."""
AROUND = (0.6, 1.4)


@dataclass(frozen=True)
class Fault:
    """One thing to do. `on`: a replica's process, a link, a source or nothing; `s`: how long, in the kind's own sense.

    `more`: what else was drawn (which way a link is cut, how many records).
    """

    kind: str
    gap_s: float
    takes: frozenset[str]
    on: str = ""
    s: float = 0.0
    more: str = ""

    @property
    def member(self) -> Member:
        """`on` as a replica, of a node or of a partition."""
        node, _, k = self.on.rpartition(".r")
        return Member(node, int(k))

    def __str__(self) -> str:
        return " ".join(filter(None, (self.kind, self.on, self.more, f"{self.s:.1f} s" if self.s else "")))


class CameToNothing(Exception):
    """All is well again, but what the fault is about did not happen; the message says what. No error of the run."""


Drawn = tuple[Sequence[str], str, float, str]
"""takes, on, s, more"""
Draw = Callable[[Random, float], Drawn]
"""Given the longest that it may last."""


@dataclass(frozen=True)
class Kind:
    """`hosts`: where it can be done. `brokers`: with how many."""

    hosts: tuple[str, ...]
    draw: Draw
    brokers: tuple[int, ...] = (1, 3)


BOTH, SPARK, PROCESS = ("process", "spark"), ("spark",), ("process",)
NODES = (NODE, QUERY)


def _length(rng: Random, longest_s: float) -> float:
    return min(longest_s, round(rng.choice(TIMEOUTS_S) * rng.choice(AROUND), 2))


def _within(rng: Random, span: tuple[float, float], longest_s: float) -> float:
    return min(longest_s, round(rng.uniform(*span), 2))


def _replica(rng: Random) -> tuple[str, str]:
    node = rng.choice(NODES)
    return node, f"{node}.r{rng.randrange(REPLICAS)}"


def _part(rng: Random) -> tuple[str, str]:
    node = rng.choice(NODES)
    return node, f"{node}.{rng.randrange(PARTITIONS)}.r{rng.randrange(REPLICAS)}"


def _killed(rng: Random, longest_s: float) -> Drawn:
    node, on = _replica(rng)
    return (node,), on, _within(rng, DOWN_S, longest_s), ""


def _killed_twice(rng: Random, longest_s: float) -> Drawn:
    node, on = _replica(rng)
    return (node,), on, _within(rng, STARTS_S, longest_s), ""


def _old_life(rng: Random, longest_s: float) -> Drawn:
    node, on = _replica(rng)
    return (node, "settings"), on, 0.0, ""


def _elsewhere(rng: Random, longest_s: float) -> Drawn:
    return ("elsewhere", "settings"), "", _length(rng, longest_s), rng.choice(("paused", "cut off"))


def _at_once(rng: Random, longest_s: float) -> Drawn:
    node, on = _replica(rng)
    return (node,), on, 0.0, ""


def _paused(rng: Random, longest_s: float) -> Drawn:
    node, on = _replica(rng)
    return (node,), on, _length(rng, longest_s), ""


def _part_killed(rng: Random, longest_s: float) -> Drawn:
    node, on = _part(rng)
    return (node,), on, 0.0, ""


def _part_paused(rng: Random, longest_s: float) -> Drawn:
    node, on = _part(rng)
    return (node,), on, _length(rng, longest_s), ""


def _cut(way: str) -> Draw:
    def draw(rng: Random, longest_s: float) -> Drawn:
        node, on = _replica(rng)
        return (node,), on, _length(rng, longest_s), way

    return draw


def _reset(rng: Random, longest_s: float) -> Drawn:
    return (), _replica(rng)[1], 0.0, ""


def _node(rng: Random, longest_s: float) -> Drawn:
    node = rng.choice(NODES)
    return (node,), node, _within(rng, DOWN_S, longest_s), ""


def _zombie(rng: Random, longest_s: float) -> Drawn:
    return (QUERY,), f"{QUERY}.{rng.randrange(PARTITIONS)}", _within(rng, (0.5, 12.0), longest_s), ""


def _hang(rng: Random, longest_s: float) -> Drawn:
    node, on = _replica(rng)
    return (node, "sources", "settings"), on, 0.0, f"source {HUNG}"


def _disk(rng: Random, longest_s: float) -> Drawn:
    return ("disk",), _part(rng)[1], _within(rng, (3.0, 9.0), longest_s), ""


def _lost(rng: Random, longest_s: float) -> Drawn:
    return ("sources", "settings"), rng.choice(SOURCES), _within(rng, LOST_S, longest_s), ""


def _lost_both(rng: Random, longest_s: float) -> Drawn:
    first, second = rng.sample(SOURCES, 2)
    return ("sources", "settings"), first, _within(rng, LOST_S, longest_s), f"then {second}"


def _lost_again(rng: Random, longest_s: float) -> Drawn:
    return ("sources", "settings"), "a", _within(rng, (1.0, 4.0), longest_s), ""


def _feeder(span: tuple[float, float] | None) -> Draw:
    def draw(rng: Random, longest_s: float) -> Drawn:
        on = rng.choice(FEEDERS)
        if span is None:
            return ("sources",), on, _length(rng, longest_s), ""
        return ("sources", "settings"), on, _within(rng, span, longest_s), ""  # another one starts: it needs the broker

    return draw


def _feeder_cut(rng: Random, longest_s: float) -> Drawn:
    on = rng.choice(FEEDERS)
    return ("sources",), on, _length(rng, longest_s), rng.choice(sorted(WAYS))


def _producer(span: tuple[float, float] | None) -> Draw:
    def draw(rng: Random, longest_s: float) -> Drawn:
        if span is None:
            return ("sources",), PRODUCER, _length(rng, longest_s), ""
        return ("sources", "settings"), PRODUCER, _within(rng, span, longest_s), ""

    return draw


def _producer_cut(rng: Random, longest_s: float) -> Drawn:
    return ("sources",), PRODUCER, _length(rng, longest_s), rng.choice(sorted(WAYS))


def _ingress(span: tuple[float, float] | None, ways: Sequence[str] = ("",)) -> Draw:
    def draw(rng: Random, longest_s: float) -> Drawn:
        on, way = rng.choice(INGRESSES), rng.choice(ways)
        if span is None:
            return ("ingresses",), on, _length(rng, longest_s), way
        return ("ingresses", "settings"), on, _within(rng, span, longest_s), way

    return draw


def _burst(rng: Random, longest_s: float) -> Drawn:
    return ("settings",), rng.choice(SOURCES), 0.0, f"{rng.randint(*BURST)} records"


def _poison(rng: Random, longest_s: float) -> Drawn:
    count, first = rng.randint(*POISONED), rng.randrange(len(WHATS))
    return ("poison",), rng.choice(SOURCES), 0.0, f"{count} rows from {WHATS[first]}"


def _broker(span: tuple[float, float]) -> Draw:
    def draw(rng: Random, longest_s: float) -> Drawn:
        return ("broker", "settings"), "", _within(rng, span, longest_s), ""

    return draw


def _of_three(span: tuple[float, float], ways: Sequence[str] = ("",)) -> Draw:
    """What is done to one of three brokers."""

    def draw(rng: Random, longest_s: float) -> Drawn:
        on, way = f"broker-{rng.randint(1, THREE)}", rng.choice(ways)
        return ("broker", "settings"), on, _within(rng, span, longest_s), way

    return draw


def _controller(rng: Random, longest_s: float) -> Drawn:
    return ("broker", "settings"), "", _within(rng, AWAY_S, longest_s), ""


def _all_brokers(rng: Random, longest_s: float) -> Drawn:
    return ("broker", "settings"), "", 0.0, ""


def _cut_from_one(rng: Random, longest_s: float) -> Drawn:
    node, on = _replica(rng)
    way = rng.choice(sorted(WAYS))
    return (node, "broker"), on, _length(rng, longest_s), f"{way}, broker-{rng.randint(1, THREE)}"


def _subscriber(rng: Random, longest_s: float) -> Drawn:
    return ("subscriber", "settings"), "", _within(rng, (0.5, 5.0), longest_s), ""


KINDS: dict[str, Kind] = {
    "replica killed": Kind(PROCESS, _killed),
    "driver killed": Kind(SPARK, _killed),
    "killed while starting": Kind(BOTH, _killed_twice),
    "old life": Kind(BOTH, _old_life),
    "reset elsewhere": Kind(BOTH, _elsewhere),
    "executor JVM killed": Kind(SPARK, _at_once),
    "worker killed": Kind(SPARK, _part_killed),
    "replica paused": Kind(BOTH, _paused),
    "driver paused": Kind(SPARK, _paused),
    "worker paused": Kind(SPARK, _part_paused),
    "link cut": Kind(BOTH, _cut("both")),
    "link cut to": Kind(BOTH, _cut("to the broker")),
    "link cut from": Kind(BOTH, _cut("from the broker")),
    "connections reset": Kind(BOTH, _reset),
    "node killed": Kind(BOTH, _node),
    "zombie publisher": Kind(BOTH, _zombie),
    "redo hangs": Kind(SPARK, _hang),
    "disk full": Kind(BOTH, _disk),
    "source lost": Kind(BOTH, _lost),
    "two sources lost": Kind(BOTH, _lost_both),
    "lost in STABILIZATION": Kind(BOTH, _lost_again),
    "feeder killed": Kind(BOTH, _feeder(DOWN_S)),
    "feeder paused": Kind(BOTH, _feeder(None)),
    "feeder zombie": Kind(BOTH, _feeder((0.5, 6.0))),
    "feeder cut": Kind(BOTH, _feeder_cut),
    "feeder killed starting": Kind(BOTH, _feeder(FEEDER_STARTS_S)),
    "producer killed": Kind(BOTH, _producer(DOWN_S)),
    "producer paused": Kind(BOTH, _producer(None)),
    "producer cut": Kind(BOTH, _producer_cut),
    "ingress killed": Kind(BOTH, _ingress(DOWN_S)),
    "ingress killed starting": Kind(BOTH, _ingress(FEEDER_STARTS_S)),
    "ingresses killed": Kind(BOTH, _ingress(DOWN_S)),
    "ingress paused": Kind(BOTH, _ingress(None)),
    "ingress cut": Kind(BOTH, _ingress(None, sorted(WAYS))),
    "poison rows": Kind(BOTH, _poison),
    "malformed burst": Kind(BOTH, _burst),
    "broker killed": Kind(BOTH, _broker((0.2, 3.0)), (1,)),
    "broker restarted": Kind(BOTH, _broker((0.2, 3.0)), (1,)),
    "broker paused": Kind(BOTH, _broker((0.5, 6.0)), (1,)),
    "one broker killed": Kind(BOTH, _of_three(AWAY_S, COMES_BACK), (THREE,)),
    "one broker restarted": Kind(BOTH, _of_three(AWAY_S, COMES_BACK), (THREE,)),
    "one broker paused": Kind(BOTH, _of_three((0.5, 8.0)), (THREE,)),
    "one broker cut off": Kind(BOTH, _of_three((1.0, 10.0), CUT_FROM), (THREE,)),
    "one broker's disk full": Kind(BOTH, _of_three((0.5, 4.0)), (THREE,)),
    "one broker's clock moved": Kind(BOTH, _of_three((0.5, 8.0), tuple(JUMPS_S)), (THREE,)),
    "brokers rolled": Kind(BOTH, _all_brokers, (THREE,)),
    "leaders moved": Kind(BOTH, _all_brokers, (THREE,)),
    "coordinator killed": Kind(BOTH, _controller, (THREE,)),
    "too few in sync": Kind(BOTH, _of_three((0.5, 5.0)), (THREE,)),
    "controller killed": Kind(BOTH, _controller, (THREE,)),
    "controller paused": Kind(BOTH, _controller, (THREE,)),
    "cut from one broker": Kind(BOTH, _cut_from_one, (THREE,)),
    "subscriber killed": Kind(BOTH, _subscriber),
    "subscriber paused": Kind(BOTH, _subscriber),
}
"""By name, as tables and the ledger have them."""


def kinds_of(host: str, brokers: int = 1) -> list[str]:
    """Those that can be done where replicas run so, on so many brokers."""
    return [name for name, kind in KINDS.items() if host in kind.hosts and brokers in kind.brokers]


def draw(
    seed: int,
    count: int,
    kinds: Sequence[str],
    gap_s: tuple[float, float] = GAP_S,
    longest_s: float = float("inf"),
    apart: bool = True,
) -> list[Fault]:
    """`count` faults in the order in which they are to begin.

    Args:
        kinds: names in KINDS.
        apart: nodes have processes of their own; else what strikes a process strikes its index of all nodes.
        gap_s: between two beginnings. longest_s: no fault is drawn longer.
    """
    rng = Random(seed)
    cards = _cards(rng, kinds)
    out = []
    for _ in range(count):
        name = next(cards)
        gap = round(rng.uniform(*gap_s), 2)
        takes, on, s, more = KINDS[name].draw(rng, longest_s)
        fault = Fault(name, gap, frozenset(takes), on, s, more)
        out.append(fault if apart else _of_index(fault))
    return out


def _of_index(fault: Fault) -> Fault:
    """The same where one process runs an index of all nodes."""
    node, _, k = fault.on.rpartition(".r")
    if node not in NODES:
        return fault
    return replace(fault, on=f"{INDEX}.r{k}", takes=fault.takes - {node} | set(NODES))


def _cards(rng: Random, kinds: Sequence[str]) -> Iterator[str]:
    while True:
        deck = list(kinds)
        rng.shuffle(deck)
        yield from deck
