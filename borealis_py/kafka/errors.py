"""What goes wrong with the local broker, in words for people."""

from __future__ import annotations

from borealis_py.log.base import LogError


class BrokerError(LogError):
    """The local broker could not do what was asked. The message says what to do about it."""
