"""Compiling a query where only its description is at hand: in a replica's process and in Spark's workers."""

from __future__ import annotations

from borealis_py.engine import compile_query
from borealis_py.query.spec import AppSpec
from reconcile.work import Kernel


def make_kernel(app_json: str, query: str) -> Kernel:
    """Raises QueryError."""
    return compile_query(AppSpec.from_json(app_json), query)
