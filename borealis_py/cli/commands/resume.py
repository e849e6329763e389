"""`borealis resume`: publish a query again whose replicas emitted different rows (event DIVERGED)."""

from __future__ import annotations

from borealis_py.cli.shared.changing import Query
from borealis_py.cli.shared.console import print_json, say
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.options import AppName, Bootstrap, Json


def resume(query: Query, bootstrap: Bootstrap = None, app: AppName = None, json: Json = False) -> None:
    """Publish a query, and all nodes that it reads, again after replicas emitted different rows (event DIVERGED).

    First find out which replica is right (`borealis audit` recomputes the rows from the sources), stop the others and
    delete their checkpoints: whichever replica publishes first goes on where the corrected stream ends, with its own
    rows. Replicas obey once they read it, and stop again at the next bucket in which they differ.
    """
    from borealis_py.app.state import put_settings
    from borealis_py.log.messages import DisagreementSetting

    context = open_context(bootstrap)
    state = context.app(app)
    state.spec.query(query)
    found = {node: why for node in state.spec.upstream_of(query) if (why := state.diverged.get(node)) is not None}
    if found:
        cleared = DisagreementSetting(state.app_uid, None)
        put_settings(context.log, state.name, {f"diverged/{node}": cleared for node in found})
    if json:
        print_json({"app": state.name, "query": query, "written": bool(found), "diverged": found})
        return
    if not found:
        say(f"nothing to resume: no replicas of {query} or of a node that it reads were seen to differ", "yellow")
    for node, why in found.items():
        say(f"{node} is published again once its replicas read this. It was stopped because {why}")
