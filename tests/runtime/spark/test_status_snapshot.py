"""What a task tells its driver arrives as it was."""

from __future__ import annotations

from borealis_py.log.messages import InputStatus, RedoStatus
from borealis_py.node.reporter import StatusSnapshot
from borealis_py.protocol.settings import DelayPolicy, Delays
from borealis_py.runtime.spark.replica_task import pack_snapshot, unpack_snapshot
from tests.support.statuses import status


def test_a_snapshot_survives_the_way() -> None:
    inputs = (InputStatus("left", 7, False, True, False, 3),)
    told = status(inputs=inputs, redo=RedoStatus(0, 12, 345, "spark", 1.25, 9), event="REDO")
    snapshot = StatusSnapshot(told, {"q": Delays(1_000_000, DelayPolicy.DELAY)}, {"left": 42})
    assert unpack_snapshot(pack_snapshot(snapshot)) == snapshot


def test_another_versions_is_none() -> None:
    assert unpack_snapshot(b"\x93\x01") is None
