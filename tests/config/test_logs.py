"""Which messages of libraries reach people."""

from __future__ import annotations

import subprocess
import sys

import pytest

SAID = """
import logging
from borealis_py.config.logs import configure_logs

configure_logs("{level}", json=False)
logging.getLogger("kafka.net.selector").warning("a task took 300 ms")
logging.getLogger("kafka.net.sasl.plain").warning("a password in the clear")
logging.getLogger("kafka.consumer").error("broken")
logging.getLogger("kafka.consumer").info("chatter")
"""


@pytest.mark.parametrize(("level", "tried_again"), [("warning", False), ("info", False), ("debug", True)])
def test_what_kafka_python_tries_again_is_for_those_who_want_all(level: str, tried_again: bool) -> None:
    """`borealis verify` printed it on a busy machine."""
    done = subprocess.run([sys.executable, "-c", SAID.format(level=level)], capture_output=True, text=True, check=True)
    assert ("a task took 300 ms" in done.stderr) is tried_again
    assert "a password in the clear" in done.stderr
    assert "broken" in done.stderr
    assert "chatter" not in done.stderr
