"""`borealis down`: stop an app's processes on this machine. Needs no broker; topics and checkpoints stay."""

from __future__ import annotations

import typer

from borealis_py.cli.shared.console import say, waiting
from borealis_py.cli.shared.options import AppName, DataDir


def down(app: AppName = None, data_dir: DataDir = None) -> None:
    """Stop an app's replicas and ingresses on this machine. `up` continues where they stopped.

    Of an app that was started here and does not run, there is nothing to do, which is no error.
    """
    from borealis_py.app.replicas import ReplicaProcesses, apps_here, apps_known_here
    from borealis_py.config.config import load
    from borealis_py.query.errors import did_you_mean

    directory = load(data_dir=data_dir).data_dir
    running = apps_here(directory)
    if app is None and len(running) > 1:
        raise typer.BadParameter(f"several apps run here: {', '.join(running)}. Choose one", param_hint="--app")
    known = apps_known_here(directory)
    if app is not None and app not in known:
        hint = did_you_mean(app, known) or ";"
        raise typer.BadParameter(
            f"no app {app!r} was ever started below {directory}{hint} apps there: {', '.join(known) or 'none'}",
            param_hint="--app",
        )
    chosen = app if app is not None else next(iter(running), None)
    if chosen is None or chosen not in running:
        named = f" of app {chosen!r}" if chosen else ""
        others = f" (running: {', '.join(running)})" if running else ""
        say(f"no replica{named} runs below {directory}{others}")
        return
    with waiting(f"stopping the replicas of {chosen}"):
        stopped = ReplicaProcesses(directory, chosen).stop()
    if not stopped:
        say(f"the supervisor of {chosen} stopped; none of its replicas ran")
    for one in stopped:
        how = "killed, it did not end by itself" if one.forced else "stopped"
        say(f"{one.name} {how} (pid {one.pid})")
