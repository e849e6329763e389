"""`borealis read`: the results that a query has now, as JSON lines."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from borealis_py.cli.shared.console import print_json
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.options import AppName, Bootstrap


def read(
    query: Annotated[str, typer.Argument(help="A query of the app.", show_default=False)],
    bootstrap: Bootstrap = None,
    app: AppName = None,
) -> None:
    """Print the results that a query has now, and end: one JSON object per line, as `borealis subscribe`.

    Stable rows, each once, in order, up to those that were published when the command began; partition by partition.
    """
    from borealis_py import api

    context = open_context(bootstrap)
    state = context.app(app)
    whole = state.spec.query(query).partitions is None
    for found in api.corrected_now(context.log, state, query):
        line = asdict(found)
        if whole:
            del line["partition"]
        print_json(line)
