"""What an ingress process does whose topics have all ended, if nothing but a container engine starts it again.

An engine that starts whatever exits would start it for ever, with a growing pause, and call that a failure: nothing is
wrong, and nothing can follow END. So it stays, healthy, until it is stopped.
"""

from __future__ import annotations

import threading
from contextlib import closing

import structlog

from borealis_py.app.supervisor import exit_codes
from borealis_py.app.supervisor.exit_codes import ExitCode
from borealis_py.log.base import Log, LogError
from borealis_py.log.description import OtherLife, OtherVersion, check_life
from borealis_py.runtime.ends import end_of

log = structlog.get_logger(__package__)

LOOK_S = 5.0
"""How often it looks whether the app was begun anew: its topics have not ended in the app's new life."""
REMARK = "this ingress has nothing left to do, and stays until it is stopped"


def stay(app_log: Log, app: str, app_uid: str, stop: threading.Event, look_s: float = LOOK_S) -> ExitCode:
    """Wait until stopped, or until the app was begun anew: then the process must start again to join it.

    Args:
        app_log: of the app. app_uid: of the life whose sources have ended.
    """
    log.info(f"all sources have ended: {REMARK}", app=app)
    while not stop.wait(look_s):
        try:
            with closing(app_log.lookup()) as lookup:
                check_life(lookup, app, app_uid)
        except (OtherLife, OtherVersion) as exc:
            end = end_of(exc)
            assert end is not None
            log.error("this ingress ends", why=str(exc), exit=end.exit.name)
            return end.exit
        except LogError:
            continue  # no broker, or no description at the moment
    return exit_codes.STOPPED
