"""Waits for an app's description, for commands that containers start in any order."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from borealis_py.cli.shared.console import say

if TYPE_CHECKING:
    from borealis_py.app.state import AppState
    from borealis_py.cli.shared.context import Context

WAIT_S = 60.0
"""The broker and the description may appear later."""
LOOK_S = 1.0


def wait_described(context: Context, app: str | None) -> AppState:
    """The app, once it is described. Raises NoSuchApp, LogUnreachable after WAIT_S."""
    from borealis_py.app.state import NoSuchApp
    from borealis_py.log.base import LogUnreachable

    deadline, told = time.monotonic() + WAIT_S, ""
    while True:
        try:
            return context.app(app)
        except (LogUnreachable, NoSuchApp) as exc:
            if time.monotonic() > deadline:
                if isinstance(exc, NoSuchApp):
                    raise NoSuchApp(str(exc)) from exc  # no wrong word: it may be described later, so try again
                raise
            if str(exc) != told:
                told = str(exc)
                say(f"waiting: {told}", "yellow")
            time.sleep(LOOK_S)
