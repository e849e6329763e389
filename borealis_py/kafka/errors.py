"""Errors of the local broker."""

from __future__ import annotations

from borealis_py.log.base import LogError


class BrokerError(LogError):
    """An operation of the local broker failed. The message says what to do about it."""
