"""`borealis replica`: one replica index of an app in the foreground, for containers and service managers.

`borealis up` starts all of them on one machine and exits; this command becomes the process of one, so that whatever
started it sees its end and its log, and stops it with a signal.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from borealis_py.cli.commands.up import Host, Master, TakeOver, check_host
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.described import wait_described
from borealis_py.cli.shared.options import AppName, Bootstrap, DataDir, Http


def replica(
    index: Annotated[int, typer.Argument(help="Which replica, from 0.", min=0, show_default=False)],
    node: Annotated[str | None, typer.Option("--node", help="Only of this node or query; default: of all.")] = None,
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
    state = wait_described(context, app)
    from borealis_py.app.process_spec import ProcessSpec
    from borealis_py.app.replicas import COMMAND, ProcessName, first_arguments

    spec = ProcessSpec.of(context.config, context.log, host, master)

    if node is not None:
        state.spec.node(node)
    command = [*COMMAND, *ProcessName(index, node or "").arguments(state.name), *first_arguments(take_over)]
    sys.stderr.flush()
    os.execve(sys.executable, command, {**os.environ, **spec.environment()})
