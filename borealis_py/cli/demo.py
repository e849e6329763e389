"""`borealis demo`: the main job on real flights. A thin door to `borealis_py.demo.scenario`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    full: Annotated[bool, typer.Option("--full", help="The whole year 2013, 365 s of it.")] = False,
    days: Annotated[int, typer.Option("--days", min=1, max=365, help="So many days, one a second.")] = 60,
    out: Annotated[Path, typer.Option("--out", help="Where report.json and timeline.svg go.")] = Path("demo"),
    port: Annotated[int | None, typer.Option("--port", help="Of the demo's own broker; default: a free one.")] = None,
) -> None:
    """A query on real flights loses an input, keeps answering, and ends exactly right: about 2 minutes."""
    from borealis_py.demo import scenario

    raise typer.Exit(scenario.run(days=365 if full else days, out=out, port=port))
