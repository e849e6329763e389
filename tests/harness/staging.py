"""What an experiment does on its stage (`borealis_py.bench.stage`): wait for an app, and start again what it killed.

What does not come in time is a `BenchError`, which a command shows without a traceback.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from borealis_py.app import launch
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ProcessName
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Running, Stage
from tests.harness.waiting import wall_us

LOOK_S = 0.05
GONE_S = 60.0
"""A process that was killed is noticed within it."""


def wait(
    condition: Callable[[], bool], timeout_s: float, otherwise: str, check: Callable[[], None] = lambda: None
) -> None:
    """Raises BenchError: `otherwise`, in time; and what `check` raises meanwhile."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        check()
        if time.monotonic() > deadline:
            raise BenchError(f"{otherwise}, within {timeout_s:g} s")
        time.sleep(LOOK_S)


def start_again(
    stage: Stage,
    running: Running,
    name: ProcessName,
    timeout_s: float,
    spec: ProcessSpec | None = None,
    check: Callable[[], None] = lambda: None,
) -> None:
    """Start a process that was killed, and wait until it is ready.

    Args:
        spec: of its app's processes; None: as `borealis up --host process` has it.
        check: called while the kill is not noticed yet.

    Raises:
        BenchError: it survived. LaunchError: it is not ready within `timeout_s`.
    """
    wait(lambda: running.processes.ended(name) is not None, GONE_S, f"{name} survived kill -9", check)
    since_ms, spec = wall_us() // 1000, spec or ProcessSpec.unconfigured(stage.log, stage.work)
    running.pids = launch.start_processes(running.state, running.processes, spec, list(running.pids), take_over=True)
    only = {name: running.pids[name]}
    launch.wait_ready(stage.log, running.state, running.processes, only, since_ms, timeout_s=timeout_s)
