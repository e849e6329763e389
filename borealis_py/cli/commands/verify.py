"""`borealis verify`: the topics of an app judged by the independent checker, while the app runs or after."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.shared.console import err, fail, out, print_json, say
from borealis_py.cli.shared.context import Context, open_context
from borealis_py.cli.shared.errors import hint_of, is_expected
from borealis_py.cli.shared.options import AppName, Bootstrap, DataDir, Json

if TYPE_CHECKING:
    from borealis_py.app.state import AppState
    from borealis_py.verify.anomalies import Verdict
    from borealis_py.verify.description import CheckedApp

UNCHECKED = 2
"""Exit code where no verdict could be had."""


def verify(
    queries: Annotated[
        list[str] | None,
        typer.Argument(metavar="[QUERY]...", help="Queries; all if none is named.", show_default=False),
    ] = None,
    bootstrap: Bootstrap = None,
    app: AppName = None,
    data_dir: DataDir = None,
    json: Json = False,
    file: Annotated[
        Path | None, typer.Option("--out", help="Also write the verdict as JSON into this file.", show_default=False)
    ] = None,
) -> None:
    """Check what lies in Kafka against itself: order, ids, duplicates, holes, labels, agreement of replicas.

    Reads every topic of the queries with a second Kafka client and shares no code with what wrote them. The app may
    run. Exit code 0: nothing is wrong. 1: anomalies were found. 2: it could not be checked.
    """
    import msgspec

    from borealis_py.verify.kafka_properties import CannotTranslate
    from borealis_py.verify.kafka_reader import CannotRead
    from borealis_py.verify.report import as_json, show

    try:
        context = open_context(bootstrap, data_dir)
        state = context.app(app)
        names = list(dict.fromkeys(queries or state.spec.queries))
        for name in names:
            state.spec.query(name)
        verdict = _survey(context, _described(state), names)
        document = {"app": state.name, "queries": names, **as_json(verdict)}
        if file is not None:
            file.write_bytes(msgspec.json.encode(document) + b"\n")
    except (CannotRead, CannotTranslate) as exc:
        fail(f"not verified: {exc}")
        raise typer.Exit(UNCHECKED) from exc
    except Exception as exc:
        if not is_expected(exc):
            raise
        fail(f"not verified: {exc}", hint_of(exc))
        raise typer.Exit(UNCHECKED) from exc
    title = f"{state.name}: {', '.join(names)}"
    if json:
        print_json(document)
    else:
        show(verdict, title, out())
    if verdict.kinds:
        counts = ", ".join(f"{kind} {verdict.count(kind)}" for kind in sorted(verdict.kinds))
        say(f"{title}: anomalies were found: {counts}", "bold red")
    else:
        say(f"{title}: nothing is wrong", "bold green")
    raise typer.Exit(1 if verdict.kinds else 0)


def _survey(context: Context, app: CheckedApp, queries: list[str]) -> Verdict:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from borealis_py.verify.kafka_properties import translated
    from borealis_py.verify.kafka_reader import TopicReader
    from borealis_py.verify.survey import reads, survey

    topics = TopicReader(context.log.bootstrap, translated(dict(context.log.properties)))
    columns = (BarColumn(), TimeElapsedColumn(), TextColumn("{task.description}", markup=False))
    try:
        with Progress(*columns, console=err(), transient=True) as bar:
            task = bar.add_task("reading", total=reads(app, queries))

            def told(topic: str, done: int, total: int) -> None:
                bar.update(task, advance=int(done >= total), description=f"{topic}: {done} of {total} offsets")

            return survey(app, queries, topics, told)
    finally:
        topics.close()


def _described(state: AppState) -> CheckedApp:
    """What the checker is told: plain values."""
    from contextlib import closing

    from borealis_py.engine.kernel import compile_query
    from borealis_py.query.recovery import RecoveryWay
    from borealis_py.query.spec import count_of
    from borealis_py.verify.description import CheckedApp, CheckedNode

    runs, nodes = state.runs, []
    for name, node in runs.all_nodes.items():
        with closing(compile_query(runs, name)) as kernel:
            schema, lookback = kernel.output_schema, kernel.lookback_buckets
        readers, query = count_of(node.exchange), name in runs.queries
        recovery = node.model_dump(mode="json").get("recovery") or {}
        as_declared = recovery.get("way", RecoveryWay.ACTIVE) != RecoveryWay.ACTIVE
        one_runs = as_declared or name in state.recovering  # at some time, perhaps
        nodes.append(CheckedNode(name, node.inputs, schema, node.replicas, readers, lookback, query, one_runs))
    rules = state.timing.ahead_max_us, state.timing.row_max_bytes
    return CheckedApp(
        state.name,
        state.app_uid,
        state.origin,
        runs.bucket_us,
        *rules,
        sources=runs.sources,
        nodes=tuple(nodes),
        called=runs.input_names,
    )
