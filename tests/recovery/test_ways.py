"""What each way promises for which operators, and what is refused because of it."""

from __future__ import annotations

import itertools

import pytest

from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.query.errors import QueryError
from borealis_py.query.recovery import Guarantee, RecoveryWay
from borealis_py.recovery.ways import check_way, guarantee

BACKUP = RecoveryWay.UPSTREAM_BACKUP
COUNT = ["window(rows=9)"]


def test_the_paper_s_table() -> None:
    """H 91-97, 211-227."""
    precise = {
        (way, of)
        for way, of in itertools.product(RecoveryWay, OperatorClass)
        if guarantee(way, of) is Guarantee.PRECISE
    }
    of = OperatorClass
    replayed = (RecoveryWay.ACTIVE, RecoveryWay.ACTIVE_STANDBY, RecoveryWay.PASSIVE_STANDBY)
    assert precise == {
        *itertools.product(replayed, (of.REPEATABLE, of.CONVERGENT, of.DETERMINISTIC)),
        (BACKUP, of.REPEATABLE),
        (BACKUP, of.CONVERGENT),
    }
    assert {guarantee(RecoveryWay.AMNESIA, one) for one in OperatorClass} == {Guarantee.GAP}


@pytest.mark.parametrize(("way", "of"), list(itertools.product(RecoveryWay, OperatorClass)), ids=str)
@pytest.mark.parametrize("least", Guarantee, ids=str)
def test_what_is_promised_and_bounded_is_taken_and_nothing_else(
    way: RecoveryWay, of: OperatorClass, least: Guarantee
) -> None:
    order = list(Guarantee)
    enough = order.index(guarantee(way, of)) <= order.index(least)
    unbounded = COUNT if of is OperatorClass.DETERMINISTIC else []
    if enough and not (way in (BACKUP, RecoveryWay.AMNESIA) and unbounded):
        check_way(way, least, of, unbounded, "query 'q'")
        return
    with pytest.raises(QueryError, match=r"^query 'q': ") as refused:
        check_way(way, least, of, unbounded, "query 'q'")
    assert ("window(rows=9)" in str(refused.value)) == bool(unbounded and (way is BACKUP or enough))


def test_a_gap_is_for_clients_alone() -> None:
    for least in Guarantee:
        with pytest.raises(
            QueryError, match=r"query 'q': amnesia loses .* and a, b would read the gap. Choose passive"
        ):
            check_way(RecoveryWay.AMNESIA, least, OperatorClass.REPEATABLE, (), "query 'q'", ["a", "b"])
    with pytest.raises(
        QueryError, match=r'amnesia gives gap, not precise.* or say guarantee="gap" if results may be lost$'
    ):
        check_way(RecoveryWay.AMNESIA, Guarantee.PRECISE, OperatorClass.CONVERGENT, (), "query 'q'")


def test_what_would_not_help_is_not_offered() -> None:
    with pytest.raises(QueryError, match=r"lost. Choose passive-standby, active-standby or active$"):
        check_way(RecoveryWay.AMNESIA, Guarantee.PRECISE, OperatorClass.DETERMINISTIC, COUNT, "query 'q'")


def test_the_cell_and_the_operator_are_named() -> None:
    with pytest.raises(
        QueryError,
        match=r"query 'q': upstream-backup of a node that is deterministic gives rollback, not precise \(divergent, "
        r"table 2 of Hwang et al.\): its "
        r"window\(rows=9\) may stand on any earlier row. Choose passive-standby, active-standby or active",
    ):
        check_way(BACKUP, Guarantee.PRECISE, OperatorClass.DETERMINISTIC, COUNT, "query 'q'")


def test_less_is_not_taken_either_where_replicas_would_differ() -> None:
    with pytest.raises(QueryError, match=r'replicas must give equal bits, so guarantee="rollback" does not help'):
        check_way(BACKUP, Guarantee.ROLLBACK, OperatorClass.DETERMINISTIC, COUNT, "query 'q'")


def test_a_state_without_a_bound_is_refused_whatever_its_class() -> None:
    with pytest.raises(QueryError, match="begins with an empty state: its x may stand on any earlier row"):
        check_way(BACKUP, Guarantee.PRECISE, OperatorClass.CONVERGENT, ["x"], "query 'q'")
