"""Commands as a user gives them, and the apps that they are given."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from borealis_py.cli.main import main

APP = """
from borealis_py import App

app = App("{name}", bucket="100ms")
left, right = (app.source(s, schema={{"key": "string", "value": "double"}}) for s in ("left", "right"))
both = app.union(left, right)
sums = both.window("1s").group_by("key").agg(n="count(*)", total="{total}")
app.query("sums", sums, delay_threshold="{threshold}", replicas={replicas})
app.query("big", both.filter("{predicate}"), delay_threshold="1s", replicas=1)
"""


CHAIN = """
from borealis_py import App

app = App("chain", bucket="100ms")
left, right = (app.source(s, schema={"key": "string", "value": "double"}) for s in ("left", "right"))
cleaned = app.union(left, right).filter("value > 0").node("cleaned", replicas=3)
app.query("sums", cleaned.window("1s").agg(total="sum(value)"), delay_threshold="2s")
app.query("big", cleaned.filter("value > 10"), delay_threshold="THRESHOLD", replicas=1)
"""


def chain_text(threshold: str = "3s") -> str:
    """The file of an app with a node that two queries read."""
    return CHAIN.replace("THRESHOLD", threshold)


def app_text(
    name: str = "cli",
    total: str = "sum(value)",
    threshold: str = "1s",
    replicas: int = 2,
    predicate: str = "value > 10",
) -> str:
    """An app's file."""
    return APP.format(name=name, total=total, threshold=threshold, replicas=replicas, predicate=predicate)


@dataclass(frozen=True)
class Said:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


Borealis = Callable[..., Said]


@pytest.fixture
def borealis(capsys: pytest.CaptureFixture[str]) -> Borealis:
    """Run one command in this process."""

    def run(*arguments: str | Path) -> Said:
        capsys.readouterr()
        code = main([str(a) for a in arguments])
        return Said(code, *capsys.readouterr())

    return run


def status(borealis: Borealis, app: str) -> dict[str, Any]:
    """What `borealis status --json` says of an app."""
    said = borealis("status", "--json", "--app", app)
    assert said.code == 0, said.err
    found: dict[str, Any] = json.loads(said.out)
    return found


def statuses(borealis: Borealis, app: str) -> dict[tuple[str, int], dict[str, Any]]:
    """The same of each replica, by node and index."""
    return {(r["node"], r["replica"]): r for r in status(borealis, app)["replicas"]}
