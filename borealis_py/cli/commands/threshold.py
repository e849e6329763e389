"""`borealis threshold`: change a query's delay threshold while it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from borealis_py.cli.shared.changing import TIMEOUT, Query, Timeout, carry_out
from borealis_py.cli.shared.options import AppName, Bootstrap, Json


def threshold(
    query: Query,
    value: Annotated[str, typer.Argument(help="How late a result may be: 500ms, 3s.", show_default=False)],
    timeout: Timeout = TIMEOUT,
    bootstrap: Bootstrap = None,
    app: AppName = None,
    json: Json = False,
) -> None:
    """Change a query's delay threshold while it runs, and wait until the replicas obey it.

    It takes effect at each replica as it reads it, for every bucket not yet run. Exit code 1 if the threshold cannot
    hold (the message names the smallest valid one), or if a running replica does not obey in time.
    """
    from borealis_py.app.settings import SettingChange
    from borealis_py.query import parse_duration

    carry_out(query, SettingChange(parse_duration(value, "threshold")), timeout, bootstrap, app, json)
