"""`borealis top`: `borealis status`, continuously updated, and recent events."""

from __future__ import annotations

import signal
import sys
import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from borealis_py.cli.shared.console import out, print_json
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.ingress_table import ingress_table
from borealis_py.cli.shared.keys import Keys
from borealis_py.cli.shared.options import AppName, Bootstrap, Json
from borealis_py.cli.shared.replica_table import remarks, replica_table
from borealis_py.config.signals import setting

if TYPE_CHECKING:
    from borealis_py.log.messages import Status
    from borealis_py.observe.follower import AppSnapshot, Follower

SIGNALS = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
"""Signals that end it as q does, so that the terminal is restored."""

DRAW_S = 0.2
"""Maximum time until a key, a signal or a new view takes effect."""
LEAST_US = 100_000
QUITS = ("q", "Q", "\x1b", "\x03", "\x04")
COLOURS = {
    "UPSTREAM_FAILURE": "yellow",
    "FIRST_TENTATIVE": "yellow",
    "SILENT": "yellow",
    "STOPPED": "red",
    "REDO_FAILED": "red",
}
Every = Annotated[str, typer.Option("--every", help="Refresh interval: 1s, 500ms.")]
Count = Annotated[
    int | None,
    typer.Option(
        "--count", min=1, help="Print this many times, one below the other.", show_default="1 into a pipe or file"
    ),
]


def top(
    bootstrap: Bootstrap = None, app: AppName = None, every: Every = "1s", count: Count = None, json: Json = False
) -> None:
    """Watch all replicas of all nodes, and their events, until q or Ctrl-C."""
    from borealis_py.observe.follower import Follower
    from borealis_py.query import parse_duration
    from borealis_py.query.errors import WrongValue

    every_us = parse_duration(every, "--every")
    if every_us < LEAST_US:
        raise WrongValue(f"--every: {every} is too short; use at least 100ms")
    context = open_context(bootstrap)
    context.check_broker()
    follower = Follower(context.log, app)
    stop = threading.Event()
    with setting(stop, *SIGNALS):
        if sys.stdout.isatty() and count is None and not json:
            watch(follower, every_us / 1e6, stop)
        else:
            _print(follower, every_us / 1e6, count or 1, json, stop)


def _print(follower: Follower, every_s: float, count: int, json: bool, stop: threading.Event) -> None:
    from borealis_py.observe.overview import overview

    console = out()
    for number in range(count):
        if number and stop.wait(every_s):
            return
        view = follower.look()
        if json:
            print_json(overview(view.state, view.statuses, view.now_us, ingresses=view.ingresses))
        else:
            console.print(picture(view, console.width, None, ""))
    follower.close()


def watch(follower: Follower, every_s: float, stop: threading.Event) -> None:
    """Keep a terminal's screen up to date until a key or `stop` ends it. Closes the follower."""
    looking = threading.Thread(target=_look, args=(follower, every_s, stop), name="top", daemon=True)
    console = out()
    with Keys(stop) as keys, Live(console=console, screen=True, auto_refresh=False) as screen:
        how = "q or Ctrl-C ends" if keys.there else "Ctrl-C ends"
        looking.start()
        shown: object = None
        while not stop.is_set():
            now = (follower.view, console.size)
            if now != shown:
                screen.update(picture(follower.view, console.width, console.height, how), refresh=True)
                shown = now
            if any(key in QUITS for key in keys.next(DRAW_S)):
                stop.set()
    looking.join(2 * DRAW_S)  # one that waits for a broker ends with the process


def _look(follower: Follower, every_s: float, stop: threading.Event) -> None:
    while not stop.is_set():
        follower.look()
        stop.wait(every_s)
    follower.close()


def picture(view: AppSnapshot, width: int, height: int | None, how: str) -> RenderableType:
    """The whole screen.

    Args:
        width, height: of the terminal; height None: unlimited. how: how to end it.
    """
    from borealis_py.observe.ingress_overview import ingress_remarks

    table = replica_table(view.state, view.statuses, view.now_us, view.rates)
    told = remarks(view.state, view.statuses, view.now_us)
    notes = [Text(line, "yellow") for line in (*told, *ingress_remarks(view.state, view.ingresses, view.now_us))]
    if view.problem:
        notes.insert(0, Text(f"not up to date: {view.problem}", "red"))
    above: list[RenderableType] = [Text.assemble((_headline(view), "bold"), (f"   {how}", "dim")), *notes, table]
    if view.state.spec.ingresses:
        above.append(ingress_table(view.state, view.ingresses, view.now_us))
    events = [_event(s) for s in view.events]
    if height is not None:
        room = height - len(Console(width=width).render_lines(Group(*above), pad=False)) - 1
        events = events[-room:] if room > 0 else []
    return Group(*above, *events)


def _headline(view: AppSnapshot) -> str:
    from borealis_py.app.replica_health import health_of
    from borealis_py.observe.overview import keys

    expected = keys(view.state, view.statuses)
    seen = [health_of(s, view.state.spec.bucket_us, view.now_us) for s in view.statuses.values()]
    states = [s.status.state for s in seen if not s.gone]
    counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    gone = len(expected) - len(states)
    counts += [f"{gone} not running"] if gone else []
    return f"{_time(view.now_us)} UTC   {len(expected)} replicas: {', '.join(counts)}"


def _event(status: Status) -> Text:
    who = f"{status.node}.r{status.replica}"
    said = f"{_time(status.at_wall_us)}  {who}  {status.event}"
    if status.redo is not None:
        redo = status.redo
        said += f"  {redo.engine}: {redo.end - redo.first} buckets, {redo.rows} rows in {redo.seconds:.2f} s"
    return Text(f"{said}  {status.detail}".rstrip(), COLOURS.get(status.event, ""), overflow="ellipsis", no_wrap=True)


def _time(wall_us: int) -> str:
    return f"{datetime.fromtimestamp(wall_us / 1e6, UTC):%H:%M:%S}"
