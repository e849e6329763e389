"""`borealis bench`: measure this machine. A thin front end to `borealis_py.bench`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from borealis_py.cli.commands.up import Host, check_host
from borealis_py.cli.shared.console import err, fail, print_json
from borealis_py.cli.shared.options import Json

LOGS = "with --work DIR the logs of all processes are kept"
Work = Annotated[Path | None, typer.Option("--work", help="Keep logs and data here.", show_default="a temporary one")]

app = typer.Typer(help="Measure this machine.", no_args_is_help=True, rich_markup_mode=None)


@contextmanager
def telling(*errors: type[Exception], hint: str | None = None) -> Iterator[None]:
    """Report expected errors as messages, with exit code 1."""
    try:
        yield
    except errors as exc:
        fail(str(exc), hint)
        raise typer.Exit(1) from exc


@app.callback()
def bench() -> None:
    """Measure this machine."""


@app.command()
def quick(
    seconds: Annotated[int, typer.Option("--seconds", min=1, help="How long to measure delays.")] = 20,
    events: Annotated[int, typer.Option("--events", help="Backlog of the throughput measurement.")] = 1_000_000,
    per_record: Annotated[int, typer.Option("--per-record", help="Events per bucket.")] = 5_000,
    redo_rows: Annotated[int, typer.Option("--redo-rows", help="Rows of the backlog to redo.")] = 200_000,
    work: Work = None,
    json: Json = False,
    host: Host = "spark",
) -> None:
    """Measure delay, throughput, redo speed, memory and a first test in under 3 minutes, on its own broker.
    Tables on standard error.
    """
    check_host(host)
    from borealis_py.bench import quick as measured
    from borealis_py.bench.figures import BenchError
    from borealis_py.bench.quick_tables import show

    options = measured.QuickOptions(
        seconds=seconds, events=events, per_record=per_record, redo_rows=redo_rows, spark=host == "spark", work=work
    )
    with telling(BenchError):
        measured.check(options)
    with telling(BenchError, hint=LOGS):
        report = measured.run(options, err())
    show(report, err())
    if json:
        print_json(report)
