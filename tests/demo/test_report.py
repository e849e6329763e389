"""What the demo's summary says of who corrected what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from borealis_py.demo.report import Facts, _corrected_by_turns


def told(*reconciliations: tuple[int, str, int]) -> tuple[bool, str]:
    """Of query q with two replicas; each reconciliation: replica, engine, jobs on Spark."""
    facts = cast(Facts, SimpleNamespace(spark=True, story=SimpleNamespace(newest={("q", 0): None, ("q", 1): None})))
    found: list[dict[str, Any]] = [{"query": "q", "replica": k, "engine": e, "jobs": j} for k, e, j in reconciliations]
    _, held, detail = _corrected_by_turns(facts, {"reconciliations": found, "overlap_of_reconciliations_s": 0})
    return held, detail


def test_a_replica_that_also_took_a_peers_checkpoint_over_is_counted_there_too() -> None:
    assert told((0, "spark", 2), (1, "spark", 1), (1, "peer", 0)) == (
        True,
        "2 on Spark, 1 from a peer (1 both ways), of 2",
    )


def test_a_replica_that_only_took_over_is_not_on_spark() -> None:
    assert told((0, "spark", 2), (1, "peer", 0)) == (True, "1 on Spark, 1 from a peer, of 2")
