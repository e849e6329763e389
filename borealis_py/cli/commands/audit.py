"""`borealis audit`: recompute a corrected stream from its sources and compare bit for bit."""

from __future__ import annotations

from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from borealis_py.cli.console import print_json, say, waiting
from borealis_py.cli.context import Context, open_context
from borealis_py.cli.options import AppName, Bootstrap, Json

if TYPE_CHECKING:
    from borealis_py.query.spec import AppSpec
    from reconcile.audit import AuditResult, AuditSpec


def audit(
    query: Annotated[str | None, typer.Argument(help="A query; default: all of them.", show_default=False)] = None,
    file: Annotated[
        Path | None,
        typer.Argument(help="The app's file: audit with its queries instead of the broker's.", show_default=False),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Count rows that are not published yet as missing.")] = False,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Recompute in this process; needs no Java.")] = False,
    bootstrap: Bootstrap = None,
    app: AppName = None,
    json: Json = False,
) -> None:
    """Recompute a query's results from its sources with Spark and compare. Exit code 1 if anything differs."""
    from borealis_py.node.code_storage import StoredCode
    from reconcile.audit import audit_specs

    context = open_context(bootstrap)
    state = context.app(app if file is None else _load(file).name)
    spec = state.spec if file is None else _load(file)
    queries = list(spec.queries) if query is None else [query]
    how = state.origin, state.timing.ahead_max_us, state.app_uid, whole, state.timing.row_max_bytes
    code = StoredCode(spec.name, context.data_dir / spec.name, context.config.checkpoints)
    todo = [one for name in queries for one in audit_specs(spec, name, context.log, *how, code)]
    with waiting(f"recomputing {', '.join(queries)} from the sources") as spinner:
        results, engine = _run(context, todo, not no_spark, spinner)
    if json:
        print_json([{**_as_json(result), "engine": engine} for result in results])
    for result in results:
        _tell(result, engine)
    raise typer.Exit(0 if all(result.clean for result in results) else 1)


def _load(file: Path) -> AppSpec:
    from borealis_py.app.loader import load_spec

    return load_spec(file)


def _run(context: Context, todo: list[AuditSpec], spark: bool, spinner: Any) -> tuple[list[AuditResult], str]:
    from borealis_py.runtime.spark.session import ReplicaSession, SparkSettings, SparkUnavailable
    from borealis_py.runtime.spark.slot_plan import SLOTS_S, SlotPlan, await_slots, reach
    from reconcile.audit import audit, audit_on_spark

    if not spark:
        return [audit(spec) for spec in todo], "inline"
    master = str(context.config.spark.get("master", "local[2]"))
    plan = SlotPlan(tuple(spec.work.node for spec in todo), 0, master)
    spinner.update("starting Spark")
    reach(master)
    extra = () if plan.local else plan.properties
    session = ReplicaSession.start_spark("borealis audit", SparkSettings(master=master, extra=extra))
    try:
        if not plan.local:
            spinner.update(f"waiting for a slot at {master}")
            try:
                await_slots(session.context, plan, Event(), SLOTS_S, least=1)
            except SparkUnavailable as exc:
                raise SparkUnavailable(f"{exc}. Or recompute in this process: `--no-spark`") from exc
        spinner.update(f"recomputing {', '.join(spec.work.node for spec in todo)} from the sources on Spark")
        return audit_on_spark(session.context, todo), "spark"
    finally:
        session.stop()


def _as_json(result: AuditResult) -> dict[str, Any]:
    from dataclasses import asdict

    return {**asdict(result), "clean": result.clean}


def _tell(result: AuditResult, engine: str) -> None:
    name, seconds = result.query, f"{result.seconds:.1f} s on {engine}"
    if result.error is not None:
        say(f"{name}: not audited: {result.error}", "bold red")
    elif result.clean:
        letters = "" if result.dead_letters is None else f", {result.dead_letters} dead letters as they must be"
        say(f"{name}: {result.rows} rows recomputed, every bit the same{letters} ({seconds})", "bold green")
    else:
        first = f"; first: {result.first}" if result.first is not None else ""
        say(f"{name}: {result.differences} differences in {result.rows} rows ({seconds}){first}", "bold red")
        if result.dead_letter_differences:
            say(
                f"{name}: {result.dead_letter_differences} dead letters differ; first: {result.first_dead_letter}",
                "bold red",
            )
