"""`borealis ingress`: one ingress of an app in the foreground, for containers and service managers.

`borealis up` starts two on its machine; this command becomes the process of one, as `borealis replica` does.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.described import wait_described
from borealis_py.cli.shared.options import AppName, Bootstrap, DataDir, Http


def ingress(
    index: Annotated[int, typer.Argument(help="Which ingress, from 0.", min=0, show_default=False)],
    app: AppName = None,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = None,
    http: Http = None,
) -> None:
    """Copy the topics of other programs that an app reads, until SIGTERM; or stand by while another ingress copies
    them.

    The app must be described (`up --describe-only` elsewhere); waits a minute for that. Run two, with different
    numbers: one takes over when the other ends. Once all its sources have ended, it stays and does nothing. Its log is
    on standard error.
    """
    context = open_context(bootstrap, data_dir, http)
    state = wait_described(context, app)
    from borealis_py.app.errors import LaunchError
    from borealis_py.app.process_spec import ProcessSpec
    from borealis_py.app.replicas import COMMAND, ProcessName

    if not state.spec.ingresses:
        raise LaunchError(f"app {state.name!r} reads no topics of other programs: its sources have publishers")
    spec = ProcessSpec.of(context.config, context.log, "process")
    sys.stderr.flush()
    command = [*COMMAND, *ProcessName(index, ingress=True).arguments(state.name)]
    os.execve(sys.executable, command, {**os.environ, **spec.environment()})
