"""`borealis audit`: recompute a corrected stream from its sources and compare bit for bit."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Annotated, Any

import typer

from borealis_py.cli.shared.console import fail, print_json, say, waiting
from borealis_py.cli.shared.context import Context, open_context
from borealis_py.cli.shared.options import AppName, Bootstrap, DataDir, Json, app_file

if TYPE_CHECKING:
    from borealis_py.app.audited import AuditPlace
    from borealis_py.app.state import AppState
    from borealis_py.query.spec import AppSpec
    from reconcile.audit import AuditResult, AuditSpec


def audit(
    query: Annotated[str | None, typer.Argument(help="A query; default: all of them.", show_default=False)] = None,
    file: Annotated[
        Path | None,
        typer.Argument(
            help="The app's file: audit with its queries instead of the broker's.",
            show_default=False,
            callback=app_file,
        ),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Count rows that are not published yet as missing.")] = False,
    no_spark: Annotated[bool, typer.Option("--no-spark", help="Recompute in this process; needs no Java.")] = False,
    advance: Annotated[
        bool, typer.Option("--advance", help="Keep where this audit ends, and begin there the next time.")
    ] = False,
    bootstrap: Bootstrap = None,
    data_dir: DataDir = None,
    app: AppName = None,
    json: Json = False,
) -> None:
    """Recompute a query's results from its sources with Spark and compare. Exit code 1 if anything differs.

    It begins where the last audit with --advance ended, if there was one, with the state that this one computed. What
    lies before, in sources that are kept as audited (`borealis retain`), may be deleted then.
    """
    from borealis_py.app.audited import AuditPlace
    from borealis_py.node.checkpoint_storage import LocationError
    from borealis_py.node.code_storage import StoredCode
    from reconcile.audit import audit_specs

    if whole and advance:
        raise typer.BadParameter(
            "what is not published yet cannot be verified: leave out --whole", param_hint="--advance"
        )

    context = open_context(bootstrap, data_dir)
    state = context.app(app if file is None else _load(file).name)
    spec = state.spec if file is None else _load(file)
    queries = list(spec.queries) if query is None else [query]
    how = state.origin, state.timing.ahead_max_us, state.app_uid, whole, state.timing.row_max_bytes
    directory, uri = context.data_dir / spec.name, context.config.checkpoints
    code, place = StoredCode(spec.name, directory, uri), AuditPlace(context.log, directory, uri)
    try:
        todo: dict[str, list[AuditSpec]] = {}
        for name in queries:
            starts = place.read(state, spec, name)
            todo[name] = [
                replace(one, start=starts.get(one.work.node), advance=advance)
                for one in audit_specs(spec, name, context.log, *how, code)
            ]
        with waiting(f"recomputing {', '.join(queries)} from the sources") as spinner:
            results, engine = _run(context, [one for specs in todo.values() for one in specs], not no_spark, spinner)
        if advance:
            advanced = {
                name for name, specs in todo.items() if _advance(context, state, spec, place, name, specs, results)
            }
    except LocationError as exc:
        fail(str(exc))
        raise typer.Exit(1) from exc
    if json:
        print_json([_as_json(result, engine, advanced if advance else None) for result in results])
    for result in results:
        _tell(result, engine, spec)
    if advance:
        for name in queries:
            _tell_advanced(name, name in advanced)
    raise typer.Exit(0 if all(result.clean for result in results) else 1)


def _advance(
    context: Context,
    state: AppState,
    spec: AppSpec,
    place: AuditPlace,
    query: str,
    specs: list[AuditSpec],
    results: list[AuditResult],
) -> bool:
    """Keep where the audit of a query ended. Returns whether the next one begins further on than this one."""
    from borealis_py.app.audited import tell

    found = {result.query: result for result in results}
    if not all(found[one.work.node].clean for one in specs):
        return False
    reached = {part: at for one in specs if (at := found[part := one.work.node].reached) is not None}
    if not reached:
        return False
    place.write(state, spec, query, reached)
    starts = {
        one.work.node: ([of.name for of in one.work.inputs], reached.get(one.work.node, one.start)) for one in specs
    }
    ends = {part: (sources, at) for part, (sources, at) in starts.items() if at is not None}
    if len(ends) == len(specs):  # else a partition's next audit begins at the beginning
        tell(context.log, state, query, ends)
    return True


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


def _as_json(result: AuditResult, engine: str, advanced: set[str] | None) -> dict[str, Any]:
    """`advanced`: the queries whose next audit begins where this one ended; None: that was not asked for."""
    from borealis_py.query.names import base_name

    found = {**asdict(replace(result, reached=None)), "clean": result.clean, "engine": engine}
    del found["reached"]
    return found if advanced is None else {**found, "advanced": base_name(result.query) in advanced}


def _tell(result: AuditResult, engine: str, spec: AppSpec) -> None:
    from borealis_py.app.origin import show

    name, seconds = result.query, f"{result.seconds:.1f} s on {engine}"
    for gap, end in result.lost:
        at, until = (show(bucket * spec.bucket_us) for bucket in (gap, end))
        say(f"{name}: lost, and named so: buckets {gap} to {end - 1} ({at} to {until})", "yellow")
    since = f" from {show(result.origin * spec.bucket_us)} on, where the last audit ended" if result.resumed else ""
    if result.error is not None:
        say(f"{name}: not audited: {result.error}", "bold red")
    elif result.clean:
        letters = "" if result.dead_letters is None else f", {result.dead_letters} dead letters as they must be"
        say(f"{name}: {result.rows} rows recomputed{since}, every bit the same{letters} ({seconds})", "bold green")
    else:
        first = f"; first: {result.first}" if result.first is not None else ""
        say(f"{name}: {result.differences} differences in {result.rows} rows{since} ({seconds}){first}", "bold red")
        if result.dead_letter_differences:
            say(
                f"{name}: {result.dead_letter_differences} dead letters differ; first: {result.first_dead_letter}",
                "bold red",
            )


def _tell_advanced(query: str, advanced: bool) -> None:
    if advanced:
        say(f"{query}: the next audit begins here")
    else:
        say(f"{query}: the next audit begins where this one did: nothing more was verified", "yellow")
