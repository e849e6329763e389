"""One replica process as its supervisor sees it: started, running, dead, to be restarted, over."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from typing import Any

from borealis_py.app.supervisor import run_notes
from borealis_py.app.supervisor.exit_codes import FAILED, described, exit_of
from borealis_py.config import logfile

SESSION_GONE_S = 2.0
"""How long to wait for the killed rest of a dead process, so that its memory is free for the next one."""


class SupervisedProcess:
    """One process that the supervisor keeps running.

    Args:
        directory: of the app's files. stem: of this process's files.
        command: with the arguments of every start; `first`: additional arguments of the first start.
        environment: added to this process's at every start.
    """

    def __init__(
        self, directory: str, stem: str, command: list[str], first: list[str], environment: dict[str, str]
    ) -> None:
        self.path = os.path.join(directory, stem)
        self.pid = 0
        self.child = False
        self.over = False
        self.due = 0.0
        """When it is to be started (monotonic), while `pid` is 0."""
        self._command = command
        self._first = first
        self._environment = environment
        self._backoff = Backoff()
        self._note: dict[str, Any] = {}
        self._started = 0.0
        self._was_ready = False

    def adopt(self) -> None:
        """Continue with the process that is running, if there is one, whether another supervisor left it or none."""
        note = run_notes.read(f"{self.path}.pid")
        if run_notes.running(note):
            self._note, self.pid, self.child, self._was_ready = note, note["pid"], False, True
            self._started, self._first = time.monotonic(), []
            return
        self._note = {"run": note["run"]} if "run" in note else {}
        self._end_rest()  # no other supervisor has
        say_unseen(self.path, note)

    def start_process(self) -> None:
        """Start it in its own session. Raises OSError."""
        dead, run = self._note.get("run", ""), os.urandom(4).hex()
        self._note = {**self._note, "run": run}
        self._note.pop("next_wall_us", None)
        after = ["--after", dead] if dead else []
        command = [*self._command, *self._first, "--run", run, *after]
        self._first = []
        run_notes.remove(f"{self.path}.ready")
        run_notes.remove(f"{self.path}.end")
        self.pid = _spawn(command, self._environment, self.path, self._note)
        self.child, self._started = True, time.monotonic()
        self._note = run_notes.read(f"{self.path}.pid")

    def ended(self) -> bool:
        """Check whether it has ended; if so, handle and note everything that follows."""
        if not self.child:
            if run_notes.running(self._note):
                return False
            self._died(run_notes.exit_code(self.path, self._note))
            return True
        found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
        if found is None:
            return False
        self._end_rest()  # before it is reaped: until then its pid is not reused
        self._died(os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1]))
        return True

    def _end_rest(self) -> None:
        """Kill its JVM and tasks: they would hold its replicas' places, memory and ports."""
        run, limit = str(self._note.get("run", "")), time.monotonic() + SESSION_GONE_S
        while run and run_notes.end_rest(run) and time.monotonic() < limit:
            time.sleep(0.02)

    def _died(self, code: int | None) -> None:
        """`code`: as from `os.waitstatus_to_exitcode`; None: it was not our child."""
        if not self.child:
            self._end_rest()
        ready_s = self._ready_s()
        self._was_ready |= ready_s > 0
        known = FAILED if code is None else exit_of(code)
        in_vain = code == FAILED.code and not self._was_ready
        self.over = known.final or in_vain
        pause_s = 0.0 if self.over else self._backoff.died(ready_s)
        how = how_ended(code)
        ended = {"pid": self.pid, "code": code, "how": how, "at_wall_us": _wall_us(), "final": self.over}
        self._note["ended"] = ended
        said: dict[str, Any] = {"pid": self.pid, "how": how, "ran_s": round(time.monotonic() - self._started, 1)}
        if self.over:
            said["todo"] = known.todo or ("`borealis up` starts it" if not in_vain else "see above; then `borealis up`")
        else:
            self._note["restarts"] = int(self._note.get("restarts", 0)) + 1
            self._note["next_wall_us"] = _wall_us() + int(pause_s * 1e6)
            said |= {"restarts": self._note["restarts"], "next_start_s": pause_s}
        self.pid, self.due = 0, time.monotonic() + pause_s
        say(
            self.path,
            "the replica process ended and is not started again"
            if self.over
            else "the replica process ended and is started again",
            "info" if known.code == 0 else "error" if self.over else "warning",
            said,
        )
        with suppress(OSError):  # a full disk, or a directory that is gone
            run_notes.write(f"{self.path}.pid", self._note)

    def _ready_s(self) -> float:
        """For how long it had been READY."""
        since = run_notes.ready_since(self.path, self._note)
        return 0.0 if since is None else max(time.monotonic() - since, 0.001)


def how_ended(code: int | None) -> str:
    """`code`: as from `os.waitstatus_to_exitcode`; None: it was no one's child, and it left no code."""
    return "ended unseen: killed, or crashed" if code is None else described(code)


def say_unseen(path: str, note: dict[str, Any]) -> None:
    """Log how the process of a note ended that no supervisor kept; called by whoever starts the next one."""
    if note.get("pid") and note.get("ended", {}).get("pid") != note["pid"]:
        how = how_ended(run_notes.exit_code(path, note))
        say(path, "the replica process before ended", "warning", {"pid": note["pid"], "how": how})


def say(path: str, event: str, level: str, fields: dict[str, Any]) -> None:
    """Write a line to the log of the process whose files begin with `path`, where users look."""
    seconds, us = divmod(_wall_us(), 1_000_000)
    at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{us:06d}Z"
    line = {**fields, "event": event, "level": level, "logger": "borealis.supervisor", "timestamp": at}
    with suppress(OSError):
        handle = logfile.opened(f"{path}.log")
        os.write(handle, (json.dumps(line) + "\n").encode())
        os.close(handle)


def _wall_us() -> int:
    return time.time_ns() // 1000


def _spawn(command: list[str], environment: dict[str, str], path: str, note: dict[str, Any]) -> int:
    """Fork and exec. The new process writes its own note before exec, so that no process runs unnoted.

    Returns its pid after the exec. Raises OSError if that failed.
    """
    seen, told = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setsid()
            output, nothing = logfile.opened(f"{path}.log"), os.open(os.devnull, os.O_RDONLY)
            for handle, number in ((nothing, 0), (output, 1), (output, 2)):
                os.dup2(handle, number)
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            known = run_notes.of_process(os.getpid())
            run_notes.write(f"{path}.pid", {**known, **note, **known})
            os.execve(command[0], command, {**os.environ, **environment, run_notes.RUN: note["run"]})
        except BaseException as exc:
            os.write(told, str(exc).encode())
        finally:
            os._exit(127)
    os.close(told)
    with os.fdopen(seen, "rb") as pipe:
        wrong = pipe.read().decode(errors="replace")  # end of file when the command runs
    if wrong:
        os.waitpid(pid, 0)
        raise OSError(f"cannot start {command[0]}: {wrong}")
    return pid


READY_S = 60.0
"""A process that was READY this long before it died is restarted at once, as after its first end."""
FIRST_S = 1.0
MAX_S = 30.0


class Backoff:
    """When a process that died is restarted: at once, then after 1 s, doubling up to 30 s."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def died(self, ready_s: float) -> float:
        """The delay before the next start, in seconds.

        Args:
            ready_s: for how long it had been READY when it died; 0: it was not.
        """
        pause_s = 0.0 if ready_s >= READY_S else self._next_s
        self._next_s = min(max(FIRST_S, 2 * pause_s), MAX_S)
        return pause_s
