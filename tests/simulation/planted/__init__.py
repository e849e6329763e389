"""Bugs on purpose, in the product as long as a context lasts: the oracles must find each."""

from __future__ import annotations

from tests.simulation.planted import (
    beside,
    bits,
    chains,
    corrected,
    corrections,
    exchange,
    gaps,
    inputs,
    lasting,
    lives,
    neighbour,
    parted,
    publishers,
    roles,
    sizes,
    trimming,
    twins,
)
from tests.simulation.planted.bug import Bug
from tests.simulation.planted.judged import BUGS as JUDGED

BUGS: tuple[Bug, ...] = (
    *JUDGED,
    *inputs.BUGS,
    *corrections.BUGS,
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
)
