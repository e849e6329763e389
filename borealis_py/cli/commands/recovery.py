"""`borealis recovery`: how the nodes of an app survive the crash of a replica."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from borealis_py.cli.shared.console import print_json, print_table, say
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.options import AppName, Bootstrap, Json

if TYPE_CHECKING:
    from borealis_py.app.state import AppState

Node = Annotated[
    str | None,
    typer.Argument(
        help="A node or query of the app, or one partition of it: clean.0.", show_default="all of them are shown"
    ),
]
Word = Annotated[
    str | None,
    typer.Argument(
        help="active, active-standby, passive-standby, upstream-backup or amnesia.",
        show_default="show it",
    ),
]
Sync = Annotated[
    str | None,
    typer.Option("--sync", help="How old the state of a passive standby is at most: 1s.", show_default="500ms"),
]


def recovery(
    node: Node = None,
    way: Word = None,
    sync: Sync = None,
    bootstrap: Bootstrap = None,
    app: AppName = None,
    json: Json = False,
) -> None:
    """Show or change how a node survives the crash of a replica, while it runs.

    active: all replicas run. With every other way one runs, and another one takes over: active-standby computes, too,
    and says nothing; passive-standby has a state at most --sync old; upstream-backup reads again what the open windows
    stand on; amnesia has nothing, so what comes meanwhile is lost, and named. Of a node with partitions all of them
    change, unless one is named. A way that promises less than the app's file asks (`guarantee=`) is refused. All its
    replicas begin again when they read the change; stable results are the same with every way but amnesia. The next
    `up` leaves the change as it is, unless `recovery=` or `sync=` in the file has changed.
    """
    from borealis_py.app.settings import recovering_nodes, set_recovery
    from borealis_py.query.recovery import parse_recovery

    if sync is not None and way is None:
        raise typer.BadParameter("say the way, too: borealis recovery NODE passive-standby", param_hint="--sync")
    context = open_context(bootstrap)
    state = context.app(app)
    if node is not None and way is not None:
        recovering_nodes(state, node)
        set_recovery(context.log, state, node, parse_recovery(way, sync, node))
        state = context.app(app)
    nodes = list(state.runs.all_nodes) if node is None else recovering_nodes(state, node)
    found = {name: _one(state, name) for name in nodes}
    if json:
        print_json({"app": state.name, "recovery": found})
    elif node is not None:
        for name, one in found.items():
            say(f"{name}: {one['recovery']}{f', sync {_shown(one)}' if one['sync_us'] else ''}")
    else:
        rows = [
            [name, one["recovery"], _shown(one), one["guarantee"], str(one["replicas"]), one["said_by"]]
            for name, one in found.items()
        ]
        columns = ["node", "recovery", "sync>", "guarantee asked", "replicas>", "said by"]
        print_table("", columns, rows, ("said by", "replicas>", "guarantee asked"))


def _one(state: AppState, name: str) -> dict[str, Any]:
    from borealis_py.query.recovery import RecoveryWay

    spec, plan = state.runs.node(name), state.recovery(name)
    changed = state.recovering.get(name, spec.recovery) != spec.recovery  # `up` sets what the file says, too
    return {
        "recovery": plan.way.value,
        "sync_us": plan.sync_us if plan.way is RecoveryWay.PASSIVE_STANDBY else None,
        "guarantee": spec.guarantee.value,
        "replicas": spec.replicas,
        "said_by": "borealis recovery" if changed else "the app's file",
    }


def _shown(one: dict[str, Any]) -> str:
    from borealis_py.query import format_duration

    return format_duration(one["sync_us"]) if one["sync_us"] else ""
