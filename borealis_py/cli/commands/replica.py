"""`borealis replica`: one replica index of an app in the foreground, for containers and service managers.

`borealis up` starts all of them on one machine and goes away; this becomes the process of one, so that whatever started
it sees its end and its log, and stops it with a signal.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.commands.up import Host, Master, TakeOver, check_host, process_options
from borealis_py.cli.console import say
from borealis_py.cli.context import Context, open_context
from borealis_py.cli.options import AppName, Bootstrap, DataDir, Http

if TYPE_CHECKING:
    from borealis_py.app.state import AppState

WAIT_S = 60.0
"""A broker and a description may come later: containers start in any order."""
LOOK_S = 1.0


def replica(
    index: Annotated[int, typer.Argument(help="Which replica, from 0.", min=0, show_default=False)],
    node: Annotated[str | None, typer.Option("--node", help="Of this node or query alone; without: of all.")] = None,
    app: AppName = None,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = None,
    host: Host = "spark",
    take_over: TakeOver = False,
    http: Http = None,
    master: Master = None,
) -> None:
    """Run one replica index here until SIGTERM, of an app that `up` has described (`up --describe-only` elsewhere).

    Waits a minute for the broker and the description. Its log is on standard error.
    """
    check_host(host, master)
    context = open_context(bootstrap, data_dir, http)
    state = _described(context, app)
    options = process_options(context, take_over, host, master)
    from borealis_py.app.replicas import ProcessName

    if node is not None:
        state.spec.node(node)
    arguments = options.arguments(state.name, ProcessName(index, node or ""))
    sys.stderr.flush()
    command = [sys.executable, "-m", "borealis_py.runtime.process", *arguments]
    os.execve(sys.executable, command, {**os.environ, **options.environment()})


def _described(context: Context, app: str | None) -> AppState:
    """The app once it is there. Raises NoSuchApp, LogUnreachable after WAIT_S."""
    from borealis_py.app.state import NoSuchApp
    from borealis_py.log.base import LogUnreachable

    deadline, told = time.monotonic() + WAIT_S, ""
    while True:
        try:
            return context.app(app)
        except (LogUnreachable, NoSuchApp) as exc:
            if time.monotonic() > deadline:
                raise
            if str(exc) != told:
                told = str(exc)
                say(f"waiting: {told}", "yellow")
            time.sleep(LOOK_S)
