"""An app on a log without the commands: described as `borealis up` describes it, and its sources cut off."""

from __future__ import annotations

from collections.abc import Iterable

from borealis_py.app import launch
from borealis_py.app.state import AppState, put_settings
from borealis_py.log.base import Log
from borealis_py.log.messages import SourceFailure
from borealis_py.protocol.settings import Timing
from borealis_py.query import App
from borealis_py.query.spec import AppSpec
from tests.harness.waiting import wall_us


def described(log: Log, app: App | AppSpec, timing: Timing | None = None, now_us: int | None = None) -> AppState:
    """Check an app and write its description and topics. Its origin is now, or `now_us`, wall microseconds.

    Raises:
        LaunchError, LogError: as `launch.describe` does.
    """
    spec, timing = app.describe() if isinstance(app, App) else app, timing or Timing()
    return launch.describe(
        log, spec, launch.check(spec, timing), "now", wall_us() if now_us is None else now_us, timing
    )


def cut_off(log: Log, app: str, sources: Iterable[str], until_us: int, app_uid: str = "") -> None:
    """Have replicas not read these sources until a wall time, microseconds, as `borealis fail source` does.

    Args:
        app_uid: only in this life of the app.
    """
    put_settings(log, app, {f"fail/{source}": SourceFailure(until_us, app_uid) for source in sources})
