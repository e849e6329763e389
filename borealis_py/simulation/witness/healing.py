"""How soon a healed world must be well: all replicas STABLE, current and published (A10).

Derived from the protocol's constants. The first replica of a node may wait for a head that has died or hangs (T); once
it is STABLE it saves a checkpoint, and the others adopt that, all at once (R14.3); nodes of a chain correct while those
before them still do.
"""

from __future__ import annotations

from borealis_py.protocol.settings import Timing
from borealis_py.simulation.scenario import SECOND, Scenario

START_US = 3 * SECOND
"""A process restarts (0.3 s, and again if its log was away), a publisher watches for a predecessor (1.5 s), and the
log's first answers and a fence take a second.
"""
SAVED_US = SECOND // 2
"""Time until a checkpoint is acknowledged and written."""
INLINE_US = SECOND
"""The rest of a failed job, run in slices of turns: at most a few seconds' rows."""
SLOW = 3
"""Rows that take long are run in jobs that each take time to start, and new ones come meanwhile."""


def bound_us(scenario: Scenario, depth: int) -> int:
    """The latest time after healing, in simulated microseconds. `depth`: nodes in the longest chain."""
    timing = scenario.timing
    most = max(plan.replicas for plan in scenario.nodes)
    correcting = _one_us(timing)
    if most > 1:
        correcting += timing.stagger_us + timing.adopt_deadline_us + timing.heartbeat_us + SAVED_US
    # Where rows take time, each node runs all that a failure has left, and meanwhile what goes on arriving.
    correcting += SLOW * depth * scenario.rows_us(scenario.busiest * scenario.heal_us // SECOND)
    publishing = timing.patience_us + timing.patience_step_us * (most - 1) + timing.patience_unknown_us
    starting = START_US + 2 * scenario.starts_us  # one start that fails, and another
    if scenario.eaten and any(scenario.may_lose(plan.name) for plan in scenario.nodes):
        starting += timing.ahead_max_us + (scenario.lateness_us or 0)  # what is lost may yet come (R18.9)
    return starting + correcting + (depth - 1) * (INLINE_US + timing.hop_us) + publishing


def _one_us(timing: Timing) -> int:
    """One reconciliation: a job that hangs until its deadline, then inline."""
    return timing.redo_deadline_most_us + INLINE_US
