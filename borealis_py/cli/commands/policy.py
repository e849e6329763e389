"""`borealis policy`: change how a query handles partial input while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.shared.changing import TIMEOUT, Query, Timeout, carry_out
from borealis_py.cli.shared.options import AppName, Bootstrap, Json

if TYPE_CHECKING:
    from borealis_py.protocol.settings import DelayPolicy

_MEANING = "process (the input that is there), delay (every bucket up to the threshold) or suspend (nothing tentative)"


def policy(
    query: Query,
    failure: Annotated[
        str | None, typer.Option("--failure", help=f"While an input is missing: {_MEANING}.", show_default="as it is")
    ] = None,
    stabilization: Annotated[
        str | None,
        typer.Option("--stabilization", help="The same while corrections are made.", show_default="as it is"),
    ] = None,
    timeout: Timeout = TIMEOUT,
    bootstrap: Bootstrap = None,
    app: AppName = None,
    json: Json = False,
) -> None:
    """Change a query's policies while it runs, and wait until the replicas obey them."""
    from borealis_py.app.settings import SettingChange

    if failure is None and stabilization is None:
        raise typer.BadParameter("nothing to change: give --failure, --stabilization or both")
    change = SettingChange(None, chosen(failure, "--failure"), chosen(stabilization, "--stabilization"))
    carry_out(query, change, timeout, bootstrap, app, json)


def chosen(text: str | None, option: str) -> DelayPolicy | None:
    """The policy of that name. Raises BadParameter with the closest ones."""
    from borealis_py.protocol.settings import DelayPolicy
    from borealis_py.query.errors import did_you_mean

    if text is None:
        return None
    try:
        return DelayPolicy(text.lower())
    except ValueError:
        known = [p.value for p in DelayPolicy]
        hint = did_you_mean(text, known) or ";"
        raise typer.BadParameter(
            f"{text!r}{hint} choose {', '.join(known[:-1])} or {known[-1]}", param_hint=option
        ) from None
