"""Why an incarnation ends, apart from errors."""

from __future__ import annotations

from borealis_py.log.base import LogError


class Superseded(Exception):
    """A newer incarnation of this replica index runs, so this one ends (R8)."""


class NumberShared(LogError):
    """Another process has this incarnation's number, so this one starts again with a higher one (B30)."""


class SteppedBack(Exception):
    """Another replica of the node runs, so this one stands by (R17)."""


class WayChanged(SteppedBack):
    """Its node recovers in another way now, so it starts again in that way."""
