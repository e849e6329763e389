"""`borealis source`: settings of a source that an ingress writes, while it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from borealis_py.cli.shared.changing import TIMEOUT, clock
from borealis_py.cli.shared.console import fail, print_json, print_table, say, waiting
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.options import AppName, Bootstrap, Json

if TYPE_CHECKING:
    from collections.abc import Callable

    import msgspec

    from borealis_py.app.source_settings import IngressObeys, SourceChanged
    from borealis_py.app.state import AppState
    from borealis_py.ingress.source_settings import SourceSettings
    from borealis_py.log.base import Log

    Asked = tuple[str, msgspec.Struct, Callable[[SourceSettings], bool]]
    """Key and value of a setting, and whether an ingress with these settings obeys it."""

app = typer.Typer(
    help="Change how a running app waits for a foreign topic.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Source = Annotated[str, typer.Argument(help="A source that reads a topic of other programs.", show_default=False)]
Timeout = Annotated[
    str, typer.Option("--timeout", help="How long to wait until every running ingress reports that it obeys.")
]


@app.callback()
def source() -> None:
    """Change how a running app waits for a foreign topic."""


@app.command(short_help="Give up a partition of the topic that cannot be read.")
def skip(
    source: Source,
    partition: Annotated[
        int, typer.Option("--partition", min=0, help="Partition of the topic to give up.", show_default=False)
    ],
    undo: Annotated[bool, typer.Option("--undo", help="Wait for it again.")] = False,
    timeout: Timeout = TIMEOUT,
    bootstrap: Bootstrap = None,
    app: AppName = None,
    json: Json = False,
) -> None:
    """Give up a partition of a source's topic that cannot be read, until `--undo`: no result waits for it any more.

    Its ingresses go on reading it. What it still holds, and what comes while it is given up, is copied where it comes
    in time; the rest becomes dead letters. A partition that nothing waits for is refused.
    """
    from borealis_py.app.source_settings import check_skip
    from borealis_py.log.messages import PartitionSkip

    def asked(log: Log, state: AppState) -> Asked:
        if not undo and partition not in state.source_settings(source).skipped:
            check_skip(log, state, source, partition)
        value = PartitionSkip(state.app_uid, not undo)
        return f"skip/{source}/{partition}", value, lambda settings: (partition in settings.skipped) is not undo

    state, found = _carry_out(source, asked, timeout, bootstrap, app)
    done = "is waited for again" if undo else "is given up: no result waits for it any more"
    already = "is waited for already" if undo else "was given up already"
    _tell(state.name, found, f"partition {partition} {done if found.written else already}", timeout, json)


@app.command(short_help="End a source: no more rows, ever.")
def end(
    source: Source,
    timeout: Timeout = TIMEOUT,
    bootstrap: Bootstrap = None,
    app: AppName = None,
    json: Json = False,
) -> None:
    """End a source for ever: its ingress copies what its topic holds now, then writes END, as publishers do.

    No result waits for it any more. What comes to the topic later is not copied. That cannot be taken back. A partition
    that cannot be read is waited for, unless it is given up (`borealis source skip`).
    """
    from borealis_py.log.messages import EndOfSource

    def asked(log: Log, state: AppState) -> Asked:
        return f"end/{source}", EndOfSource(state.app_uid), lambda settings: settings.ending

    def over(found: SourceChanged) -> bool:
        return (found.ended and not found.pending) or not any(one.running for one in found.ingresses)

    state, found = _carry_out(source, asked, timeout, bootstrap, app, over)
    done = "has ended" if found.ended else "ends once all that its topic holds has been copied"
    _tell(state.name, found, done, timeout, json)
    if not found.ended and found.owner is not None:
        for one in found.owner.inputs:
            if one.missing:
                say(f"END waits for {one.name} ({one.feeds}): {one.missing}", "yellow")


@app.command(short_help="Change how much silence is expected of a source.")
def expect(
    source: Source,
    silence: Annotated[
        str, typer.Argument(help="2s: an input that is silent for longer is missing; none: never.", show_default=False)
    ],
    timeout: Timeout = TIMEOUT,
    bootstrap: Bootstrap = None,
    app: AppName = None,
    json: Json = False,
) -> None:
    """Change after how much silence an input of a source is missing, until the app's file says another `expect=`.

    It must be less than every query that reads the source waits for an input (the message has both numbers).
    """
    from borealis_py.app.source_settings import check_expect
    from borealis_py.log.messages import ExpectedSilence
    from borealis_py.query import format_duration, parse_duration

    expect_us = None if silence == "none" else parse_duration(silence, "silence")

    def asked(log: Log, state: AppState) -> Asked:
        check_expect(state, source, expect_us)
        return (
            f"expect/{source}",
            ExpectedSilence(state.app_uid, expect_us),
            lambda settings: settings.expect_us == expect_us,
        )

    state, found = _carry_out(source, asked, timeout, bootstrap, app)
    means = "means that nothing happened" if expect_us is None else f"of {format_duration(expect_us)} means missing"
    done = f"silence {means}{'' if found.written else ' already'}"
    _tell(state.name, found, "has ended: nothing is expected of it any more" if found.ended else done, timeout, json)


def _carry_out(
    source: str,
    asked: Callable[[Log, AppState], Asked],
    timeout: str,
    bootstrap: str | None,
    app: str | None,
    over: Callable[[SourceChanged], bool] | None = None,
) -> tuple[AppState, SourceChanged]:
    """Write a setting and wait until every running ingress obeys it.

    Args:
        asked: what to write; raises SettingsError or QueryError if that makes no sense, which ends the command.
        over: when the wait is over instead.
    """
    from borealis_py.app.source_settings import change_source, refuse_other
    from borealis_py.protocol.settings import SettingsError
    from borealis_py.query import parse_duration
    from borealis_py.query.errors import QueryError

    timeout_us = parse_duration(timeout, "--timeout")
    context = open_context(bootstrap)
    state = context.app(app)
    refuse_other(state, source)
    try:
        key, value, obeyed = asked(context.log, state)
    except (SettingsError, QueryError) as exc:
        fail(str(exc))
        raise typer.Exit(1) from exc
    until = () if over is None else (over,)
    what = f"waiting until the ingresses of {source} obey" if over is None else f"waiting until {source} has ended"
    with waiting(what):
        return state, change_source(context.log, state, source, {key: value}, obeyed, timeout_us / 1e6, *until)


def _tell(app: str, found: SourceChanged, done: str, timeout: str, json: bool) -> None:
    if json:
        print_json(
            {
                "app": app,
                "source": found.source,
                "written": found.written,
                "ended": found.ended,
                "ingresses": [_one(one) for one in found.ingresses],
            }
        )
    say(f"{found.source}: {done}", "" if found.written else "yellow")
    if not json:
        print_table("", ["ingress", "in force (UTC)"], [[str(one.index), _shown(one)] for one in found.ingresses])
    if not any(one.running for one in found.ingresses):
        say(f"no ingress of {found.source} runs: it will be in force when one starts (`borealis up`)", "yellow")
    elif found.pending:
        names = ", ".join(str(one.index) for one in found.pending)
        say(f"not in force after {timeout} at ingress {names}. It is written, and obeyed once it is read", "red")
        raise typer.Exit(1)


def _one(one: IngressObeys) -> dict[str, Any]:
    in_force = one.running and not one.pending
    return {
        "ingress": one.index, "running": one.running, "in_force": in_force, "since_wall_us": one.since_wall_us
    }  # fmt: skip


def _shown(one: IngressObeys) -> Text:
    if one.ended:
        return Text("ended", "green")
    if not one.running:
        return Text("not running", "yellow")
    return Text("not yet", "red") if one.since_wall_us is None else Text(f"since {clock(one.since_wall_us)}", "green")
