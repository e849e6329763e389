"""Faults that grow with a backlog: commits that take longer the more they hold, and a corrected stream that is away for
longer than memory holds its rows (F10, F11).
"""

from __future__ import annotations

from collections.abc import Sequence

from borealis_py.log import topics
from borealis_py.log.base import NewRecord
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.cluster.world import SimulatedWorld
from borealis_py.simulation.faults.base import Doing, UndoFault, nothing
from borealis_py.simulation.log.content import rows_by_bucket
from borealis_py.simulation.scenario import ROWS_MAX, Fault
from borealis_py.simulation.toy_query import QUERY


def too_large(records: Sequence[NewRecord]) -> bool:
    """Whether a transaction never commits within the limit: by its rows and dead letters, counted by bucket."""
    found = rows_by_bucket(records)
    return found.total() - max(found.values(), default=0) > ROWS_MAX


def _commits_grow(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """Lasts until the end, even after everything has healed: commits are like that."""
    world.log.too_large = too_large
    return nothing


def _corrected_away(world: SimulatedWorld, fault: Fault) -> UndoFault:
    """No replica can write the corrected stream: its partitions have no leader."""
    away = [topics.stream(APP, QUERY), topics.progress(APP, QUERY)]
    world.log.depose(away)
    return lambda: world.log.elect(away)


FAULTS: dict[str, Doing] = {"commits_grow": _commits_grow, "corrected_away": _corrected_away}
