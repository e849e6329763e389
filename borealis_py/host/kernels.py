"""Compiling a query where only its description is at hand."""

from __future__ import annotations

from borealis_py.engine import Kernel, compile_query
from borealis_py.query.spec import AppSpec


def make_kernel(app_json: str, query: str) -> Kernel:
    """Raises QueryError."""
    return compile_query(AppSpec.from_json(app_json), query)
