"""`borealis resume`: publish a query again whose replicas emitted different rows (event DIVERGED)."""

from __future__ import annotations

from borealis_py.cli.changing import Query
from borealis_py.cli.console import print_json, say
from borealis_py.cli.context import open_context
from borealis_py.cli.options import AppName, Bootstrap, Json


def resume(query: Query, bootstrap: Bootstrap = None, app: AppName = None, json: Json = False) -> None:
    """Publish a query again after its replicas emitted different rows (event DIVERGED).

    First find out which replica is right (`borealis audit` recomputes the rows from the sources), stop the others and
    delete their checkpoints: whichever replica publishes first goes on where the corrected stream ends, with its own
    rows. Replicas obey once they read it, and stop again at the next bucket in which they differ.
    """
    from borealis_py.app.state import put_settings
    from borealis_py.log.messages import DisagreementSetting

    context = open_context(bootstrap)
    state = context.app(app)
    state.spec.query(query)
    found = state.diverged.get(query)
    if found is not None:
        put_settings(context.log, state.name, {f"diverged/{query}": DisagreementSetting(state.app_uid, None)})
    if json:
        print_json({"app": state.name, "query": query, "written": found is not None, "diverged": found})
        return
    if found is None:
        say(f"nothing to resume: no replicas of {query} were seen to differ", "yellow")
    else:
        say(f"{query} is published again once its replicas read this. It was stopped because {found}")
