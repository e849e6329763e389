"""The command `borealis`: assembles the commands and turns errors into messages and exit codes.

docs/reference/exit-codes.md has the codes. Imports of commands are light, so that
--help is quick.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Annotated

import typer

from borealis_py.cli.commands import (
    audit,
    bench,
    broker,
    check,
    demo,
    down,
    explain,
    fail,
    ingress,
    inspect,
    logs,
    policy,
    publish,
    read,
    recovery,
    replica,
    resume,
    retain,
    sim,
    source,
    status,
    subscribe,
    threshold,
    top,
    up,
    verify,
)
from borealis_py.cli.shared.console import FAILED, USAGE
from borealis_py.cli.shared.console import fail as show_error
from borealis_py.cli.shared.errors import hint_of, is_expected, is_wrong_word

app = typer.Typer(
    name="borealis",
    help="Continuous queries on Kafka and Spark that keep answering while inputs are missing, and end exactly right.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"borealis-py {version('borealis-py')}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks and log messages. Works anywhere.")] = False,
) -> None:
    from borealis_py.runtime.lean_imports import hidden

    # structlog would load them to show tracebacks, for 0.02 s, and only --debug shows any
    with nullcontext() if debug else hidden("rich.traceback", "rich.pretty"):
        from borealis_py.config.logs import configure_logs

    configure_logs("debug" if debug else "warning", json=False)


app.add_typer(broker.app, name="broker")
app.command("check", short_help="Check an app's file as a replica would load it; needs no broker.")(check.check)
app.command("explain", short_help="Show nodes, delay budgets and topics of an app.")(explain.explain)
app.command("inspect", short_help="Show what a topic of other programs holds.")(inspect.inspect)
app.command("up")(up.up)
app.command("replica", short_help="Run one replica index here until SIGTERM.")(replica.replica)
app.command("ingress", short_help="Copy topics of other programs until SIGTERM.")(ingress.ingress)
app.command("down")(down.down)
app.command("publish")(publish.publish)
app.command("read", short_help="Print the results that a query has now.")(read.read)
app.command("subscribe", short_help="Follow a query's results as JSON lines.")(subscribe.subscribe)
app.command("status", short_help="Show all replicas of an app once.")(status.status)
app.command("logs", short_help="Show what processes here have logged.")(logs.logs)
app.command("top", short_help="Watch all replicas and their events.")(top.top)
app.command(
    "threshold",
    short_help="Change a query's delay threshold while it runs.",
    context_settings={"ignore_unknown_options": True},
)(threshold.threshold)  # -1s is a value
app.command("policy", short_help="Change a query's policies while it runs.")(policy.policy)
app.command("retain", short_help="Show or change how much of a stream is kept.")(retain.retain)
app.command("recovery", short_help="Show or change how a node survives a crash.")(recovery.recovery)
app.command("resume", short_help="Publish a query again whose replicas differed.")(resume.resume)
app.add_typer(source.app, name="source")
app.add_typer(fail.app, name="fail")
app.command("audit", short_help="Recompute a query's results and compare them bit for bit.")(audit.audit)
app.command("verify", short_help="Check what lies in Kafka with an independent reader.")(verify.verify)
app.command("demo", short_help="Lose an input of a real query, and see it corrected.")(demo.demo)
app.command("sim")(sim.sim)
app.add_typer(bench.app, name="bench")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code is returned, not raised."""
    given = list(sys.argv[1:] if argv is None else argv)
    debug = "--debug" in given or bool(os.environ.get("BOREALIS_DEBUG"))
    arguments = [*(["--debug"] if debug else []), *(a for a in given if a != "--debug")]
    try:
        app(args=arguments, prog_name="borealis")
    except SystemExit as exc:
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    except Exception as exc:
        if debug:
            traceback.print_exc()
        elif is_expected(exc):
            show_error(str(exc), hint_of(exc, arguments))
        else:
            show_error(
                f"{type(exc).__name__}: {exc}", "unexpected error: the same command with --debug prints a traceback"
            )
        return USAGE if is_wrong_word(exc) else FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main())
