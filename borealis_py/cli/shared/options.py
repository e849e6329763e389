"""Options shared by several commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Bootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", help="Kafka brokers, host:port. Also BOREALIS_BOOTSTRAP.", show_default="localhost:9092"
    ),
]
DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir", help="Local broker, checkpoints, logs. Also BOREALIS_DATA_DIR.", show_default=".borealis"
    ),
]
AppName = Annotated[str | None, typer.Option("--app", help="Which app, if the broker serves several.")]
Json = Annotated[bool, typer.Option("--json", help="JSON on standard output.")]
Http = Annotated[
    str | None,
    typer.Option(
        "--http",
        metavar="HOST:PORT",
        help="Where the first process answers /healthz, /readyz, /metrics, /api/v1/status; the others take the ports "
        "after it. Port 0: any free one. Also BOREALIS_HTTP.",
    ),
]


def app_file(path: Path | None) -> Path | None:
    """The path of an app's file, if there is a file: checked before anything is loaded. Raises BadParameter."""
    if path is not None and not path.is_file():
        reason = "a directory" if path.is_dir() else "no such file"
        raise typer.BadParameter(f"{path}: {reason}; give the app's Python file")
    return path


def rows_file(path: str) -> str:
    """The path of a file of rows, likewise; - is standard input, and a pipe will do."""
    if path != "-" and (not Path(path).exists() or Path(path).is_dir()):
        reason = "a directory" if Path(path).is_dir() else "no such file"
        raise typer.BadParameter(f"{path}: {reason}; give a file of rows, or - for standard input")
    return path
