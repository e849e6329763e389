"""Where an incarnation begins, and what its checkpoints hold."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from borealis_py.node.starting import rebuild_buckets
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay


@pytest.mark.parametrize("way", RecoveryWay, ids=str)
@pytest.mark.parametrize("unbounded", [(), ("window(rows=9)",)], ids=["bounded", "unbounded"])
def test_only_a_state_that_a_start_can_rebuild_is_left_out_of_checkpoints(
    way: RecoveryWay, unbounded: tuple[str, ...]
) -> None:
    """Whatever a setting written by hand says: who runs such a node keeps its state."""
    spec: Any = SimpleNamespace(recovery=RecoveryPlan(way))
    kernel: Any = SimpleNamespace(lookback_buckets=7, unbounded=unbounded)
    rebuilt = way in (RecoveryWay.UPSTREAM_BACKUP, RecoveryWay.AMNESIA) and not unbounded
    assert rebuild_buckets(spec, kernel) == (7 if rebuilt else None)
