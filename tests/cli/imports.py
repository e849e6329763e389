"""Which large libraries a command loads, seen in a process of its own, since this one has loaded them all."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

ENGINE = ("duckdb", "numpy", "pandas", "pyarrow")
OTHERS = ("kafka", "matplotlib", "prometheus_client", "pyspark")
KAFKA = "confluent_kafka"
MACHINERY = ("sunion.input_buffers", "sunion.union", "borealis_py.kafka.broker", "rich.traceback", "yaml")
"""What only replicas, a local broker, tracebacks or a borealis.yaml need."""

_PROBE = """
import contextlib, io, json, sys
from borealis_py.cli.main import main

answer_s = float(sys.argv[3])
if answer_s:  # how long a broker that is not there is waited for
    import borealis_py.kafka.admin
    borealis_py.kafka.admin.ANSWER_S = answer_s

told = {}
for command in json.loads(sys.argv[1]):
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = main(command)
    told[" ".join(command)] = code, [name for name in json.loads(sys.argv[2]) if name in sys.modules]
print(json.dumps(told))
"""


def loaded(
    commands: Sequence[Sequence[str]],
    cwd: Path,
    environment: Mapping[str, str],
    answer_s: float = 0.0,
    names: Sequence[str] = (*ENGINE, *OTHERS, KAFKA),
) -> dict[str, tuple[int, str]]:
    """Run commands one after the other in one process.

    Args:
        answer_s: how long a broker may take to answer, if it is expected not to; 0: as always.
        names: of modules.

    Returns:
        By command line: its exit code, and the names of those modules that are loaded after it, by this command or
        one before it.
    """
    ran = subprocess.run(
        [sys.executable, "-c", _PROBE, json.dumps(commands), json.dumps(names), str(answer_s)],
        cwd=cwd,
        env=dict(environment),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return {command: (code, " ".join(found)) for command, (code, found) in json.loads(ran.stdout).items()}
