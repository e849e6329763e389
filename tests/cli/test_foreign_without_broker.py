"""What `check` and `explain` say about topics of other programs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.commands import Borealis
from tests.support.nowhere import NOWHERE

APP = """
from borealis_py import App

app = App("shop")
orders = app.topic("orders", topic="prod.orders", schema={{"shop": "string", "euros": "double", "at": "int64"}},
                   stime="at", {arguments})
app.query("sales", orders.window("1s").group_by("shop").agg(euros="sum(euros)"))
"""


def app_text(arguments: str) -> str:
    return APP.format(arguments=arguments)


def words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_check_shows_the_topic_and_what_silence_means(borealis: Borealis, here: Path) -> None:
    (here / "app.py").write_text(app_text("partitions=3"))
    said = borealis("check", "app.py")
    assert said.code == 0
    assert "orders prod.orders 3 at in us 2s has nothing to say" in words(said.out)
    assert said.err.count("no input can be missing") == 1
    assert "query 'sales': no input can be missing unless a broker cannot be read" in said.err
    assert "write expect=" in said.err
    assert "no input can be missing" not in borealis("explain", "app.py").err, "it is told once"
    found = json.loads(borealis("check", "app.py", "--json").out)
    assert (found["topics"]["orders"]["inputs"], found["topics"]["orders"]["lateness_us"]) == (3, 2_000_000)


def test_explain_shows_what_the_loss_of_each_input_costs(borealis: Borealis, here: Path) -> None:
    (here / "app.py").write_text(app_text('by="shop", values=["berlin", "paris"], expect="1s"'))
    said = borealis("explain", "app.py")
    assert said.code == 0
    assert "source orders.paris (shop = 'paris') sales (0.67)" in words(said.out)
    assert "source orders.other (other shop) sales (0.67)" in words(said.out)
    assert "orders prod.orders 3 by shop at in us 2s is missing after 1s" in words(said.out)
    assert "shop.orders 3 source orders" in words(said.out)
    assert said.err == ""


def test_without_a_broker_the_number_of_partitions_must_be_said(
    borealis: Borealis, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", NOWHERE)
    (here / "app.py").write_text(app_text('start="earliest"'))
    for command in ("check", "explain"):
        said = borealis(command, "app.py")
        assert said.code == 1
        assert "say it: partitions=3" in said.err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ('partitions=1, expect="3s"', "the query waits 2750ms for an input"),
        ("partitions=1, heartbeat=\"shp = 'x'\"", "did you mean 'shop'"),
        ('partitions=1, format="jsn"', "did you mean 'json'?"),
        ('cluster="eu"', "there is no cluster 'eu' in borealis.yaml"),
        ('cluster="eu", partitions=1', "there is no cluster 'eu' in borealis.yaml"),
    ],
)
def test_what_is_wrong_with_a_topic(borealis: Borealis, here: Path, arguments: str, told: str) -> None:
    (here / "app.py").write_text(app_text(arguments))
    for command in ("check", "explain"):
        said = borealis(command, "app.py")
        assert said.code == 1
        assert said.out == ""
        assert told in said.err
        assert "Traceback" not in said.err
