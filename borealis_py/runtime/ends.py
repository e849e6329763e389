"""The named ends of a replica: which exception leads to which exit code of its process
(`app/supervisor/exit_codes.py`).

A replica that raises one of these is never restarted; after any other exception, which is a failure, it is. A record
that was refused for its size is tried once more (`runtime/restarting.py`): an operator may have raised the limit.
"""

from __future__ import annotations

from typing import NamedTuple

from borealis_py.app.supervisor import exit_codes
from borealis_py.app.supervisor.exit_codes import ExitCode
from borealis_py.log.description import OtherLife, OtherVersion
from borealis_py.log.record_size import RecordTooLarge
from borealis_py.node.endings import Superseded
from borealis_py.query.errors import FunctionDiffers, TableFileDiffers
from sunion.errors import EngineOutOfMemory, RetentionLost


class KernelDiffers(Exception):
    """This machine would not compute the same bits as the one that described the app: replicas would disagree."""


class End(NamedTuple):
    """One named end.

    `kind`: its name between a Spark task and its driver. `alone`: it ends only this query, not the other replicas of
    its process. `usual`: nothing is wrong.
    """

    kind: str
    type: type[Exception]
    exit: ExitCode
    said: str
    alone: bool = False
    usual: bool = False


ENDS = (
    End("memory", EngineOutOfMemory, exit_codes.OUT_OF_MEMORY, "this replica ends: its engine needs more memory"),
    End("superseded", Superseded, exit_codes.SUPERSEDED, "this replica ends: its index runs elsewhere", usual=True),
    End("life", OtherLife, exit_codes.OTHER_LIFE, "this replica ends: the app was begun anew"),
    End(
        "version", OtherVersion, exit_codes.REFUSED, "this replica ends: another version of borealis-py writes this app"
    ),
    End("kernel", KernelDiffers, exit_codes.KERNEL, "this replica does not start"),
    End("file", TableFileDiffers, exit_codes.FILE, "this replica does not start"),
    End("function", FunctionDiffers, exit_codes.FUNCTION, "this replica does not start"),
    End("size", RecordTooLarge, exit_codes.TOO_LARGE, "this replica ends: a topic is too small for one of its records"),
    End(
        "retention",
        RetentionLost,
        exit_codes.LOST,
        "this query stops: records it needs are gone; nothing false was called stable",
        alone=True,
    ),
)
ALONE = frozenset(end.exit.code for end in ENDS if end.alone)
"""Exit codes that concern a single query."""


def end_of(exc: Exception) -> End | None:
    """The named end of an exception; None: a failure, after which the replica is restarted."""
    return next((end for end in ENDS if isinstance(exc, end.type)), None)
