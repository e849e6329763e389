"""Whether a node may recover in a way, for a change while it runs."""

from __future__ import annotations

from borealis_py.query.recovery import RecoveryPlan, RecoveryWay, check_plan
from borealis_py.query.spec import AppSpec


def check_recovery(spec: AppSpec, name: str, plan: RecoveryPlan) -> None:
    """Check that a node or query can recover in this way.

    Raises:
        QueryError: nobody would take over, the way promises less than the app's file asks, nodes would read what is
            lost, or an unknown name.
    """
    node = spec.node(name)
    check_plan(plan, node.replicas, spec.bucket_us, spec.label(name))
    if plan.way not in (RecoveryWay.UPSTREAM_BACKUP, RecoveryWay.AMNESIA):
        return  # what the others promise does not depend on what the node computes, and its files may not be here
    from borealis_py.app.check import check_way_of  # here: it loads the engine, which other ways need not

    check_way_of(spec, name, plan)
