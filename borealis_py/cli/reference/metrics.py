"""docs/reference/metrics.md, from the families of the `/metrics` page."""

from __future__ import annotations

from borealis_py.observe.ingress_metrics import ingress_families
from borealis_py.observe.metrics import families

HEAD = """# Metrics

What a replica process or an ingress process serves as `/metrics` where `borealis up --http HOST:PORT` or `http:` says,
in Prometheus' format ([how to alert on it](../how-to/alerts.md)), beside the usual `process_` and `python_` metrics.
Times are seconds since 1970, of the data (stime) or of the clock. This page is generated from the code.

| metric | type | labels | |
|---|---|---|---|
"""
SUFFIXES = {"counter": "_total", "summary": "_count, _sum"}


def page() -> str:
    """The whole page."""
    return HEAD + "".join(
        f"| `{name}{SUFFIXES.get(kind, '')}` | {kind} | {', '.join(labels)} | {text} |\n"
        for name, kind, labels, text in (*families(), *ingress_families())
    )
