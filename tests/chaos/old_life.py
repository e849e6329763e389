"""`python -m tests.chaos.old_life`: a replica process of a life of the app that is over, left by a reset elsewhere.

It is the product's own, but for what it took for the app's description when it was started.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import msgspec

from borealis_py.app.state import AppState, read_app
from borealis_py.log.base import Log
from borealis_py.runtime.process import __main__ as process

APP_UID = "0d11fe00"


def read_old(log: Log, name: str | None = None) -> AppState:
    """What it read in its own life."""
    state = read_app(log, name)
    return replace(state, description=msgspec.structs.replace(state.description, app_uid=APP_UID))


if __name__ == "__main__":
    process.read_app = read_old
    sys.exit(process.main())
