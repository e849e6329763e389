"""Why an incarnation ends, apart from errors."""

from __future__ import annotations

from collections.abc import Iterable

from borealis_py.log.base import LogError
from borealis_py.protocol.control import ControlFold
from borealis_py.protocol.incarnation import Heartbeat
from sunion.units import Offset


class Superseded(Exception):
    """A newer incarnation of this replica index runs, so this one ends (R8.2)."""


class NumberShared(LogError):
    """Another process has this incarnation's number, so this one starts again with a higher one (B30)."""


class SteppedBack(Exception):
    """Another replica of the node runs, so this one stands by (R17.8)."""


class WayChanged(SteppedBack):
    """Its node recovers in another way now, so it starts again in that way."""


def give_way(control: ControlFold, recent: Iterable[tuple[Offset, Heartbeat]], ended: Exception) -> None:
    """Look for a successor before an incarnation ends. What that does not need may be deleted before this one has read
    that there is one (R16.4), and if this one began anew, its new number would end that one.

    Args:
        recent: the heartbeats at the control log's end. ended: why it ends otherwise.

    Raises:
        Superseded: there is.
    """
    for offset, beat in recent:
        control.read(offset, beat)
    if control.superseded is not None:
        raise Superseded(control.superseded) from ended
