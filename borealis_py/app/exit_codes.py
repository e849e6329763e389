"""How a replica process ends, by name: the one table of its exit codes.

Whoever starts one again (the supervisor of `borealis up`, compose, Kubernetes) goes by it. A final end does not heal by
being started again: somebody has to do something first. Standard library only: the supervisor imports little else.
"""

from __future__ import annotations

import signal
from typing import NamedTuple


class ExitCode(NamedTuple):
    """One way to end. `final`: it is not started again. `means`, `todo`: for people."""

    code: int
    name: str
    final: bool
    means: str
    todo: str = ""


STOPPED = ExitCode(0, "stopped", True, "it was told to end and ended in order")
FAILED = ExitCode(
    1, "failed", False, "it could not start, or failed: no broker, its index runs elsewhere, no Spark, a bug"
)
USAGE = ExitCode(2, "usage", True, "it was started with arguments that it does not know", "run `borealis up` again")
SUPERSEDED = ExitCode(3, "superseded", True, "its replica index runs elsewhere", "`borealis status` shows where")
LOST = ExitCode(
    4, "records lost", True, "records that it needs are gone, and no peer has what they led to", "see its log"
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
REFUSED = ExitCode(
    8, "refused", True, "what it was told makes no sense for this app", "see its log, then `borealis up`"
)

EXITS = (STOPPED, FAILED, USAGE, SUPERSEDED, LOST, KERNEL, OTHER_LIFE, OUT_OF_MEMORY, REFUSED)
_BY_CODE = {one.code: one for one in EXITS}


def exit_of(code: int) -> ExitCode:
    """What an exit code means, minus a signal's number as `subprocess` and `os` tell it; unknown ones are not final."""
    if code < 0:
        return ExitCode(code, signal_name(-code), False, "a signal ended it")
    return _BY_CODE.get(code) or ExitCode(
        code, f"exit code {code}", False, "it ended in a way of which nothing is known"
    )


def signal_name(number: int) -> str:
    """`SIGKILL`; for one that Python does not know, its number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def described(code: int) -> str:
    """One phrase: `SIGKILL`, or `exit code 3, superseded: its replica index runs elsewhere`."""
    found = exit_of(code)
    if code < 0:
        return f"killed by {found.name}"
    known = f", {found.name}: {found.means}" if code in _BY_CODE else ""
    return f"exit code {code}{known}"
