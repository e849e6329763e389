"""`borealis subscribe`: follow a query's results as JSON lines."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from borealis_py.cli.shared.console import INTERRUPTED, print_json, say
from borealis_py.cli.shared.context import Context, open_context
from borealis_py.cli.shared.options import AppName, Bootstrap, Json
from borealis_py.config.signals import setting
from borealis_py.query.names import base_name

if TYPE_CHECKING:
    from borealis_py.app.state import AppState, Statuses


class ViewOption(StrEnum):
    corrected = "corrected"
    live = "live"
    raw = "raw"


class From(StrEnum):
    beginning = "beginning"
    now = "now"


def subscribe(
    query: Annotated[str, typer.Argument(help="A query of the app; for raw any node.", show_default=False)],
    view: Annotated[
        ViewOption,
        typer.Option(
            "--view",
            help="corrected: stable rows, each once, in order. live: tentative now, stable later. "
            "raw: one replica's records.",
        ),
    ] = ViewOption.corrected,
    start: Annotated[
        From | None,
        typer.Option("--from", help="beginning or now.", show_default="beginning; now for live"),
    ] = None,
    count: Annotated[int | None, typer.Option("--count", min=1, help="End after this many lines.")] = None,
    until_end: Annotated[
        bool, typer.Option("--until-end/--forever", help="End when all sources have ended, or wait on.")
    ] = True,
    replica: Annotated[int, typer.Option("--replica", min=0, help="Replica to read, for raw.")] = 0,
    bootstrap: Bootstrap = None,
    app: AppName = None,
    json: Json = True,
) -> None:
    """Follow a query's results: one JSON object per line, until Ctrl-C, --count or the end of the sources.

    `borealis read` prints the results that there are, and ends.
    """
    context = open_context(bootstrap)
    state = context.app(app)
    _check(state, query, view, replica)
    statuses = _statuses(context, state)
    _say_late(state, query, statuses)
    if not _runs(context, state, query, statuses):
        say(
            f"no replica of {query} runs: printing the results there are; more come once one runs (`borealis up`)",
            "yellow",
        )
    stop = threading.Event()
    beginning = start is From.beginning or (start is None and view is not ViewOption.live)
    lines, number = _lines(context, state, query, view, beginning, replica, stop), 0
    with setting(stop, signal.SIGINT):
        try:
            for number, line in enumerate(lines, 1):
                print_json(line)
                if number == count:
                    return
            if not (number or beginning or stop.is_set()):
                say(
                    f"every source of {query} ended before now: --from beginning prints the results there are", "yellow"
                )
            if not stop.is_set() and not until_end:
                stop.wait()
        finally:
            lines.close()  # type: ignore[attr-defined]  # a generator: closes the consumers
            _say_late(state, query, _statuses(context, state), but=statuses)
    if stop.is_set():
        raise typer.Exit(INTERRUPTED)


def _statuses(context: Context, state: AppState) -> Statuses:
    """What replicas have reported lately."""
    from borealis_py.app.state import GONE_S, StatusReader

    since_ms = time.time_ns() // 1_000_000 - int(GONE_S * 1000)
    with closing(StatusReader(context.log, state.name, since_ms)) as reader:
        reader.poll()
        return dict(reader.newest)


def _runs(context: Context, state: AppState, query: str, statuses: Statuses) -> bool:
    """Whether any replica of the query, or node, has reported lately; or, on a busy machine, at least lives."""
    from borealis_py.app.liveness import alive
    from borealis_py.app.replica_health import health_of

    now_us = time.time_ns() // 1000
    reported = (key[0] for key, one in statuses.items() if not health_of(one, state.spec.bucket_us, now_us).gone)
    if any(query in (node, base_name(node)) for node in reported):
        return True
    living = (one.node for one in alive(context.log, state.name, len(state.runs.all_nodes)))
    return any(query in (node, base_name(node)) for node in living)


def _say_late(state: AppState, query: str, statuses: Statuses, but: Statuses | None = None) -> None:
    """Tell of rows that came too late for results of the query, unless `but` has it already."""
    from borealis_py.cli.shared.replica_table import too_late

    told = set() if but is None else set(too_late(state, query, but))
    for line in too_late(state, query, statuses):
        if line not in told:
            say(line, "yellow")


def _check(state: AppState, query: str, view: ViewOption, replica: int) -> None:
    if view is ViewOption.raw:
        most = state.runs.node(query).replicas - 1
        if replica > most:
            raise typer.BadParameter(f"{state.runs.label(query)} has replicas 0 to {most}", param_hint="--replica")
    elif query in state.spec.nodes:
        served = ", ".join(s.query for s in state.spec.serves(query))
        raise typer.BadParameter(
            f"{query!r} is a node of {served}, and only a query has a {view} view; --view raw shows what a node's "
            "replicas say",
            param_hint="QUERY",
        )
    else:
        state.spec.query(query)


def _lines(
    context: Context,
    state: AppState,
    query: str,
    view: ViewOption,
    beginning: bool,
    replica: int,
    stop: threading.Event,
) -> Iterator[dict[str, Any]]:
    from borealis_py import api

    if view is ViewOption.raw:
        yield from api.raw(context.log, state, query, replica, stop)
        return
    whole = state.spec.query(query).partitions is None
    follow = api.live if view is ViewOption.live else api.corrected
    for found in follow(context.log, state, query, beginning, stop):
        line = asdict(found)
        if whole:
            del line["partition"]
        yield line
