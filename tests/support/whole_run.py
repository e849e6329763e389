"""A run of tests ends when it is told to, and leaves nothing running: plugins, which `tests/conftest.py` registers.

Ctrl-C raises KeyboardInterrupt in whatever code is tested. That may be code that takes it for its own end: a command
returns 130, an engine calls its query interrupted. So whoever runs the tests is told of it besides.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import threading
import uuid
from collections.abc import Generator
from contextlib import suppress

import psutil
import pytest
from xdist.workermanage import NodeManager

from borealis_py.kafka.process_end import await_end, is_over

MARK = "BOREALIS_TEST_RUN"
"""The variable of whatever a run starts: the run's name, behind those of the runs that it is part of."""
HELPER = re.compile(r"from multiprocessing\.(resource_tracker|forkserver) ")
WORKER_END_S = 60
"""How long a worker that is interrupted has for its fixtures."""
END_S = 10.0
"""How long what is left has to end in order."""


class Interrupts:
    """Stops the run behind the test during which Ctrl-C was pressed, whatever that test made of it. Python tells its
    number to a socket also where somebody else's handler, or none, is called. SIGTERM, as of `timeout`, is the same."""

    def __init__(self) -> None:
        self._told, self._tells = socket.socketpair()
        for end in (self._told, self._tells):
            end.setblocking(False)
        self._before = signal.set_wakeup_fd(self._tells.fileno(), warn_on_full_buffer=False)
        self._came = False
        self._ends = signal.signal(signal.SIGTERM, self._end)

    def _end(self, number: int, frame: object) -> None:
        self._came = True
        raise KeyboardInterrupt

    def came(self) -> bool:
        with suppress(BlockingIOError):
            self._came |= signal.SIGINT in self._told.recv(65_536)
        return self._came

    def forget(self) -> None:
        """A test has interrupted itself."""
        self.came()
        self._came = False

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self) -> None:
        if self.came():
            raise KeyboardInterrupt

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        result = yield
        if self.came():
            raise KeyboardInterrupt
        return result

    def pytest_unconfigure(self) -> None:
        signal.signal(signal.SIGTERM, self._ends)
        signal.set_wakeup_fd(self._before)
        self._told.close()
        self._tells.close()


class Leftovers:
    """Ends and names what a run has left running, be it that its fixtures were cut short. Workers have no such plugin:
    who started them has."""

    def __init__(self) -> None:
        self._outer = os.environ.get(MARK)
        self.name = os.environ[MARK] = "/".join(filter(None, (self._outer, uuid.uuid4().hex[:12])))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        try:
            yield
        finally:
            for said in end(started_in(self.name)):
                session.config.get_terminal_writer().line(f"\nleft running by the tests, ended now: {said}")

    def pytest_unconfigure(self) -> None:
        del os.environ[MARK]
        if self._outer is not None:
            os.environ[MARK] = self._outer


def register(config: pytest.Config) -> None:
    """Give a run these plugins."""
    if threading.current_thread() is threading.main_thread():
        config.pluginmanager.register(Interrupts(), "interrupts")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Leftovers(), "leftovers")
        NodeManager.EXIT_TIMEOUT = WORKER_END_S


def started_in(run: str) -> list[psutil.Process]:
    """The other processes that a run, or one within it, has started, but for Python's helpers, which end with whom they
    help."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):  # gone meanwhile, or somebody else's
            mark = process.environ().get(MARK, "")
            ours = f"{mark}/".startswith(f"{run}/") and process.pid != os.getpid() and not is_over(process)
            if ours and not HELPER.search(" ".join(process.cmdline())):
                found.append(process)
    return found


def end(processes: list[psutil.Process]) -> list[str]:
    """End these; returns what they were."""
    said = []
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            said.append(f"pid {process.pid}: {' '.join(process.cmdline())[:200]}")
            process.terminate()
    for process in await_end(processes, END_S):
        with suppress(psutil.NoSuchProcess):
            process.kill()
    await_end(processes, END_S)
    return said
