"""An app on a machine with a wrong clock: its processes are real, and their wall clock is moved."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from tests.cli.commands import Borealis, status
from tests.cli.foreign_topic import Topic, app_text
from tests.harness.faults import MovedClock, compiled_clock
from tests.harness.waiting import until

pytestmark = pytest.mark.broker
HOUR_US = 3_700_000_000


def rows_and_letters(borealis: Borealis) -> tuple[int, int, int]:
    """What an owner has copied: rows, rows that came late, other dead letters."""
    inputs = [i for one in status(borealis, "clocks")["ingresses"] if one["role"] == "owner" for i in one["inputs"]]
    return sum(i["rows"] for i in inputs), sum(i["late"] for i in inputs), sum(i["dead"] for i in inputs)


def test_rows_wait_while_the_clock_is_behind_and_come_late_while_it_is_ahead(
    borealis: Borealis, here: Path, topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = MovedClock(here / "clock", compiled_clock(here / "moved_clock.so"))
    if not clock.environment:
        pytest.skip("there is no C compiler")
    (here / "app.py").write_text(app_text("clocks", topic.name))

    def send(n: int) -> None:
        for _ in range(n):
            topic.send({"shop": "berlin", "euros": 1, "at": time.time_ns() // 1_000_000})

    clock.move(-HOUR_US)
    with monkeypatch.context() as patch:
        for name, value in clock.environment.items():
            patch.setenv(name, value)
        said = borealis("up", "app.py", "--host", "process", "--no-restart")
    try:
        assert said.code == 0, said.err
        until(lambda: any(one["role"] == "owner" for one in status(borealis, "clocks")["ingresses"]), "an owner")
        send(5)
        until(lambda: rows_and_letters(borealis) == (5, 0, 0), "rows are copied, and none is a dead letter")
        said = borealis("status", "--app", "clocks")
        assert re.search(r"the clock of ingress 0 on \S+ is 3700\.\d s behind the broker's: its sources wait", said.err)
        assert "no ingress runs" not in said.err, "its last status is young, whatever its clock says"
        assert "this machine's clock is 3700." in (here / ".borealis" / "clocks" / "ingress-0.log").read_text()
        clock.move(0)
        said = borealis("subscribe", "sales", "--count", "1", "--app", "clocks")
        assert json.loads(said.out)["value"]["shop"] == "berlin"
        clock.move(HOUR_US)
        until(lambda: send(1) or rows_and_letters(borealis)[1] > 0, "what is promised too far makes rows late")
        assert rows_and_letters(borealis)[2] == 0
    finally:
        borealis("down", "--app", "clocks")
