"""What the command line can do and say when there is no broker."""

from __future__ import annotations

import inspect
import json
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from borealis_py.cli.commands.demo import demo
from borealis_py.cli.commands.replica import replica
from borealis_py.cli.commands.up import up
from borealis_py.cli.shared.console import print_json
from borealis_py.cli.shared.replica_table import duration
from borealis_py.kafka.broker import free_port
from tests.cli.commands import Borealis, app_text, chain_text
from tests.support.nowhere import NOWHERE

COMMANDS = [
    "broker",
    "check",
    "explain",
    "inspect",
    "up",
    "replica",
    "ingress",
    "down",
    "publish",
    "subscribe",
    "status",
    "top",
    "threshold",
    "fail",
    "audit",
    "demo",
]


def test_version_and_help(borealis: Borealis) -> None:
    assert borealis("--version").out.startswith("borealis-py 0.")
    said = borealis("--help")
    assert said.code == 0
    assert all(command in said.out for command in COMMANDS)
    assert "..." not in said.out.partition("Commands:")[2], "a summary is cut off"


@pytest.mark.parametrize("command", [[c] for c in COMMANDS] + [["broker", "up"], ["fail", "source"]])
def test_every_command_has_help(borealis: Borealis, command: list[str]) -> None:
    said = borealis(*command, "--help")
    assert said.code == 0
    assert "Usage: borealis" in said.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["check"],
        ["status", "--nonsense"],
        ["broker", "up", "--port", "0"],
        ["broker", "up", "--port", "x"],
        ["subscribe", "q", "--view", "sideways"],
        ["subscribe", "q", "--count", "0"],
        ["fail", "source", "s"],
        ["publish", "s", "f.csv", "--speed", "2"],
        ["publish", "s", "f.csv", "--stime", "t", "--start", "now"],
        ["publish", "s", "f.csv", "--stime", "t", "--speed", "2", "--lateness", "2s"],
        ["publish", "s", "f.csv", "--stime", "t", "--speed", "2", "--boundary", "data"],
        ["publish", "s", "f.csv", "--stime", "t", "--boundary", "clock"],
        ["publish", "s", "f.csv", "--boundary", "data"],
        ["publish", "s", "f.csv", "--lateness", "2s"],
        ["up", "app.py", "--host", "moon"],
        ["replica"],
        ["replica", "-1"],
        ["publish", "s", "gone.csv"],
        ["publish", "s", "."],
        ["check", "gone.py"],
        ["explain", "gone.py"],
        ["up", "."],
        ["audit", "q", "gone.py"],
        ["inspect"],
        ["inspect", "t", "--records", "0"],
        ["ingress"],
        ["ingress", "-1"],
        ["replica", "0", "--host", "moon"],
        ["replica", "0", "--host", "process", "--master", "local[2]"],
        ["top", "--count", "0"],
    ],
)
def test_wrong_usage_is_exit_code_2(borealis: Borealis, here: Path, arguments: list[str]) -> None:
    said = borealis(*arguments)
    assert said.code == 2
    assert said.out == ""
    assert "Traceback" not in said.err


@pytest.mark.parametrize("command", [up, replica, demo])
def test_replicas_are_spark_tasks_unless_told_otherwise(command: Callable[..., None]) -> None:
    assert inspect.signature(command).parameters["host"].default == "spark"


def test_check_shows_the_app(borealis: Borealis, here: Path) -> None:
    (here / "app.py").write_text(app_text())
    said = borealis("check", "app.py")
    assert said.code == 0
    for shown in ("left", "left, right", "total double", "window_start int64", "1s", "375ms"):
        assert shown in said.out
    found = json.loads(borealis("check", "app.py", "--json").out)
    assert found["queries"]["sums"]["columns"]["n"] == "int64"
    assert found["queries"]["sums"]["least_threshold_us"] == 375_000
    assert found["queries"]["big"]["inputs"] == ["left", "right"]


def test_check_shows_the_nodes_of_a_chain(borealis: Borealis, here: Path) -> None:
    (here / "app.py").write_text(chain_text())
    said = borealis("check", "app.py")
    assert said.code == 0
    for shown in ("cleaned", "repeatable", "convergent-capable", "1625ms", "cleaned, big", "500ms"):
        assert shown in said.out
    found = json.loads(borealis("check", "app.py", "--json").out)
    cleaned = found["nodes"]["cleaned"]
    assert (cleaned["replicas"], cleaned["wait_us"], cleaned["serves"]) == (3, 1_625_000, ["sums", "big"])
    assert (found["queries"]["big"]["inputs"], found["queries"]["big"]["position"]) == (["cleaned"], 2)
    assert (found["queries"]["big"]["wait_us"], found["queries"]["big"]["least_threshold_us"]) == (2_725_000, 500_000)


def test_a_word_of_the_command_is_not_blamed_on_a_file(borealis: Borealis, here: Path) -> None:
    said = borealis("threshold", "q", "soon")
    assert said.code == 2
    assert "'soon' is not a duration" in said.err
    assert "borealis check" not in said.err


def test_explain_shows_what_a_loss_costs(borealis: Borealis, here: Path) -> None:
    (here / "app.py").write_text(chain_text())
    said = borealis("explain", "app.py")
    assert said.code == 0
    lines = [" ".join(line.split()) for line in said.out.splitlines()]
    assert "source left cleaned (0.50), sums (0.50), big (0.50)" in lines
    assert "node cleaned sums, big" in lines
    assert "cleaned sums, big left, right 3 1625ms 125ms process" in lines
    assert "big cleaned, big 3s 2625ms 100ms 275ms 500ms process" in lines
    assert "chain.control 3 heartbeats; one partition per node" in lines
    found = json.loads(borealis("explain", "app.py", "--json").out)
    assert found["losses"]["left"]["sums"] == {"outcome": "tentative", "completeness": 0.5, "missing_sources": ["left"]}
    assert found["losses"]["cleaned"]["big"]["outcome"] == "silent"
    assert found["nodes"]["big"]["reads"] == {"cleaned": [f"chain.cleaned.r{k}" for k in range(3)]}
    assert found["queries"]["big"]["wait_us"] == found["nodes"]["cleaned"]["wait_us"] + 1_000_000
    assert found["topics"]["chain.control"]["partitions"] == 3


def test_explain_tells_no_growth_without_a_broker(borealis: Borealis, here: Path) -> None:
    """Where one is asked for by its address, it says that none answers."""
    (here / "app.py").write_text(chain_text())
    nowhere = NOWHERE
    said = borealis("explain", "app.py", "--json", "--bootstrap", nowhere)
    assert (said.code, json.loads(said.out)["growth"]) == (0, None)
    assert said.err.strip() == f"how fast streams grow is not known: no broker answers at {nowhere}"


def test_check_uses_the_timing_of_the_configuration(borealis: Borealis, here: Path) -> None:
    (here / "app.py").write_text(app_text())
    (here / "borealis.yaml").write_text("timing: {slack: 2s}\n")
    said = borealis("check", "app.py")
    assert said.code == 1
    assert "'sums'" in said.err
    assert "at least 2125 ms" in said.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (app_text(threshold="-1s"), "more than zero"),
        (app_text(threshold="0s"), "more than zero"),
        (app_text(threshold="100ms"), "at least 375 ms"),
        (app_text(threshold="soon"), "not a duration"),
        (chain_text(threshold="400ms"), "query 'big': delay threshold 400 ms is too small: at least 500 ms"),
        (chain_text() + "left.node('alone')", "node 'alone' is read by no query"),
        (app_text(total="sum(value"), "does not parse"),
        (app_text(total="sum(valu)"), "did you mean 'value'"),
        (app_text(predicate="value > random()"), "random"),
        (app_text(predicate="key > 3 +"), "does not parse"),
        ("x = 1", "no App in it"),
        ("raise ValueError('mine')", "line 1: ValueError: mine"),
    ],
)
def test_what_is_wrong_with_an_app(borealis: Borealis, here: Path, text: str, message: str) -> None:
    (here / "app.py").write_text(text)
    for command in ("check", "explain"):
        said = borealis(command, "app.py")
        assert said.code == 1
        assert said.out == ""
        assert message in said.err
    assert said.err.startswith("error: ")
    assert "Traceback" not in said.err


def test_check_does_not_advise_to_check(borealis: Borealis, here: Path) -> None:
    (here / "app.py").write_text("x = 1")
    assert "borealis check" not in borealis("check", "app.py").err
    assert "borealis check" in borealis("explain", "app.py").err


def test_debug_shows_the_traceback(borealis: Borealis, here: Path) -> None:
    (here / "app.py").write_text("x = 1")
    said = borealis("check", "app.py", "--debug")
    assert said.code == 1
    assert "Traceback" in said.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["up", "app.py", "--host", "process"],
        ["publish", "left", "rows.csv"],
        ["subscribe", "sums"],
        ["status"],
        ["top"],
        ["threshold", "sums", "1s"],
        ["fail", "source", "left", "--for", "1s"],
        ["audit", "sums"],
        ["read", "sums"],
        ["inspect", "prod.orders"],
        ["retain"],
        ["recovery"],
        ["resume", "sums"],
        ["policy", "sums", "--failure", "delay"],
        ["source", "expect", "left", "1s"],
    ],
)
def test_no_broker(borealis: Borealis, here: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]) -> None:
    (here / "app.py").write_text(app_text())
    (here / "rows.csv").touch()
    monkeypatch.setattr("borealis_py.kafka.log.KafkaLog.admin", None)  # no client is asked: it would wait for 5 s
    nobody = NOWHERE
    said = borealis(*arguments, "--bootstrap", nobody)
    assert said.code == 1
    assert f"no Kafka broker answers at {nobody}" in said.err
    assert "borealis broker up" in said.err


def test_no_java(borealis: Borealis, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(here / "nowhere"))
    said = borealis("broker", "up", "--port", str(free_port()))
    assert said.code == 1
    assert "needs Java 17 or newer" in said.err
    assert "apt-get install" in said.err


def test_java_too_old(borealis: Borealis, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = here / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(here / "jdk"))
    said = borealis("broker", "up", "--port", str(free_port()))
    assert said.code == 1
    assert "is Java 8" in said.err


@pytest.mark.parametrize(
    ("arguments", "looks", "extra"),
    [
        (["demo"], "borealis_py.demo.data.find_spec", "demo"),
        (["bench", "quick"], "borealis_py.bench.catchup.find_spec", "bench"),
    ],
)
def test_without_an_extra(
    borealis: Borealis, here: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], looks: str, extra: str
) -> None:
    monkeypatch.setattr(looks, lambda _: None)
    said = borealis(*arguments)
    assert said.code == 1
    assert f"pip install 'borealis-py[{extra}]'" in said.err
    assert "unexpected" not in said.err
    assert not list(here.glob("docs"))


def test_port_in_use(borealis: Borealis, here: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = borealis("broker", "up", "--port", str(port))
    assert said.code == 1
    assert f"port {port} is in use" in said.err
    assert "--port" in said.err


def test_the_broker_that_does_not_run(borealis: Borealis, here: Path) -> None:
    said = borealis("broker", "status", "--json")
    assert said.code == 1
    assert json.loads(said.out)["running"] is False
    assert "stopped" in borealis("broker", "status").out
    assert borealis("broker", "down").code == 0


def test_nothing_to_stop(borealis: Borealis, here: Path) -> None:
    said = borealis("down")
    assert said.code == 0
    assert "no replica runs" in said.err


def test_a_configuration_that_makes_no_sense(borealis: Borealis, here: Path) -> None:
    (here / "borealis.yaml").write_text("bootstrp: x\n")
    said = borealis("status")
    assert said.code == 1
    assert "did you mean 'bootstrap'" in said.err


def test_json_lines(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"a": float("nan"), "b": (1, None), "c": "ü"})
    assert capsys.readouterr().out == '{"a":null,"b":[1,null],"c":"ü"}\n'


@pytest.mark.parametrize(
    ("seconds", "shown"), [(None, ""), (0.04, "0.0 s"), (119, "119.0 s"), (130, "2 min"), (9000, "2 h"), (1e6, "12 d")]
)
def test_durations(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown


REGISTERED = """
from borealis_py import App

app = App("shop")
orders = app.topic("orders", topic="prod.orders", schema={"id": "int64"}, format="avro", partitions=1)
app.query("q", orders.filter("id > 0"))
"""


def test_check_names_the_registry_that_is_not_configured(borealis: Borealis, here: Path) -> None:
    for package in ("fastavro", "httpx2", "authlib"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install 'borealis-py[avro,registry]'")
    (here / "app.py").write_text(REGISTERED)
    said = borealis("check", "app.py")
    told = " ".join(said.err.split())
    assert (said.code, "schema_registry: is not in" in told, "give its url" in told) == (1, True, True)
    (here / "borealis.yaml").write_text("schema_registry: {url: 'registry:8081'}")
    assert "no client can be made of these properties" in " ".join(borealis("check", "app.py").err.split())
    (here / "borealis.yaml").write_text("schema_registry: {url: 'http://registry:8081'}")
    said = borealis("check", "app.py")
    assert said.code == 0, said.err
