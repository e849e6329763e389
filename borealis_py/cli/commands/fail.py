"""`borealis fail`: failure drills on a running app."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.console import fail, print_json, say, waiting
from borealis_py.cli.context import open_context
from borealis_py.cli.options import AppName, Bootstrap, Json

if TYPE_CHECKING:
    from borealis_py.app.state import AppState, StatusReader

app = typer.Typer(help="Drills: make something fail, on purpose.", no_args_is_help=True, rich_markup_mode=None)
LOOK_S = 0.1
SEEN_TIMEOUT_S = 10.0


@app.callback()
def drills() -> None:
    """Drills: make something fail, on purpose."""


@app.command()
def source(
    name: Annotated[str, typer.Argument(help="A source of the app, or one of its inputs.", show_default=False)],
    duration: Annotated[str, typer.Option("--for", help="How long: 15s, 500ms, 2m.", show_default=False)],
    bootstrap: Bootstrap = None,
    app: AppName = None,
    json: Json = False,
) -> None:
    """Make the replicas stop reading a source for a while, as if it were unreachable. Its publisher continues."""
    from borealis_py.app.state import StatusReader, put_settings
    from borealis_py.log.messages import SourceFailure
    from borealis_py.query import parse_duration

    for_us = parse_duration(duration, "--for")
    context = open_context(bootstrap)
    state = context.app(app)
    inputs = state.inputs_of(name)
    now_us = time.time_ns() // 1000
    reader = StatusReader(context.log, state.name, now_us // 1000)
    try:
        until_us = time.time_ns() // 1000 + for_us
        put_settings(context.log, state.name, {f"fail/{one}": SourceFailure(until_us) for one in inputs})
        with waiting(f"waiting until the replicas have lost {name}"):
            seen = _wait(state, inputs, reader, min(SEEN_TIMEOUT_S, for_us / 1e6 + 2))
    finally:
        reader.close()
    _tell(state, name, duration, seen, until_us, json)


def _wait(state: AppState, sources: Sequence[str], reader: StatusReader, timeout_s: float) -> list[tuple[str, int]]:
    """Wait until all reporting replicas report these inputs as unreachable; returns those that do. Standbys that read
    nothing report none."""
    lost: set[tuple[str, int]] = set()
    wanted = {(node, k) for node, k in state.replicas() if not {*sources}.isdisjoint(state.runs.node(node).inputs)}
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not wanted <= lost:
        for status in reader.poll():
            own = [i.reachable for i in status.inputs if i.name in sources]
            if own and not any(own):
                lost.add((status.node, status.replica))
            elif not status.inputs:
                wanted.discard((status.node, status.replica))
        if not wanted <= lost:
            time.sleep(LOOK_S)
    return sorted(lost)


def _tell(state: AppState, name: str, duration: str, seen: list[tuple[str, int]], until_us: int, json: bool) -> None:
    from borealis_py.app.origin import show

    if json:
        replicas = [{"node": node, "replica": k} for node, k in seen]
        print_json({"source": name, "until_wall_us": until_us, "unreachable_for": replicas})
    elif seen:
        names = ", ".join(f"{query}.r{k}" for query, k in seen)
        say(f"{name} is unreachable for {names}, {duration} long, until {show(until_us)}")
    if not seen:
        fail(f"no replica of app {state.name!r} reports that it lost {name}: is one running? (`borealis status`)")
        raise typer.Exit(1)
