"""Errors of starting an app."""

from __future__ import annotations


class LaunchError(Exception):
    """The app cannot be started; the message says why."""
