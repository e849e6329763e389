"""`python -m tests.compose`: bring the cluster up, break it, judge it, take it down; a table of what was seen."""

from __future__ import annotations

import argparse
import os
import signal
import sys

from rich.console import Console
from rich.table import Table

from borealis_py.kafka.broker import free_port
from tests.compose.compose import Compose, ComposeError, compose_command
from tests.compose.drill import Drill
from tests.compose.page import PAGE, differences

DAYS = {1: 300, 3: 365}
"""By the number of brokers: one more step takes longer."""
THREE = ("docker-compose.yml", "docker-compose.three-brokers.yml")
SPEED = 86_400


def main() -> int:
    """Returns the exit code: 0 all was as it should be."""
    parser = argparse.ArgumentParser(prog="python -m tests.compose", description=__doc__)
    parser.add_argument("--brokers", type=int, choices=DAYS, default=1, help="3: with docker-compose.three-brokers.yml")
    parser.add_argument("--days", type=int, help="of flights, one a second: more for slow machines")
    parser.add_argument("--project", default=f"borealis-compose-test-{os.getpid()}")
    parser.add_argument("--keep", action="store_true", help="leave the cluster as it is in the end")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the cluster is taken down then, too
    try:
        command = tuple(compose_command())
    except ComposeError as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 2
    brokers = ("kafka", "kafka-2", "kafka-3")[: args.brokers]
    ports = {name: free_port() for name in (*brokers, "replica-0", "replica-1")}
    settings = {
        f"{name.replace('-', '_').upper()}_{'HOST_' * (name in brokers)}PORT": str(p) for name, p in ports.items()
    }
    days = args.days or DAYS[args.brokers]
    settings |= {"FLIGHTS_DAYS": str(days), "FLIGHTS_SPEED": str(SPEED)}
    compose = Compose(args.project, settings, command, THREE if args.brokers == 3 else ())
    print("building the image, if it must be, and starting the cluster: minutes at first", flush=True)
    drill = Drill(compose, ports, days)
    try:
        return _run(drill)
    finally:
        if not args.keep:
            _take_down(drill)


def _run(drill: Drill) -> int:
    try:
        drill.run()
    except (AssertionError, ComposeError) as exc:
        _tell(drill)
        _show(drill)
        print(f"FAILED: {exc}", file=sys.stderr, flush=True)
        return 1
    _show(drill)
    for line in (unlike := differences(drill.outputs)):
        print(f"FAILED: {PAGE.name}, {line}", file=sys.stderr, flush=True)
    return int(bool(unlike))


def _take_down(drill: Drill) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)  # whoever is impatient would leave half of it behind
    drill.compose.down()
    left = drill.compose.left()
    print(f"taken down; left of it: {', '.join(left) or 'nothing'}", flush=True)
    if left:
        raise SystemExit(1)


def _show(drill: Drill) -> None:
    console = Console(width=160)
    for command, said in drill.outputs:
        print(f"$ {command}\n{said.rstrip()}" if said.strip() else f"$ {command}")
    table = Table(title=f"compose-test, {drill.days} days of flights in {drill.days} s", title_justify="left")
    for column in ("done", "took", "seen"):
        table.add_column(column)
    for row in drill.rows:
        table.add_row(*row)
    console.print(table)
    peak = ", ".join(f"{service} {mb:.0f}" for service, mb in sorted(drill.peak_mb.items()))
    print(f"memory at most, MB, page cache aside: {peak}", flush=True)


def _tell(drill: Drill) -> None:
    """What containers said last, for who has to find out why."""
    try:
        print(drill.compose("ps"))
        print(drill.compose("logs", "--no-color", "--tail", "12"), flush=True)
    except ComposeError as exc:
        print(exc, file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
