"""`borealis retain`: how much of a stream is kept beyond what is needed."""

from __future__ import annotations

from contextlib import closing, suppress
from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.shared.console import fail, print_json, say
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.options import AppName, Bootstrap, Json

if TYPE_CHECKING:
    from borealis_py.app.state import AppState
    from borealis_py.app.topics import AppTopics
    from borealis_py.cli.shared.context import Context
    from borealis_py.log.base import Log
    from borealis_py.query.spec import AppSpec

Stream = Annotated[
    str | None, typer.Argument(help="A source, node or query of the app.", show_default="all of them are shown")
]
Kept = Annotated[
    str | None,
    typer.Argument(
        help="needed, all, or time behind the last stable result: 24h; of a source also audited.",
        show_default="show it",
    ),
]
Forget = Annotated[
    str | None,
    typer.Option("--forget", help="Keep nothing for this replica, such as clean.r1, that will not come back."),
]


def retain(
    name: Stream = None,
    kept: Kept = None,
    forget: Forget = None,
    bootstrap: Bootstrap = None,
    app: AppName = None,
    json: Json = False,
) -> None:
    """Show or change how much of a stream is kept beyond what is needed.

    Of a source: its rows. Of a node or query: its replica streams, which the next nodes and live subscribers read.
    Corrected streams and dead letters are always kept. Replicas delete the rest within seconds, as far as no replica,
    publisher or take-over may still need it; `status` says for whom that waits, `status --json` (`trims`) who holds
    what stays. What is deleted is gone for good: a source without its beginning cannot be audited, unless it is kept as
    audited: then only what `borealis audit QUERY --advance` has verified, for all queries that its rows come to, is
    deleted.
    """
    from borealis_py.app.settings import give_up_replica, set_retain
    from borealis_py.app.state import UnknownName
    from borealis_py.protocol.settings import SettingsError
    from borealis_py.query.errors import did_you_mean
    from borealis_py.query.retention import format_retain, parse_retain, parse_source_retain

    context = open_context(bootstrap)
    state = context.app(app)
    try:
        if forget is not None:
            give_up_replica(context.log, state, forget)
        if name is not None and kept is not None:
            parse = parse_source_retain if name in state.spec.sources else parse_retain
            set_retain(context.log, state, name, parse(kept, name))
            state = context.app(app)
            fit_segments(context.log, state)
    except SettingsError as exc:
        fail(str(exc))
        raise typer.Exit(1) from exc
    known = [*state.spec.sources, *state.spec.all_nodes]
    if name is not None and name not in known:
        hint = did_you_mean(name, known) or ";"
        raise UnknownName(f"app {state.name!r} has no source, node or query {name!r}{hint} it has {', '.join(known)}")
    shown = {of: format_retain(state.keeps(of)) for of in (known if name is None else [name])}
    if json:
        print_json({"app": state.name, "retain": shown, "forgotten": forget})
        return
    if forget is not None:
        say(f"nothing is kept for {forget} any more while a peer of it lives, until it starts again")
    if forget is None or name is not None:
        for of, what in shown.items():
            say(f"{of}: {what}")


def say_copies(spec: AppSpec, context: Context, known: AppTopics) -> None:
    """Say what the copies of the app's topics, and of those that it reads, cost where a broker dies."""
    from borealis_py.app.copies import remarks
    from borealis_py.config.kafka import cluster_of
    from borealis_py.kafka.client import listens
    from borealis_py.log.base import LogError

    for line in remarks(known.replication, known.of_all):
        say(line, "yellow")
    for cluster in sorted({one.cluster for one in spec.ingresses.values() if one.cluster is not None}):
        names = [one.topic for one in spec.ingresses.values() if one.cluster == cluster]
        there = cluster_of(context.config, context.log, cluster)
        if not listens(there.bootstrap, 0.4):
            continue  # a remark is worth no waiting
        with suppress(LogError), closing(there.admin()) as admin:
            for line in remarks(admin.replication(names), admin.settings(names)):
                say(f"cluster {cluster}: {line}", "yellow")


def accept_all_times(log: Log, spec: AppSpec, known: AppTopics) -> None:
    """Let the app's topics take records of any time; warn of those that the brokers leave as they are."""
    from borealis_py.app.topics import accept_all_times as accept
    from borealis_py.log.topics import ANY_TIME

    refused = accept(log, spec, known)
    if refused:
        why = "; ".join(dict.fromkeys(refused.values()))
        wanted = ",".join(f"{name}={value}" for name, value in ANY_TIME)
        say(
            f"{', '.join(refused)}: refuse records whose time is far from the broker's clock, so a replica whose clock "
            f"is wrong stops there, and rows of such times never arrive: {why}. Have an administrator set {wanted}",
            "yellow",
        )


def fit_segments(log: Log, state: AppState) -> None:
    """Let topics that are trimmed have segments that can be freed; warn of those that the brokers leave as they are."""
    from borealis_py.app import topics

    refused = topics.fit_segments(log, state)
    if refused:
        why = "; ".join(dict.fromkeys(refused.values()))
        say(
            f"{', '.join(refused)}: segment.bytes stays as it is, so what is trimmed there leaves the disk late: {why}",
            "yellow",
        )
