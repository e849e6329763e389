"""What happens in one simulated world of ingresses, drawn from its seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from borealis_py.query.ingress_spec import BoundaryName, IngressSpec
from sunion.model import FOREVER

TOPIC = "prod.orders"
SHOPS = ("berlin", "paris", "rome")
SECOND = 1_000_000
KINDS = (
    "kill",
    "pause",
    "cut",
    "cut_topic",
    "deaf",
    "mute",
    "no_leader",
    "no_source_leader",
    "transaction",
    "retention",
    "grow",
    "slow",
)
"""`cut`: an ingress from everything; `cut_topic`: from the foreign topic; `deaf`, `mute`: in one direction;
`transaction`: a producer's stays open; `grow`: the topic gets a partition; `slow`: an ingress's requests take long."""


@dataclass(frozen=True, slots=True)
class IngressFault:
    """One fault: its `kind`, when it begins and ends (microseconds after the start), and what it strikes: an ingress or
    a partition, by number."""

    kind: str
    at_us: int
    until_us: int
    target: int


@dataclass(frozen=True, slots=True)
class SourceFault:
    """The followers of the source fall behind (`kind` "lagging"), and become leaders in the end ("truncated"); or
    somebody else has written into it and neither commits nor aborts ("stranger"); from `at_us` to `until_us`
    (microseconds after the start)."""

    kind: str
    at_us: int
    until_us: int


@dataclass(frozen=True, slots=True)
class IngressSetting:
    """What a user sets, `at_us` microseconds after the start. `kind`: "skip" or "keep" a `partition`, "expect" silence
    for `expect_us` (None: not at all), or "end"."""

    kind: str
    at_us: int
    partition: int = 0
    expect_us: int | None = None


@dataclass(frozen=True, slots=True)
class MadeAgain:
    """The topic is deleted at `at_us` and made again at `again_us` (microseconds after the start). `refilled`: how many
    records each partition then gets at once, beyond as many as it had (less than 0: fewer); None: none. `down`: all
    ingresses are killed before, and start when that is done."""

    at_us: int
    again_us: int
    refilled: int | None
    down: bool


@dataclass(frozen=True, slots=True)
class ClockJump:
    """The wall clock of an `ingress` (None: of all, which one machine runs) is ahead by `ahead_us` from `at_us` to
    `until_us` (microseconds after the start). `boots`: the machine does, with that clock."""

    ingress: int | None
    at_us: int
    until_us: int
    ahead_us: int
    boots: bool


@dataclass(frozen=True, slots=True)
class IngressScenario:
    """A world: `spec` of the ingress, number of `partitions` and `ingresses`, mean `rate` of records a second,
    `faults`, and when they have all ended (`heal_us`, microseconds after the start). `spoilt`: share of records that
    are no rows in time. `settings`: in the order of their times. `lasting`: a partition that cannot be read from that
    time on (partition, microseconds after the start), longer than all faults last, and is skipped; None: there is none.
    `made_again`: what becomes of the topic; None: nothing. `jumps`: of clocks. `source_faults`: of the broker, about
    the source.
    """

    seed: int
    spec: IngressSpec
    partitions: int
    ingresses: int
    rate: int
    spoilt: float
    faults: tuple[IngressFault, ...]
    heal_us: int
    settings: tuple[IngressSetting, ...] = ()
    lasting: tuple[int, int] | None = None
    made_again: MadeAgain | None = None
    jumps: tuple[ClockJump, ...] = ()
    source_faults: tuple[SourceFault, ...] = ()

    @property
    def end_us(self) -> int | None:
        """When the source is to end, after the start; None: it is not."""
        return next((one.at_us for one in self.settings if one.kind == "end"), None)

    def skipped(self, partition: int) -> list[tuple[int, int]]:
        """From when to when a partition was given up, after the start."""
        found: list[tuple[int, int]] = []
        for one in self.settings:
            if one.partition == partition and one.kind == "skip":
                found.append((one.at_us, FOREVER))
            elif one.partition == partition and one.kind == "keep" and found:
                found[-1] = (found[-1][0], min(found[-1][1], one.at_us))
        return found

    def abandoned(self) -> list[tuple[int, int]]:
        """From when to when all partitions that the topic had at first were given up, after the start."""
        found = []
        for at_us, _ in (one for p in range(self.partitions) for one in self.skipped(p)):
            untils = [[until for of, until in self.skipped(p) if of <= at_us < until] for p in range(self.partitions)]
            if all(untils):
                found.append((at_us, min(max(one) for one in untils)))
        return found

    def expected(self) -> list[tuple[int, int | None]]:
        """(until when, after the start; what silence was expected), in this order; the last one lasts."""
        found: list[tuple[int, int | None]] = []
        expect_us = self.spec.expect_us
        for one in self.settings:
            if one.kind == "expect":
                found.append((one.at_us, expect_us))
                expect_us = one.expect_us
        return [*found, (FOREVER, expect_us)]


def draw_ingress(seed: int, kinds: tuple[str, ...] = KINDS) -> IngressScenario:
    """The scenario of this seed, with faults of these kinds only."""
    rng = random.Random(f"ingress {seed}")
    partitions = rng.choice((1, 2, 3, 4))
    boundary: BoundaryName = rng.choice(("clock", "clock", "clock", "data"))
    lateness_us = rng.choice((0, 200_000, 1_000_000))
    spec = IngressSpec(
        topic=TOPIC,
        stime="at",
        lateness_us=lateness_us,
        boundary=boundary,
        expect_us=1_000_000 if boundary == "clock" and rng.random() < 0.25 else None,
        start=rng.choice(("latest", "earliest")),
    )
    if rng.random() < 0.3:
        spec = spec.model_copy(update={"by": "shop", "values": SHOPS[:2], "inputs": 3})
    else:
        spec = spec.model_copy(update={"inputs": rng.randint(1, partitions)})
    heal_us = rng.randint(8, 20) * SECOND
    ingresses = rng.choice((2, 2, 3))
    rate, spoilt = rng.choice((10, 40, 120)), rng.choice((0.0, 0.02, 0.1))
    faults = tuple(_fault(rng, kinds, heal_us, ingresses, partitions) for _ in range(rng.randint(1, 7)))
    settings, lasting = draw_settings(seed, spec, partitions, heal_us, faults)
    return IngressScenario(
        seed=seed,
        spec=spec,
        partitions=partitions,
        ingresses=ingresses,
        rate=rate,
        spoilt=spoilt,
        faults=faults,
        heal_us=heal_us,
        settings=settings,
        lasting=lasting,
        made_again=_made_again(seed, heal_us),
        jumps=_jumps(seed, heal_us, ingresses),
        source_faults=_source_faults(seed, heal_us),
    )


def _made_again(seed: int, heal_us: int) -> MadeAgain | None:
    """In a third of all worlds, drawn apart as settings are."""
    rng = random.Random(f"made again {seed}")
    if rng.random() < 2 / 3:
        return None
    down, at_us = rng.random() < 0.5, rng.randint(SECOND, heal_us - 4 * SECOND)
    gap_us = rng.randrange(0 if down else SECOND, 4 * SECOND)
    return MadeAgain(at_us, at_us + gap_us, rng.choice((None, -2, -1, 0, 1, 3, 20)), down)


def _jumps(seed: int, heal_us: int, ingresses: int) -> tuple[ClockJump, ...]:
    """In a third of all worlds, drawn apart as settings are."""
    rng = random.Random(f"clocks {seed}")
    if rng.random() < 2 / 3:
        return ()
    found = []
    for _ in range(rng.randint(1, 2)):
        at_us = rng.randrange(heal_us)
        until_us = min(heal_us, at_us + rng.randrange(10 * SECOND))
        ahead_us = rng.choice((-365 * 86_400, -3_600, -90, -5, -0.3, 0.2, 1, 2))
        boots = rng.random() < 0.5
        ingress = rng.choice((None, rng.randrange(ingresses)))
        found.append(ClockJump(ingress, at_us, until_us, int(ahead_us * SECOND), boots))
    return tuple(found)


def _source_faults(seed: int, heal_us: int) -> tuple[SourceFault, ...]:
    """In a third of all worlds, drawn apart as settings are."""
    rng = random.Random(f"source {seed}")
    if rng.random() < 2 / 3:
        return ()
    found = []
    for _ in range(rng.randint(1, 3)):
        at_us = rng.randrange(heal_us)
        until_us = min(heal_us, at_us + rng.choice((50_000, 500_000, 2 * SECOND, 5 * SECOND)))
        found.append(SourceFault(rng.choice(("lagging", "truncated", "stranger")), at_us, until_us))
    return tuple(found)


def draw_settings(
    seed: int, spec: IngressSpec, partitions: int, heal_us: int, faults: Sequence[IngressFault]
) -> tuple[tuple[IngressSetting, ...], tuple[int, int] | None]:
    """What users set in the world of this seed, and the partition that they skip for good: in half of all worlds, and
    drawn apart, so that the rest of a world is the same with and without. The end mostly comes while a fault lasts:
    only then is there much that has not been read."""
    rng = random.Random(f"settings {seed}")
    found: list[IngressSetting] = []
    lasting: tuple[int, int] | None = None
    if rng.random() < 0.5:
        return (), None
    for _ in range(rng.randint(1, 3)):
        kind, at_us, partition = (
            rng.choice(("skip", "skip", "expect")),
            rng.randrange(heal_us),
            rng.randrange(partitions),
        )
        if kind == "skip":
            found.append(IngressSetting("skip", at_us, partition))
            if rng.random() < 0.7:
                found.append(IngressSetting("keep", at_us + rng.randrange(5 * SECOND), partition))
        elif spec.boundary == "clock":
            found.append(IngressSetting("expect", at_us, expect_us=rng.choice((None, 500_000, 2 * SECOND))))
    if rng.random() < 0.4:
        lasting = rng.randrange(partitions), rng.randrange(heal_us)
        at_us = lasting[1] + rng.randrange(2 * SECOND)
        found = [one for one in found if one.partition != lasting[0] or one.kind == "expect"]
        found.append(IngressSetting("skip", min(at_us, heal_us), lasting[0]))
    if rng.random() < 0.4:
        during = rng.choice(faults)
        at_us = rng.randint(during.at_us, during.until_us) if rng.random() < 0.7 else rng.randrange(heal_us)
        found.append(IngressSetting("end", at_us))
    return tuple(sorted(found, key=lambda one: one.at_us)), lasting


def _fault(rng: random.Random, kinds: tuple[str, ...], heal_us: int, ingresses: int, partitions: int) -> IngressFault:
    kind, at_us = rng.choice(kinds), rng.randrange(heal_us)
    until_us = min(heal_us, at_us + int(rng.choice((0.05, 0.5, 1.5, 3.0, 6.0)) * SECOND * (0.5 + rng.random())))
    on_partition = kind in ("no_leader", "transaction", "retention")
    return IngressFault(kind, at_us, until_us, rng.randrange(partitions if on_partition else ingresses))
