"""`borealis status`: every replica and ingress of an app, from the status topic."""

from __future__ import annotations

import time
from contextlib import closing
from typing import TYPE_CHECKING

from borealis_py.cli.shared.console import out, print_json, say
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.ingress_table import ingress_table
from borealis_py.cli.shared.options import AppName, Bootstrap, DataDir, Json
from borealis_py.cli.shared.replica_table import apart_lines, fate_lines, parts_table, remarks, replica_table

if TYPE_CHECKING:
    from borealis_py.app.state import AppState, ReplicaKey, Statuses
    from borealis_py.log.base import Log


def status(bootstrap: Bootstrap = None, app: AppName = None, data_dir: DataDir = None, json: Json = False) -> None:
    """Show state, frontiers, grant, counts, checkpoint and inputs of each replica. Frontiers are times (UTC).

    If the app reads topics of other programs, also show which ingress copies each, and how far.

    For the processes that `up` started on this machine, below the data directory, also show their memory, and how those
    that died ended.
    """
    from borealis_py.app.replicas import ReplicaProcesses
    from borealis_py.app.state import read_all_statuses
    from borealis_py.observe.ingress_overview import ingress_remarks, not_before
    from borealis_py.observe.overview import overview
    from borealis_py.observe.process_tree import parts, told

    context = open_context(bootstrap, data_dir)
    state = context.app(app)
    now_us = time.time_ns() // 1000
    statuses, ingresses = read_all_statuses(context.log, state, now_us // 1000)
    now_us = not_before(now_us, statuses, ingresses)
    here = ReplicaProcesses(context.data_dir, state.name)
    if json:
        memory = told(parts(here))
        processes = [{**of, "parts": memory.get(of["process"], [])} for of in here.told()]
        found = overview(state, statuses, now_us, ingresses=ingresses)
        print_json({**found, "processes_here": processes, "supervised": here.kept})
        return
    fates, there = here.fates(), parts(here)
    places = checkpoint_places(context.log, state, statuses)
    noted = (*remarks(state, statuses, now_us), *apart_lines(statuses, places, now_us))
    noted += tuple(ingress_remarks(state, ingresses, now_us))
    for line in (*noted, *fate_lines(fates, now_us, here.kept)):
        say(line, "yellow")
    console = out()
    console.print(replica_table(state, statuses, now_us, fates=fates))
    if state.spec.ingresses:
        console.print(ingress_table(state, ingresses, now_us))
    if there:
        console.print(parts_table(there))


def checkpoint_places(log: Log, state: AppState, statuses: Statuses) -> dict[ReplicaKey, str]:
    """Where checkpoints of replicas lie, by their words. Nothing if no standby needs them, or the log does not tell."""
    from borealis_py.app.replica_health import idles
    from borealis_py.log.acks import LastNeeds
    from borealis_py.log.base import LogError
    from borealis_py.log.description import Life

    if not any(idles(status) for status in statuses.values()):
        return {}
    try:
        with closing(log.lookup()) as lookup:
            needs = LastNeeds(state.name, Life(state.app_uid)).read(lookup)
    except LogError:
        return {}
    return {(name.node, name.index): need.place for name, need in needs.items()}
