"""`borealis fail`: failure drills on a running app."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.shared.console import fail, print_json, say, waiting
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.options import AppName, Bootstrap, Json

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
        put_settings(context.log, state.name, {f"fail/{one}": SourceFailure(until_us, state.app_uid) for one in inputs})
        with waiting(f"waiting until the replicas have lost {name}"):
            seen, outlasted = _wait(state, inputs, reader, min(SEEN_TIMEOUT_S, for_us / 1e6 + 2), until_us)
    finally:
        reader.close()
    _tell(state, _called(state, name, inputs), duration, seen, until_us, json, outlasted)


def _called(state: AppState, name: str, inputs: Sequence[str]) -> str:
    """What people call the source, or the input of it, that was asked for."""
    return name if name in state.spec.sources else state.runs.shown(inputs[0])


def _wait(
    state: AppState, sources: Sequence[str], reader: StatusReader, timeout_s: float, until_us: int
) -> tuple[list[tuple[str, int]], bool]:
    """Wait until all reporting replicas report these inputs as unreachable. Standbys that read nothing report none.

    Args:
        until_us: when the drill ends, in wall time. Replicas report once a second: of a shorter one they may tell
            nothing, and who reports after its end is waited for no longer.

    Returns:
        Those that do, and whether one that does not has reported after the end.
    """
    lost: set[tuple[str, int]] = set()
    outlasted: set[tuple[str, int]] = set()
    wanted = {(node, k) for node, k in state.replicas() if not {*sources}.isdisjoint(state.runs.node(node).inputs)}
    called = {state.runs.shown(name) for name in sources}
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline and not wanted <= lost | outlasted:
        for status in reader.poll():
            own = [i.reachable for i in status.inputs if i.name in called]
            if own and not any(own):
                lost.add((status.node, status.replica))
            elif not status.inputs:
                wanted.discard((status.node, status.replica))
            elif own and status.at_wall_us >= until_us and status.event != "STOPPED":
                outlasted.add((status.node, status.replica))
        if not wanted <= lost | outlasted:
            time.sleep(LOOK_S)
    return sorted(lost), bool(outlasted - lost)


def _tell(
    state: AppState,
    name: str,
    duration: str,
    seen: list[tuple[str, int]],
    until_us: int,
    json: bool,
    outlasted: bool,
) -> None:
    from borealis_py.app.origin import show

    if json:
        replicas = [{"node": node, "replica": k} for node, k in seen]
        print_json({"source": name, "until_wall_us": until_us, "unreachable_for": replicas})
    elif seen:
        names = ", ".join(f"{query}.r{k}" for query, k in seen)
        say(f"{name} is unreachable for {names}, {duration} long, until {show(until_us)}")
    if not seen and outlasted:
        say(
            f"the failure of {name} is written, {duration} long until {show(until_us)}, and was over before a replica "
            "reported it: they report once a second. `--for 2s` is seen",
            "yellow",
        )
    elif not seen:
        fail(f"no replica of app {state.name!r} reports that it lost {name}: is one running? (`borealis status`)")
        raise typer.Exit(1)
