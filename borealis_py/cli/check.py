"""`borealis check`: is the app right? Needs no broker."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.console import print_json, print_table
from borealis_py.cli.options import Json

if TYPE_CHECKING:
    from borealis_py.host.check import QueryReport
    from borealis_py.query.spec import AppSpec

AppFile = Annotated[Path, typer.Argument(help="The Python file with the app.", show_default=False)]


def check(file: AppFile, json: Json = False) -> None:
    """Load the app and every query as a replica would, and show what they are."""
    from borealis_py.host.appfile import load_app
    from borealis_py.host.check import check as check_app
    from borealis_py.host.config import load

    spec = load_app(file).describe()
    reports = check_app(spec, load().protocol_timing())
    if json:
        print_json(_as_json(spec, reports))
        return
    _print(spec, reports)


def _as_json(spec: AppSpec, reports: list[QueryReport]) -> dict[str, object]:
    return {
        "app": spec.name,
        "hash": spec.hash,
        "bucket_us": spec.bucket_us,
        "sources": spec.sources,
        "queries": {
            r.query: {
                "inputs": r.inputs,
                "columns": dict(r.columns),
                "operator_class": r.operator_class or None,
                "replicas": spec.queries[r.query].replicas,
                "threshold_us": r.threshold_us,
                "least_threshold_us": r.least_threshold_us,
                "wait_us": r.wait_us,
                "hash": spec.query_hash(r.query),
                "fingerprint": r.fingerprint,
            }
            for r in reports
        },
    }


def _print(spec: AppSpec, reports: list[QueryReport]) -> None:
    from borealis_py.query import format_duration

    sources = [[name, ", ".join(f"{c} {t}" for c, t in columns.items())] for name, columns in spec.sources.items()]
    print_table(f"app {spec.name}: bucket {format_duration(spec.bucket_us)}", ["source", "columns"], sources)
    classed = any(r.operator_class for r in reports)
    columns = ["query", "inputs in order", "result", *(["class"] if classed else [])]
    columns += ["replicas>", "threshold>", "least>", "waits for an input>"]
    rows = []
    for r in reports:
        result = "\n".join(f"{name} {kind}" for name, kind in r.columns)
        durations = [format_duration(us) for us in (r.threshold_us, r.least_threshold_us, r.wait_us)]
        replicas = str(spec.queries[r.query].replicas)
        rows.append(
            [r.query, ", ".join(r.inputs), result, *([r.operator_class] if classed else []), replicas, *durations]
        )
    print_table("", columns, rows)
