"""Status records made by hand."""

from __future__ import annotations

from borealis_py.log.messages import InputStatus, Status
from borealis_py.node.reporter import StatusSnapshot
from borealis_py.protocol.settings import Delays

BUCKET_US = 100_000
WALL_US = 1_700_000_000_000_000
NOW = WALL_US // BUCKET_US


def source(
    name: str,
    closed: int = NOW,
    late: bool = False,
    reachable: bool = True,
    ended: bool = False,
    tuples: int = 0,
    lateness_us: int = 0,
) -> InputStatus:
    return InputStatus(name, closed, late, reachable, ended, 0, tuples, lateness_us)


def status(**changes: object) -> Status:
    fields: dict[str, object] = {
        "node": "q", "replica": 0, "inc": 1, "uid": "u", "pid": 1, "at_wall_us": WALL_US, "state": "STABLE",
        "f_s": NOW, "f_l": NOW, "asking": False, "granted": False, "head": None, "publishing": True, "progress": NOW,
        "stable_rows": 5, "tentative_rows": 7, "stable_buckets": 0, "tentative_buckets": 2, "tuples_in": 9,
        "rejected": 0, "checkpoint_bucket": 0, "checkpoint_wall_us": 0, "threshold_us": 3_000_000,
        "failure_policy": "process", "stabilization_policy": "process", "inputs": (source("s"),),
    }  # fmt: skip
    return Status(**{**fields, **changes})  # type: ignore[arg-type]


def snapshot(
    delays: Delays | None = None, failed_until: dict[str, int] | None = None, **changes: object
) -> StatusSnapshot:
    """A snapshot as a loop leaves it."""
    found = status(**changes)
    return StatusSnapshot(found, {} if delays is None else {found.node: delays}, failed_until or {})
