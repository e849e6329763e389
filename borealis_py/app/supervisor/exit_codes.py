"""The exit codes of a replica process, with their names: the only table of them.

Whatever restarts replica processes (the supervisor of `borealis up`, compose, Kubernetes) relies on it. A restart does
not fix a final end: a person has to do something first. Standard library only: the supervisor imports little else.
"""

from __future__ import annotations

import signal
from typing import NamedTuple


class ExitCode(NamedTuple):
    """One way to end. `final`: it is not restarted. `means`, `todo`: human-readable."""

    code: int
    name: str
    final: bool
    means: str
    todo: str = ""


STOPPED = ExitCode(0, "stopped", True, "it was asked to stop and ended in order")
FAILED = ExitCode(
    1, "failed", False, "it could not start, or failed: no broker, its index runs elsewhere, no Spark, a bug"
)
USAGE = ExitCode(2, "usage", True, "its arguments are unknown to it", "run `borealis up` again")
SUPERSEDED = ExitCode(3, "superseded", True, "its replica index runs elsewhere", "`borealis status` shows where")
LOST = ExitCode(
    4, "records lost", True, "records that it needs are gone, and no peer's checkpoint replaces them", "see its log"
)
KERNEL = ExitCode(
    5, "kernel differs", True, "this machine would compute other bits", "install the same versions everywhere"
)
OTHER_LIFE = ExitCode(
    6, "another life", True, "the app was begun anew (`--reset`)", "run `borealis up` here to join it"
)
OUT_OF_MEMORY = ExitCode(
    7, "out of memory", True, "the engine needs more memory than its limit", "see its log for what to raise"
)
REFUSED = ExitCode(8, "refused", True, "its settings make no sense for this app", "see its log, then `borealis up`")
FILE = ExitCode(
    9,
    "file differs",
    True,
    "a table's file has another content here, or is not there",
    "copy the file from where `up` ran",
)
FUNCTION = ExitCode(
    10,
    "function differs",
    True,
    "a Python function of the app is not here, or in another version",
    "install the same versions everywhere, or share the place of checkpoints",
)
ENDED = ExitCode(
    11,
    "ended",
    True,
    "all its sources have ended, and nothing can follow END",
    "nothing; `borealis up --reset` begins anew",
)
TOO_LARGE = ExitCode(
    12,
    "record too large",
    True,
    "one of its topics has refused the same record twice for its size",
    "see its log for the topic and what to raise, then `borealis up`",
)

EXITS = (
    STOPPED,
    FAILED,
    USAGE,
    SUPERSEDED,
    LOST,
    KERNEL,
    OTHER_LIFE,
    OUT_OF_MEMORY,
    REFUSED,
    FILE,
    FUNCTION,
    ENDED,
    TOO_LARGE,
)
_BY_CODE = {one.code: one for one in EXITS}


def exit_of(code: int) -> ExitCode:
    """The meaning of an exit code; signals are negative, as in `subprocess` and `os`. Unknown codes are not final."""
    if code < 0:
        return ExitCode(code, signal_name(-code), False, "a signal ended it")
    return _BY_CODE.get(code) or ExitCode(
        code, f"exit code {code}", False, "it ended in a way of which nothing is known"
    )


def signal_name(number: int) -> str:
    """`SIGKILL`; the number of a signal that Python does not know."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def described(code: int) -> str:
    """Human-readable: `killed by SIGKILL`, or `exit code 3, superseded: its replica index runs elsewhere`."""
    found = exit_of(code)
    if code < 0:
        return f"killed by {found.name}"
    known = f", {found.name}: {found.means}" if code in _BY_CODE else ""
    return f"exit code {code}{known}"
