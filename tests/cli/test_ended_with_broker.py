"""An ingress in a container whose sources have ended: it stays, healthy, and joins the app when that is begun anew."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from borealis_py.app.supervisor.exit_codes import OTHER_LIFE
from tests.cli.commands import Borealis, status
from tests.cli.foreign_topic import Topic, app_text
from tests.harness.waiting import PATIENCE_S, until

pytestmark = pytest.mark.broker
APP = "over"


def started() -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "borealis_py.cli.main", "ingress", "0", "--app", APP, "--http", "127.0.0.1:0"]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


def page(address: str, path: str) -> int:
    with urllib.request.urlopen(f"{address}{path}") as answer:
        return int(answer.status)


def test_it_stays_after_the_end_is_ready_and_says_so_until_it_is_stopped(
    borealis: Borealis, here: Path, topic: Topic
) -> None:
    (here / "app.py").write_text(app_text(APP, topic.name))
    assert borealis("up", "app.py", "--describe-only").code == 0
    process = started()
    try:
        until(lambda: status(borealis, APP)["ingresses"][0]["role"] == "owner", "it copies the topic")
        http = status(borealis, APP)["ingresses"][0]["http"]
        assert borealis("source", "end", "orders", "--timeout", "60s", "--app", APP).code == 0
        until(lambda: "stays until it is stopped" in status(borealis, APP)["ingresses"][0]["detail"], "it has ended")
        assert status(borealis, APP)["ingresses"][0]["role"] == "ended"
        assert "source orders has ended" in " ".join(borealis("status", "--app", APP).err.split())
        assert (page(http, "/healthz"), page(http, "/readyz"), process.poll()) == (200, 200, None)
        process.send_signal(signal.SIGTERM)
        _, said = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0
        assert "all sources have ended: this ingress has nothing left to do" in said
        process = started()  # as after a node of the cluster was drained: END is in the log
        until(lambda: status(borealis, APP)["ingresses"][0]["pid"] == process.pid, "its successor has reported")
        until(lambda: "stays until" in status(borealis, APP)["ingresses"][0]["detail"], "its successor stays, too")
        assert borealis("up", "app.py", "--describe-only", "--reset").code == 0
        assert process.wait(PATIENCE_S) == OTHER_LIFE.code
    finally:
        process.kill()
        process.communicate()
