"""Which page each generator makes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from borealis_py.cli.reference import commands, metrics, python_api, status

PAGES: Mapping[str, Callable[[], str]] = MappingProxyType(
    {"commands": commands.page, "metrics": metrics.page, "python": python_api.page, "status": status.page}
)
"""Name of a page in docs/reference -> what makes its text."""
