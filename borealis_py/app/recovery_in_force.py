"""How nodes recover by what `borealis recovery` has set and by an app's file, which both have a say (R17.17)."""

from __future__ import annotations

from borealis_py.app.errors import LaunchError
from borealis_py.app.recovery_allowed import check_recovery
from borealis_py.app.state import AppState, app_names, read_settings
from borealis_py.log.base import Log
from borealis_py.query import format_duration
from borealis_py.query.errors import QueryError
from borealis_py.query.names import base_name
from borealis_py.query.partitions import physical
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.query.spec import AppSpec


def plans_in_force(log: Log, spec: AppSpec) -> dict[str, RecoveryPlan]:
    """How each node of a file, as it runs, would recover after `borealis up`: as was set while the app runs, unless the
    file has changed that since; as the file says, where no app of this name with these queries is on the broker.

    Raises:
        LogError: the log cannot be read, or the app has been described by another version.
    """
    runs = physical(spec)
    plans = {name: node.recovery for name, node in runs.all_nodes.items()}
    before = read_settings(log, spec.name) if spec.name in app_names(log) else None
    if before is None or before.hash != spec.hash:
        return plans
    return plans | _kept(before, runs)


def refuse_unfit(before: AppState, spec: AppSpec) -> None:
    """Check that what was set while the app ran still fits what its file, `spec`, says of replicas and guarantees.

    Raises:
        LaunchError: it promises less than the file asks now, or nobody would take over.
    """
    runs = physical(spec)
    for name, plan in _kept(before, runs).items():
        try:
            check_recovery(spec, base_name(name), plan)
        except QueryError as exc:
            raise LaunchError(
                f"{exc}. This way was set with `borealis recovery`, and is not that of the app's file: `borealis "
                f"recovery {name} {_words(runs.node(name).recovery)}` before `borealis up` takes it back"
            ) from exc


def _words(plan: RecoveryPlan) -> str:
    """As `borealis recovery` takes it."""
    passive = plan.way is RecoveryWay.PASSIVE_STANDBY
    return f"{plan.way} --sync {format_duration(plan.sync_us)}" if passive else str(plan.way)


def _kept(before: AppState, runs: AppSpec) -> dict[str, RecoveryPlan]:
    """What was set, of nodes of which the file `runs` says what it said before."""
    changed = before.changed_recovery(runs)
    return {name: plan for name, plan in before.recovering.items() if name in runs.all_nodes and name not in changed}
