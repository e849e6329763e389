"""What each way can promise for which operators: the class table of the paper."""

from __future__ import annotations

import pytest

from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.query.recovery import Guarantee, RecoveryWay
from borealis_py.recovery.ways import RecoveryType, guarantee, recovery_type, refusal

ACTIVE, STANDBY, PASSIVE, UPSTREAM, AMNESIA = RecoveryWay
REPEATABLE, CONVERGENT, DETERMINISTIC, ARBITRARY = OperatorClass
REPEATING, CONVERGES, DIVERGES = RecoveryType


@pytest.mark.parametrize(
    ("way", "row"),
    [
        (PASSIVE, [REPEATING, REPEATING, REPEATING, DIVERGES]),
        (UPSTREAM, [REPEATING, CONVERGES, DIVERGES, DIVERGES]),
        (STANDBY, [REPEATING, REPEATING, REPEATING, DIVERGES]),
        (AMNESIA, [None] * 4),
    ],
)
def test_the_cells_are_those_of_table_2(way: RecoveryWay, row: list[RecoveryType | None]) -> None:
    assert [recovery_type(way, operators) for operators in OperatorClass] == row


def test_what_does_not_diverge_is_precise_here() -> None:
    for way in RecoveryWay:
        for operators in OperatorClass:
            kept = recovery_type(way, operators) in (REPEATING, CONVERGES)
            assert (guarantee(way, operators) is Guarantee.PRECISE) is kept
            assert (refusal(way, operators) == "") is kept


def test_a_refusal_names_the_cell_or_who_would_read_the_gap() -> None:
    assert refusal(UPSTREAM, DETERMINISTIC).startswith("divergent for deterministic nodes (table 2")
    assert refusal(STANDBY, ARBITRARY).startswith("divergent for arbitrary nodes (table 2")
    assert refusal(AMNESIA, REPEATABLE, ["a", "b"]).endswith("and a, b would read the gap")
    assert "read the gap" not in refusal(AMNESIA, CONVERGENT)


def test_amnesia_is_had_where_gaps_are_and_the_state_has_a_bound() -> None:
    assert refusal(AMNESIA, CONVERGENT, least=Guarantee.GAP) == ""
    assert "read the gap" in refusal(AMNESIA, CONVERGENT, ["a"], least=Guarantee.GAP)
    for found in (
        refusal(AMNESIA, DETERMINISTIC, unbounded=["window(rows=9)"], least=Guarantee.GAP),
        refusal(AMNESIA, CONVERGENT, unbounded=["window(rows=9)"], least=Guarantee.GAP),
    ):
        assert found.endswith("its window(rows=9) may stand on any earlier row")
