"""`borealis check`: check an app without a broker (unless it has to be asked how many partitions a topic has). Where
one answers, the app's topics are checked, too: whether they have room for its rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.shared.console import print_json, print_table, say
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.foreign import (
    check_clusters,
    check_topics,
    print_topics,
    say_absent_columns,
    say_remarks,
    with_asked_inputs,
)
from borealis_py.cli.shared.options import Json, app_file

if TYPE_CHECKING:
    from borealis_py.app.check import NodeReport
    from borealis_py.protocol.settings import Timing
    from borealis_py.query.recovery import RecoveryPlan
    from borealis_py.query.spec import AppSpec

AppFile = Annotated[Path, typer.Argument(help="The Python file with the app.", show_default=False, callback=app_file)]


Rows = Annotated[
    list[str] | None,
    typer.Option(
        "--rows",
        metavar="SOURCE=FILE",
        help="Try functions with these rows, JSON lines, instead of generated ones; once for each source.",
        show_default=False,
    ),
]


Broker = Annotated[
    bool,
    typer.Option(
        "--broker",
        help="Also read the newest records of the app's topics, and name columns that none of them has.",
    ),
]


def check(file: AppFile, rows: Rows = None, broker: Broker = False, json: Json = False) -> None:
    """Load the app and every node as a replica would, and describe them.

    Python functions are called on rows: again, in parts, and in a second process with another hash seed, time zone and
    number of threads. One that gives another result is an error, with the first difference.
    """
    from borealis_py.app.loader import load_spec
    from borealis_py.config.config import load
    from borealis_py.runtime.lean_imports import hidden

    config = load()
    spec = load_spec(file)  # first: the file may want pandas
    with hidden("pandas"):  # the engine would load it, for 0.2 s, and has no use for it here
        from borealis_py.app.check import check as check_app
        from borealis_py.app.check import check_places

        spec = with_asked_inputs(spec, config)
    timing = config.protocol_timing()
    reports = check_app(spec, timing)
    check_places(spec.name, config.checkpoints)
    check_clusters(spec, config)
    check_topics(spec, config, timing.row_max_bytes)
    if spec.functions or rows:
        _try_functions(spec, rows or [])
    say_remarks(spec, timing, checked=True)
    if broker:
        context = open_context()
        context.check_broker()
        say_absent_columns(spec, context, timing)
    if json:
        print_json(_as_json(spec, reports, timing))
        return
    _print(spec, reports, timing)


def _try_functions(spec: AppSpec, rows: list[str]) -> None:
    """Raises QueryError, typer.BadParameter."""
    from borealis_py.app.functions.check import check_functions, remarks
    from borealis_py.app.functions.samples import samples

    wrong = next((one for one in rows if "=" not in one), None)
    if wrong is not None:
        raise typer.BadParameter(f"{wrong!r}: write SOURCE=FILE", param_hint="--rows")
    files = {source: Path(path) for source, _, path in (one.partition("=") for one in rows)}
    reports = check_functions(spec, samples(spec, files))
    same = sum(not report.useless for report in reports)
    say(f"functions: {same} of {len(reports)} uses gave equal results again, in parts, and in another process")
    for line in remarks(reports):
        say(line, "yellow")


def _as_json(spec: AppSpec, reports: list[NodeReport], timing: Timing) -> dict[str, object]:
    from borealis_py.query.recovery import RecoveryWay

    def one(r: NodeReport) -> dict[str, object]:
        parts = spec.node(r.name).partitions
        common = {
            "inputs": r.inputs,
            "columns": dict(r.columns),
            "operator_class": r.operator_class,
            "replicas": spec.node(r.name).replicas,
            "recovery": r.recovery.way.value,
            "sync_us": r.recovery.sync_us if r.recovery.way is RecoveryWay.PASSIVE_STANDBY else None,
            "guarantee": spec.node(r.name).guarantee.value,
            "partitions": None if parts is None else {"by": parts.by, "count": parts.count},
            "position": r.position,
            "serves": r.serves,
            "wait_us": r.delays.wait_us,
            "hash": spec.query_hash(r.name),
            "fingerprints": r.fingerprints,
        }
        if r.name in spec.nodes:
            return common
        least_us = timing.least_threshold_us(r.position)
        return {**common, "threshold_us": spec.query(r.name).threshold_us, "least_threshold_us": least_us}

    return {
        "app": spec.name,
        "hash": spec.hash,
        "bucket_us": spec.bucket_us,
        "sources": spec.sources,
        "topics": {name: ingress.model_dump(mode="json") for name, ingress in spec.ingresses.items()},
        "nodes": {r.name: one(r) for r in reports if r.name in spec.nodes},
        "queries": {r.name: one(r) for r in reports if r.name in spec.queries},
    }


def _print(spec: AppSpec, reports: list[NodeReport], timing: Timing) -> None:
    from borealis_py.query import format_duration

    sources = [[name, ", ".join(f"{c} {t}" for c, t in columns.items())] for name, columns in spec.sources.items()]
    print_table(f"app {spec.name}: bucket {format_duration(spec.bucket_us)}", ["source", "columns"], sources)
    print_topics(spec)
    chained = bool(spec.nodes)
    columns = ["node" if chained else "query", "inputs in order", "result", "class", "replicas>", "waits for an input>"]
    stands_by = any(r.recovery.stands_by for r in reports)
    if stands_by:
        columns.insert(5, "recovery")
    rows = []
    for r in reports:
        result = "\n".join(f"{name} {kind}" for name, kind in r.columns)
        replicas, wait = str(spec.node(r.name).replicas), format_duration(r.delays.wait_us)
        parts = spec.node(r.name).partitions
        name = r.name if parts is None else f"{r.name}\n{parts.count} partitions by {', '.join(parts.by)}"
        way = [_way(r.recovery)] if stands_by else []
        rows.append([name, ", ".join(r.inputs), result, r.operator_class, replicas, *way, wait])
    print_table("", columns, rows, ("class", "replicas>", "waits for an input>", "recovery", "inputs in order"))
    nodes = {q: [r.name for r in reports if q in r.serves] for q in spec.queries}
    print_table(
        "",
        ["query", *(["nodes"] if chained else []), "threshold>", "least>"],
        [
            [
                name,
                *([", ".join(nodes[name])] if chained else []),
                format_duration(query.threshold_us),
                format_duration(timing.least_threshold_us(spec.position(name))),
            ]
            for name, query in spec.queries.items()
        ],
        ("nodes", "least>"),
    )


def _way(plan: RecoveryPlan) -> str:
    from borealis_py.query import format_duration
    from borealis_py.query.recovery import RecoveryWay

    sync = f", sync {format_duration(plan.sync_us)}" if plan.way is RecoveryWay.PASSIVE_STANDBY else ""
    return f"{plan.way}{sync}"
