"""Fixtures of this folder."""

from __future__ import annotations

from tests.observe.states import board, now  # noqa: F401
from tests.support.list_log import log  # noqa: F401
