"""`borealis sim`: random failures in a simulated world. A thin door to `borealis_py.sim.run`."""

from __future__ import annotations

import typer


def sim(context: typer.Context) -> None:
    """Check every promise under random failures in a simulated world. Arguments go to the simulator."""
    from importlib import import_module

    raise typer.Exit(import_module("borealis_py.sim.run").main(context.args))
