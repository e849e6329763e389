"""`borealis bench`: figures of this machine. A thin door to `bench/` of the source checkout."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import typer

from borealis_py.cli.console import fail

app = typer.Typer(help="Measure this machine.", no_args_is_help=True, rich_markup_mode=None)


PASS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}
"""The command behind the door reads the arguments, --help too."""


@app.command(context_settings=PASS_ON, add_help_option=False)
def quick(context: typer.Context) -> None:
    """Delay, throughput, redo speed and memory in under 3 minutes. Arguments go to bench/quick.py."""
    import borealis_py

    script = Path(borealis_py.__file__).parent.parent / "bench" / "quick.py"
    if not script.is_file():
        fail(f"{script} is not there: the benchmarks come with the source checkout, not with the package")
        raise typer.Exit(1)
    raise typer.Exit(subprocess.run([sys.executable, str(script), *context.args], check=False).returncode)
