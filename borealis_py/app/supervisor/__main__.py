"""The supervisor process: starts what its plan names, adopts what is already running, and restarts what dies.

The plan is one JSON object on standard input, since it has secrets, and anyone can read a command line. It has
`directory` of the app's files, `command`, and `processes`, each with `stem`, `arguments`, `first` (additional arguments
of the first start) and `environment` (what each start adds to this process's). When all have been started once, it
reports so on standard output. SIGTERM ends it but not the replicas. It ends by itself when nothing is left to keep, and
when its note is gone or another's: after `down` or a reset it starts nothing.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from types import FrameType
from typing import Any

from borealis_py.app.supervisor import run_notes
from borealis_py.app.supervisor.supervised_process import SupervisedProcess, say

LOOK_S = 0.5
"""Polling interval for processes that it did not start itself, whose end is not signalled to it."""
CANNOT_S = 5.0
"""Pause after a start that the system refused: no memory, no disk."""


class Supervisor:
    """Args: plan: see the module's docstring."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.directory = str(plan["directory"])
        self.kept = [
            SupervisedProcess(
                self.directory, one["stem"], [*plan["command"], *one["arguments"]], one["first"], one["environment"]
            )
            for one in plan["processes"]
        ]
        self._told = False
        self._woken, wake = os.pipe()
        for end in (self._woken, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._told = True

    def run(self) -> None:
        """Run until told to end or nothing is left to do."""
        for one in self.kept:
            one.adopt()
        self._start_due()
        _say_started()
        while not self._told and any(not one.over for one in self.kept):
            self._wait()
            for one in self.kept:
                if one.pid and not self._told:
                    one.ended()
            self._start_due()
        if not self._told and self._in_office():
            run_notes.remove(self._note_path)

    @property
    def _note_path(self) -> str:
        return os.path.join(self.directory, f"{run_notes.SUPERVISOR}.pid")

    def _in_office(self) -> bool:
        """Whether its note is still its own."""
        return run_notes.read(self._note_path).get("pid") == os.getpid()

    def _start_due(self) -> None:
        for one in self.kept:
            if one.over or one.pid or one.due > time.monotonic():
                continue
            if not self._in_office():
                self._told = True
            if self._told:
                return
            try:
                one.start_process()
            except OSError as exc:
                one.due = time.monotonic() + CANNOT_S
                say(
                    one.path,
                    "the replica process cannot be started",
                    "error",
                    {"why": str(exc), "next_start_s": CANNOT_S},
                )

    def _wait(self) -> None:
        """Wait until a child ends, a signal arrives, a start is due, or it is time to poll."""
        due = [one.due - time.monotonic() for one in self.kept if not one.over and not one.pid]
        looks = [LOOK_S for one in self.kept if one.pid and not one.child]
        soonest = min([*due, *looks], default=None)
        if select.select([self._woken], [], [], None if soonest is None else max(soonest, 0.0))[0]:
            os.read(self._woken, 4096)


def _say_started() -> None:
    """Report to the process that started this one, which may be gone."""
    with suppress(OSError):
        os.write(1, b"started\n")
    nothing = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1):
        os.dup2(nothing, handle)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    text = sys.stdin.read()
    if text:  # otherwise the process that started it is gone
        Supervisor(json.loads(text)).run()


if __name__ == "__main__":
    main()
