"""Calls a function in a process with another hash seed, time zone and number of threads.

Run as a program, it is that process: a pickled `Asked` on standard input, JSON on standard output, to which the
function itself cannot write.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from borealis_py.app.functions.trial import told
from borealis_py.engine.applied.build import callable_function
from borealis_py.engine.applied.code_in_place import CodeInPlace
from borealis_py.query.plan import ApplyOp, WindowApplyOp

TIMEOUT_S = 120.0
_ZONES = ("Pacific/Chatham", "America/St_Johns")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "ARROW_NUM_THREADS")


@dataclass(frozen=True)
class Asked:
    """What the process is to call: the function of `op`, over an operator with columns `schema`, on each of
    `samples`. `row_max_bytes`: the largest row of a result."""

    op: ApplyOp | WindowApplyOp
    schema: pa.Schema
    samples: Sequence[pa.RecordBatch]
    row_max_bytes: int


class SecondProcessFailed(Exception):
    """The process gave no answer; the message says why."""


def told_elsewhere(asked: Asked) -> list[list[str]]:
    """What becomes of each sample there (`trial.told`). Raises SecondProcessFailed."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=pickle.dumps(asked),
            capture_output=True,
            env=_other_environment(),
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise SecondProcessFailed(f"it does not return within {TIMEOUT_S:g} s") from None
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise SecondProcessFailed(lines[-1])
    found: list[list[str]] = json.loads(done.stdout)
    return found


def _other_environment() -> dict[str, str]:
    """Ours, where everything that may change a function's result by accident is another."""
    threads = "1" if pa.cpu_count() > 1 else "4"
    zone = next(zone for zone in _ZONES if zone != os.environ.get("TZ"))
    seed = "4711" if os.environ.get("PYTHONHASHSEED") != "4711" else "4712"
    path = os.pathsep.join(filter(None, [str(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")]))
    return {**os.environ, "PYTHONHASHSEED": seed, "TZ": zone, "PYTHONPATH": path, **dict.fromkeys(_THREADS, threads)}


def main() -> None:
    """The other process."""
    answer = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    asked: Asked = pickle.loads(sys.stdin.buffer.read())
    pa.set_cpu_count(int(os.environ[_THREADS[-1]]))
    function = callable_function(asked.op, asked.schema, CodeInPlace(), asked.row_max_bytes)
    with answer:
        json.dump([told(function, rows) for rows in asked.samples], answer)


if __name__ == "__main__":
    sys.modules["borealis_py.app.functions.second_process"] = sys.modules["__main__"]  # pickle names the module so
    main()
