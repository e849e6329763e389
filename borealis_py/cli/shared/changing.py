"""Shared by `borealis threshold` and `borealis policy`: write, wait until it is in force, show where."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from borealis_py.cli.shared.console import fail, print_json, print_table, say, waiting
from borealis_py.cli.shared.context import open_context

if TYPE_CHECKING:
    from borealis_py.app.settings import Changed, Obeys, SettingChange
    from borealis_py.protocol.settings import Delays

Query = Annotated[str, typer.Argument(help="A query of the app.", show_default=False)]
Timeout = Annotated[
    str, typer.Option("--timeout", help="How long to wait until every running replica reports that it is in force.")
]
TIMEOUT = "10s"


def carry_out(
    query: str, asked: SettingChange, timeout: str, bootstrap: str | None, app: str | None, json: bool
) -> None:
    """Change the query's settings; exit code 1 if refused, or if a running replica does not obey in time.

    Raises:
        QueryError: unknown query, or a timeout that is not a duration.
        LogError: no such app, or no broker.
    """
    from borealis_py.app.settings import change
    from borealis_py.protocol.settings import SettingsError
    from borealis_py.query import format_duration, parse_duration

    timeout_us = parse_duration(timeout, "--timeout")
    context = open_context(bootstrap)
    state = context.app(app)
    with waiting(f"changing {query}") as spinner:

        def tell(so_far: Changed) -> None:
            names = ", ".join(f"{r.node}.r{r.replica}" for r in so_far.pending)
            spinner.update(f"waiting until it is in force: {names or 'done'}")

        try:
            found = change(context.log, state, query, asked, timeout_us / 1e6, tell)
        except SettingsError as exc:
            least_us = state.timing.least_threshold_us(state.spec.position(query))
            hint = (
                f"the least that would do: `borealis threshold {query} {format_duration(least_us)}`; "
                "less needs a lower `timing:`, which changes between `borealis down` and `borealis up`"
            )
            fail(str(exc), None if (asked.threshold_us or 0) > least_us else hint)
            raise typer.Exit(1) from exc
    if json:
        print_json(as_json(state.name, found))
    _tell(found, timeout, json)


def as_json(app: str, found: Changed) -> dict[str, Any]:
    """Everything known, as JSON values."""

    def delays(d: Delays) -> dict[str, Any]:
        return {"threshold_us": d.threshold_us, "failure": d.failure.value, "stabilization": d.stabilization.value}

    def one(r: Obeys) -> dict[str, Any]:
        return {
            "node": r.node,
            "replica": r.replica,
            "running": r.running,
            "in_force": r.running and not r.pending,
            "since_wall_us": r.since_wall_us,
        }

    return {
        "app": app,
        "query": found.query,
        "written": found.written,
        "before": delays(found.before),
        "after": delays(found.after),
        "replicas": [one(r) for r in found.replicas],
        "overtaken": None if found.overtaken is None else delays(found.overtaken),
    }


def _tell(found: Changed, timeout: str, json: bool) -> None:
    say(_headline(found), "" if found.written else "yellow")
    if not json:
        columns = ["replica", "in force (UTC)", "threshold>", "failure", "stabilization"]
        print_table("", columns, [_row(r) for r in found.replicas], ("stabilization", "failure", "threshold>"))
    shared = sorted({r.node for r in found.replicas if r.wanted != found.after})
    if shared:
        are, they = ("serves", "it obeys") if len(shared) == 1 else ("serve", "they obey")
        say(f"{', '.join(shared)} {are} other queries too: {they} the lowest threshold and the most eager policies")
    if found.overtaken is not None:
        say(f"changed meanwhile by someone else: {found.query} now has {in_words(found.overtaken)}", "red")
        raise typer.Exit(1)
    if not any(r.running for r in found.replicas):
        say(f"no replica of {found.query} runs: it will be in force when one starts (`borealis up`)", "yellow")
    elif found.pending:
        names = ", ".join(f"{r.node}.r{r.replica}" for r in found.pending)
        say(
            f"not in force after {timeout} at {names}. It is written, and they obey once they read it: see "
            "`borealis status`",
            "red",
        )
        raise typer.Exit(1)


def _headline(found: Changed) -> str:
    from borealis_py.query import format_duration

    before, after = found.before, found.after
    said = []
    if after.threshold_us != before.threshold_us:
        said.append(f"threshold {format_duration(before.threshold_us)} -> {format_duration(after.threshold_us)}")
    for name in ("failure", "stabilization"):
        old, new = getattr(before, name).value, getattr(after, name).value
        if old != new:
            said.append(f"{name} policy {old} -> {new}")
    if said:
        return f"{found.query}: {', '.join(said)}"
    return f"nothing changed: {found.query} has {in_words(after)} already"


def in_words(delays: Delays) -> str:
    """Threshold and policies, human-readable."""
    from borealis_py.query import format_duration

    policies = f"failure {delays.failure.value}, stabilization {delays.stabilization.value}"
    return f"threshold {format_duration(delays.threshold_us)}, {policies}"


def _row(r: Obeys) -> list[str | Text]:
    from borealis_py.query import format_duration

    name = f"{r.node}.r{r.replica}"
    if not r.running:
        return [name, Text("not running", "yellow"), "", "", ""]
    shown = Text("not yet", "red") if r.since_wall_us is None else Text(f"since {clock(r.since_wall_us)}", "green")
    if r.says is None:
        return [name, shown, "", "", ""]
    return [name, shown, format_duration(r.says.threshold_us), r.says.failure.value, r.says.stabilization.value]


def clock(wall_us: int) -> str:
    """Time of day (UTC) to a tenth of a second: changes are minutes old at most."""
    at = datetime.fromtimestamp(wall_us / 1e6, UTC)
    return f"{at:%H:%M:%S}.{at.microsecond // 100_000}"
