"""`borealis broker`: a real Kafka on this machine, for users who have none."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.shared.console import print_json, print_table, say, waiting
from borealis_py.cli.shared.options import DataDir, Json

if TYPE_CHECKING:
    from borealis_py.kafka.broker import LocalBroker

app = typer.Typer(help="Start, stop and look at a real local Kafka.", no_args_is_help=True, rich_markup_mode=None)
PORT = 9092
Port = Annotated[int, typer.Option("--port", min=1, max=65535, help="Where clients connect, on 127.0.0.1.")]


@app.command()
def up(port: Port = PORT, data_dir: DataDir = None) -> None:
    """Start the broker and wait until it answers. Fetches Kafka once (45 MB; needs Java 17)."""
    broker = _broker(data_dir, port)
    if not broker.status().running:
        say(f"starting Kafka at {broker.bootstrap}")  # no spinner: a first fetch displays its own progress
    started = broker.up()
    say(f"Kafka {'started' if started else 'was already running'} at {broker.bootstrap}; data in {broker.data_dir}")


@app.command()
def down(data_dir: DataDir = None) -> None:
    """Stop the broker. Its data stays."""
    broker = _broker(data_dir, PORT)
    with waiting("stopping Kafka"):
        stopped = broker.down()
    say("Kafka stopped" if stopped else f"no broker of {broker.data_dir} was running")


@app.command()
def status(data_dir: DataDir = None, json: Json = False) -> None:
    """Show whether the broker runs, its address, and its size. Exit code 1 if it does not run."""
    found = _broker(data_dir, PORT).status()
    if json:
        print_json(
            {
                "running": found.running,
                "bootstrap": found.bootstrap,
                "pid": found.pid,
                "rss_bytes": found.rss_bytes,
                "version": found.version,
                "data_dir": str(found.data_dir),
            }
        )
    else:
        memory = f"{found.rss_bytes / 1e6:.0f} MB RSS" if found.rss_bytes else "-"
        row = ["running" if found.running else "stopped", found.bootstrap or "-", str(found.pid or "-"), memory]
        columns = ["broker", "bootstrap", "pid>", "memory>", "version", "data"]
        print_table("", columns, [[*row, found.version, str(found.data_dir)]], ("version", "memory>", "pid>", "data"))
    raise typer.Exit(0 if found.running else 1)


def _broker(data_dir: Path | None, port: int) -> LocalBroker:
    from borealis_py.config.config import load
    from borealis_py.config.kafka import BROKER_DIR
    from borealis_py.kafka.broker import LocalBroker

    return LocalBroker(load(data_dir=data_dir).data_dir / BROKER_DIR, port)
