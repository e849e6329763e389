"""`borealis explain --rate`: what surviving a crash would cost, told before anything runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from borealis_py.app.recovery_forecast import HEARD_AGAIN
from borealis_py.node.recovery_setting import STANDBY_BEAT_US
from tests.cli.commands import Borealis, app_text

RATES = ("--rate", "left=200", "--rate", "right=300")
WAYS = ["active", "active-standby", "passive-standby", "upstream-backup", "amnesia"]


@pytest.fixture
def app(here: Path) -> str:
    (here / "app.py").write_text(app_text())
    return "app.py"


def test_every_way_of_every_node_is_told(borealis: Borealis, app: str) -> None:
    said = borealis("explain", app, *RATES)
    assert said.code == 0
    assert "what it would cost to survive a crash, beside one replica, at 500 rows/s (--rate)" in said.out
    told = said.out[said.out.index("what it would cost") :]
    assert all(f" {way} " in told for way in WAYS)
    assert told.count("active (now) ") == 1, "of the node with a second replica"
    assert "amnesia is refused: its guarantee is" in said.err


def test_the_same_as_json(borealis: Borealis, app: str) -> None:
    found = json.loads(borealis("explain", app, *RATES, "--json").out)["recovery"]
    assert (found["rates"], found["rates_from"]) == ({"left": 200, "right": 300}, "--rate")
    assert list(found["nodes"]) == ["sums", "big"]
    for node in found["nodes"].values():
        assert node["tried"]["row_us"] > 0
        assert list(node["ways"]) == WAYS
        assert [way for way, of in node["ways"].items() if of["refused"]] == ["amnesia"]
        standby, amnesia = node["ways"]["active-standby"], node["ways"]["amnesia"]
        assert standby["stands_still_s"] == pytest.approx(HEARD_AGAIN * STANDBY_BEAT_US / 1e6)
        assert (amnesia["guarantee"], amnesia["kafka_bytes_per_s"]) == ("gap", 0)
        assert amnesia["lost_rows"] > 0


def test_nothing_is_said_of_it_without_rates(borealis: Borealis, app: str) -> None:
    assert "survive a crash" not in borealis("explain", app).out
    assert json.loads(borealis("explain", app, "--json").out)["recovery"] is None


@pytest.mark.parametrize(
    ("rate", "why"),
    [
        ("left", "give SOURCE=ROWS, rows a second"),
        ("left=many", "give SOURCE=ROWS, rows a second"),
        ("left=-1", "give SOURCE=ROWS, rows a second"),
        ("left=nan", "give SOURCE=ROWS, rows a second"),
        ("lefd=1", "no source 'lefd'; did you mean 'left'?"),
        ("left=1", "right is not running: give a rate, too"),
    ],
)
def test_a_rate_that_makes_no_sense_is_refused(borealis: Borealis, app: str, rate: str, why: str) -> None:
    said = borealis("explain", app, "--rate", rate)
    assert said.code == 2
    assert why in " ".join(said.err.split())
    assert said.out == ""
