"""Planted bugs: each rule that tests switch off in the product, and who must notice."""

from __future__ import annotations

from tests.planted import (
    beside,
    bits,
    chains,
    corrected,
    corrections,
    exchange,
    gaps,
    ingress,
    inputs,
    judged,
    lasting,
    lives,
    neighbour,
    parted,
    publishers,
    roles,
    sizes,
    starts,
    trimming,
    turns,
    twins,
)
from tests.planted.bug import Bug

BUGS: tuple[Bug, ...] = (
    *judged.BUGS,
    *inputs.BUGS,
    *corrections.BUGS,
    *turns.BUGS,
    *starts.BUGS,
    *lasting.BUGS,
    *corrected.BUGS,
    *chains.BUGS,
    *exchange.BUGS,
    *twins.BUGS,
    *beside.BUGS,
    *parted.BUGS,
    *sizes.BUGS,
    *neighbour.BUGS,
    *lives.BUGS,
    *publishers.BUGS,
    *bits.BUGS,
    *trimming.BUGS,
    *roles.BUGS,
    *gaps.BUGS,
    *ingress.BUGS,
)
