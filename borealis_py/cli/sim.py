"""`borealis sim`: random failures in a simulated world. A thin door to `borealis_py.sim.run`."""

from __future__ import annotations

import typer

PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""The simulator reads the arguments, --help too."""


def sim(context: typer.Context) -> None:
    """Check every promise under random failures in a simulated world. Arguments go to the simulator."""
    from borealis_py.sim import run

    raise typer.Exit(run.main(context.args))
