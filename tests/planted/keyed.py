"""Planted in operators that keep rows: when a row of a join is decided (A9.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from unittest import mock

from borealis_py.engine.keyed.join import JoinOperator
from borealis_py.engine.keyed.kept_rows import Found, KeptRows
from borealis_py.engine.operators.increments import Partial
from tests.planted.bug import Bug, Script


def _edges_are_decided_a_bucket_early() -> Any:
    """A left row whose result would be the first of a bucket, by its stime, is decided in the bucket before."""
    alone, between = JoinOperator._alone, KeptRows.between

    def early(self: KeptRows, blocks: Sequence[Partial], low_us: int, end_us: int) -> Found:
        return between(self, blocks, low_us + 1, end_us + 1)

    def decide(self: JoinOperator, *given: Any) -> Any:
        with mock.patch.object(KeptRows, "between", early):
            return alone(self, *given)

    return mock.patch.object(JoinOperator, "_alone", decide)


BUGS = (
    Bug(
        "A9 a left row without a pair is decided in the bucket of its result",
        "safety",
        _edges_are_decided_a_bucket_early,
        script=Script(
            "tests/engine/keyed/test_join.py::"
            "test_left_rows_at_the_edges_of_buckets_wait_for_the_bucket_of_their_result[(0, 100)]"
        ),
    ),
)
