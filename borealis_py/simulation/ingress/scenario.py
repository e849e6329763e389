"""What happens in one simulated world of ingresses, drawn from its seed."""

from __future__ import annotations

import random
from dataclasses import dataclass

from borealis_py.query.ingress_spec import BoundaryName, IngressSpec

TOPIC = "prod.orders"
SHOPS = ("berlin", "paris", "rome")
SECOND = 1_000_000
KINDS = (
    "kill", "pause", "cut", "cut_topic", "deaf", "mute", "no_leader", "no_source_leader", "transaction", "retention",
    "grow", "slow",
)  # fmt: skip
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
class IngressScenario:
    """A world: `spec` of the ingress, number of `partitions` and `ingresses`, mean `rate` of records a second,
    `faults`, and when they have all ended (`heal_us`, microseconds after the start). `spoilt`: share of records that
    are no rows in time."""

    seed: int
    spec: IngressSpec
    partitions: int
    ingresses: int
    rate: int
    spoilt: float
    faults: tuple[IngressFault, ...]
    heal_us: int


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
    return IngressScenario(
        seed=seed,
        spec=spec,
        partitions=partitions,
        ingresses=ingresses,
        rate=rng.choice((10, 40, 120)),
        spoilt=rng.choice((0.0, 0.02, 0.1)),
        faults=tuple(_fault(rng, kinds, heal_us, ingresses, partitions) for _ in range(rng.randint(1, 7))),
        heal_us=heal_us,
    )


def _fault(rng: random.Random, kinds: tuple[str, ...], heal_us: int, ingresses: int, partitions: int) -> IngressFault:
    kind, at_us = rng.choice(kinds), rng.randrange(heal_us)
    until_us = min(heal_us, at_us + int(rng.choice((0.05, 0.5, 1.5, 3.0, 6.0)) * SECOND * (0.5 + rng.random())))
    on_partition = kind in ("no_leader", "transaction", "retention")
    return IngressFault(kind, at_us, until_us, rng.randrange(partitions if on_partition else ingresses))
