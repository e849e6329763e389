"""What happens in one simulated world, drawn from its seed: sizes, latencies, policies and a list of faults.

A scenario is a value: the same seed gives the same one, and one with fewer faults is a smaller world to look at.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from borealis_py.protocol.settings import DelayPolicy, Delays, Timing
from borealis_py.sim.delays import Delays as Latencies
from borealis_py.sim.delays import between

START_US = 1_700_000_000_000_000
SECOND = 1_000_000


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that goes wrong from `at_us` to `until_us` (since the start). `index`: which source or replica."""

    kind: str
    index: int
    at_us: int
    until_us: int
    detail: str = ""

    def __str__(self) -> str:
        what = f"{self.kind}({self.index}{', ' + self.detail if self.detail else ''})"
        return f"{self.at_us / 1e6:7.3f} .. {self.until_us / 1e6:7.3f} s  {what}"


@dataclass(frozen=True, slots=True)
class Scenario:
    """One world. `heal_us`: when the last fault has ended. `rate`: tuples a second and source."""

    seed: int
    sources: int
    replicas: int
    width_us: int
    span: int
    rate: int
    delays: Delays
    timing: Timing
    latencies: Latencies
    turn_us: tuple[int, int]
    poll_records_max: int | None
    heal_us: int
    ends: bool
    faults: tuple[Fault, ...] = field(default=())

    def without(self, index: int) -> Scenario:
        """The same without one fault."""
        return replace(self, faults=self.faults[:index] + self.faults[index + 1 :])

    @property
    def threshold_max_us(self) -> int:
        """The largest delay threshold that is ever in force."""
        changed = [int(f.detail) for f in self.faults if f.kind == "threshold"]
        return max([self.delays.threshold_us, *changed])

    @property
    def suspends(self) -> bool:
        """Some policy of it holds tentative results back altogether."""
        mine = {self.delays.failure, self.delays.stabilization}
        return DelayPolicy.SUSPEND in mine or any(f.kind == "policy" and "suspend" in f.detail for f in self.faults)

    def __str__(self) -> str:
        d = self.delays
        head = (
            f"{self.sources} sources of {self.rate} tuples/s, {self.replicas} replicas, W {self.width_us / 1e3:g} ms, "
            f"window {self.span} buckets, X {d.threshold_us / 1e6:g} s, {d.failure.value}/{d.stabilization.value}, "
            f"memory {self.timing.buffer_rows_max} rows, heals at {self.heal_us / 1e6:g} s"
        )
        return "\n".join([head, *(f"  [{i}] {fault}" for i, fault in enumerate(self.faults))])


#: kind: (weight, is about a source, longest duration in seconds)
KINDS: dict[str, tuple[int, bool, float]] = {
    "source_hangs": (4, True, 7),
    "source_cut": (8, True, 7),
    "source_crashes": (4, True, 5),
    "source_duel": (3, True, 4),
    "source_failed": (4, True, 6),
    "garbage": (3, True, 0),
    "crash": (6, False, 5),
    "pause": (4, False, 6),
    "zombie": (3, False, 3),
    "cut_all": (3, False, 4),
    "cut_control": (2, False, 5),
    "cut_own": (2, False, 4),
    "cut_source": (3, False, 5),
    "cut_corrected": (2, False, 4),
    "redos": (6, False, 8),
    "commits": (3, False, 5),
    "threshold": (1, False, 0),
    "policy": (1, False, 0),
    "nonsense": (1, False, 0),
    "broker_gone": (1, False, 2),
}


def draw(seed: int, kinds: Sequence[str] = ()) -> Scenario:
    """The scenario of this seed. `kinds`: draw faults of these kinds only."""
    rng = random.Random(f"scenario {seed}")
    sources = rng.choice((1, 2, 2, 3, 3, 4))
    replicas = rng.choices((1, 2, 3), (1, 8, 1))[0]
    heal_us = rng.randrange(8 * SECOND, 18 * SECOND)
    rate = rng.choice((5, 20, 20, 50, 100))
    low = rng.choice((200, 500, 1_000))
    message = between(low, low * rng.choice((2, 5, 10)))
    return Scenario(
        seed=seed,
        sources=sources,
        replicas=replicas,
        width_us=rng.choice((100_000, 100_000, 100_000, 50_000, 200_000)),
        span=rng.choice((1, 3, 10, 20)),
        rate=rate,
        delays=Delays(rng.choice((1_000_000, 2_000_000, 3_000_000, 4_000_000)), *_policies(rng)),
        timing=Timing(
            inline_rows=rng.choice((0, 20, 100, 2_000)),
            redo_rows=rng.choice((4 * rate * sources, 20_000, 20_000)),  # a job must be faster than life
            slice_buckets=rng.choice((3, 20, 20)),
            publish_buckets=rng.choice((5, 200)),
            checkpoint_us=rng.choice((500_000, 2_000_000)),
            buffer_rows_max=rng.choice((2 * rate * sources, 2_000_000, 2_000_000)),
        ),
        latencies=Latencies(append=message, ack=message, fetch=message, fence=between(50_000, 800_000)),
        turn_us=(1_000, rng.choice((3_000, 5_000, 8_000))),
        poll_records_max=rng.choice((10, 40, None)),
        heal_us=heal_us,
        ends=rng.random() < 0.4,
        faults=_faults(rng, sources, replicas, heal_us, kinds or tuple(KINDS)),
    )


def _policies(rng: random.Random) -> tuple[DelayPolicy, DelayPolicy]:
    if rng.random() < 0.75:
        return DelayPolicy.PROCESS, DelayPolicy.PROCESS
    return rng.choice(list(DelayPolicy)), rng.choice(list(DelayPolicy))


def _faults(rng: random.Random, sources: int, replicas: int, heal_us: int, kinds: Sequence[str]) -> tuple[Fault, ...]:
    weights = [KINDS[kind][0] for kind in kinds]
    faults = []
    for kind in rng.choices(kinds, weights, k=rng.randint(1, 8)):
        _, of_source, longest = KINDS[kind]
        at = rng.randrange(SECOND, heal_us - SECOND)
        until = min(heal_us, at + int((0.1 + rng.random() ** 1.5 * longest) * SECOND))
        index = rng.randrange(sources if of_source else replicas)
        faults.append(Fault(kind, index, at, until, _detail(rng, kind, sources)))
    return tuple(sorted(faults, key=lambda f: f.at_us))


def _detail(rng: random.Random, kind: str, sources: int) -> str:
    if kind == "cut_source":
        return str(rng.randrange(sources))
    if kind == "redos":
        return rng.choice(("hang", "fail", "slow", "late"))
    if kind == "threshold":
        return str(rng.choice((1_000_000, 2_000_000, 3_000_000)))
    if kind == "policy":
        return "/".join(p.value for p in _policies(rng))
    return ""
