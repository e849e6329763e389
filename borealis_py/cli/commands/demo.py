"""`borealis demo`: the main job on real flights. A thin front end to `borealis_py.demo.scenario`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from borealis_py.cli.commands.up import Host, check_host

YEAR = 365


def demo(
    full: Annotated[bool, typer.Option("--full", help="The whole year 2013, one day a second.")] = False,
    days: Annotated[int, typer.Option("--days", min=1, max=YEAR, help="Number of days, one a second.")] = 60,
    out: Annotated[Path, typer.Option("--out", help="Where report.json and timeline.svg go.")] = Path("demo"),
    port: Annotated[int | None, typer.Option("--port", help="Of its broker.", show_default="a free one")] = None,
    host: Host = "spark",
) -> None:
    """A query on real flights loses an input, keeps answering, and ends exactly right: about 2 minutes."""
    check_host(host)
    from borealis_py.demo import scenario

    options = scenario.DemoOptions(out, days=YEAR if full else days, port=port, spark=host == "spark")
    raise typer.Exit(scenario.run(options))
