"""`borealis demo`: the main job on real flights. A thin door to `borealis_py.demo.scenario`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo(
    full: Annotated[bool, typer.Option("--full", help="The whole year 2013, 365 s of it.")] = False,
    days: Annotated[int, typer.Option("--days", min=1, max=365, help="So many days, one a second.")] = 60,
    out: Annotated[Path, typer.Option("--out", help="Where report.json and timeline.svg go.")] = Path("demo"),
    threshold: Annotated[float, typer.Option("--threshold", help="Delay threshold X in seconds.")] = 3.0,
    spark: Annotated[bool, typer.Option("--spark/--no-spark", help="Without Spark, redos run inline.")] = True,
    port: Annotated[int | None, typer.Option("--port", help="Of the demo's own broker; default: a free one.")] = None,
) -> None:
    """A query on real flights loses an input, keeps answering, and ends exactly right: about 2 minutes."""
    from borealis_py.demo import scenario

    options = scenario.Options(out, 365 if full else days, threshold, spark=spark, port=port)
    raise typer.Exit(scenario.run(options))
