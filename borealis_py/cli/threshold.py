"""`borealis threshold`: change a query's delay threshold while it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from borealis_py.cli.console import say
from borealis_py.cli.context import open_context
from borealis_py.cli.options import AppName, Bootstrap

Query = Annotated[str, typer.Argument(help="A query of the app.", show_default=False)]


def threshold(
    query: Query,
    value: Annotated[str, typer.Argument(help="How late a result may be: 500ms, 3s.", show_default=False)],
    bootstrap: Bootstrap = None,
    app: AppName = None,
) -> None:
    """Change a query's delay threshold while it runs; in force as soon as the replicas read it."""
    from borealis_py.host.appstate import put_settings
    from borealis_py.host.check import checked_budget
    from borealis_py.log.messages import Threshold
    from borealis_py.query import format_duration, parse_duration

    threshold_us = parse_duration(value, "threshold")
    context = open_context(bootstrap)
    state = context.app(app)
    before = state.threshold_us(query)
    checked_budget(context.config.protocol_timing(), query, threshold_us)
    put_settings(context.log, state.name, {f"threshold/{query}": Threshold(threshold_us)})
    say(f"threshold of {query}: {format_duration(before)} -> {format_duration(threshold_us)}")
