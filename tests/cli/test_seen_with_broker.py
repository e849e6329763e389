"""An app that runs, seen from outside: over HTTP, on a screen, and beside another app on the same broker."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from borealis_py.api import live, publisher
from borealis_py.app.state import read_app
from borealis_py.cli.main import main
from borealis_py.kafka.log import KafkaLog
from sunion.model import Kind
from tests.cli.commands import Borealis, status
from tests.harness.launching import cut_off
from tests.harness.waiting import PATIENCE_S, until, until_equal

pytestmark = pytest.mark.broker
APP, OTHER = "seen", "seen-other"
SOURCES = ("left", "right", "side")
REPLICAS = [("cut", 0), ("sums", 0), ("every", 0)]
TEXT = """
from borealis_py import App

app = App("{name}", bucket="100ms")
left, right, side = (app.source(s, schema={{"v": "double"}}) for s in ("left", "right", "side"))
cut = app.union(left, right).filter("v > 0").node("cut", replicas=1)
app.query("sums", cut.window("1s").agg(n="count(*)"), "1s", replicas=1)
app.query("every", app.union(cut, side), "1s", replicas=1)
"""


@pytest.fixture(scope="module")
def site(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory from which two apps were started that differ in their names only; the first answers HTTP."""
    directory = tmp_path_factory.mktemp("site")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(directory)
        patch.setenv("BOREALIS_BOOTSTRAP", bootstrap)
        for name in (APP, OTHER):
            (directory / f"{name}.py").write_text(TEXT.format(name=name))
        try:
            assert main(["up", f"{APP}.py", "--host", "process", "--http", "127.0.0.1:0"]) == 0
            assert main(["up", f"{OTHER}.py", "--host", "process"]) == 0
            yield directory
        finally:
            main(["down", "--app", APP])
            main(["down", "--app", OTHER])


@pytest.fixture(autouse=True)
def _there(there: None) -> None:
    """Every test runs in `site`."""


def get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE_S) as response:
            return response.status, response.read().decode()
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code, exc.read().decode()


def page(url: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(get(f"{url}/api/v1/status")[1])
    return found


def urls(borealis: Borealis) -> dict[str, str]:
    """Of the process of each node."""
    return {r["node"]: r["http"] for r in status(borealis, APP)["replicas"]}


def test_a_process_answers_for_all_its_replicas(borealis: Borealis) -> None:
    (url,) = set(urls(borealis).values())
    for path in ("healthz", "readyz"):
        until_equal(lambda path=path: get(f"{url}/{path}"), (200, "ok\n"), f"{path} says that they run")
    until_equal(
        lambda: [(r["node"], r["replica"], r["state"]) for r in page(url)["replicas"]],
        [(*key, "STABLE") for key in REPLICAS],
        "all are up to date",
    )
    ready = f"borealis_replicas_ready {len(REPLICAS)}.0"
    until(lambda: ready in get(f"{url}/metrics")[1].splitlines(), "the metrics say that all are ready")
    assert get(f"{url}/nonsense")[0] == 404


def test_the_page_and_the_command_say_the_same(borealis: Borealis) -> None:
    command, found = status(borealis, APP), page(urls(borealis)["cut"])
    assert found.keys() == command.keys() - {"processes_here", "supervised"}
    same = ("app", "hash", "bucket_us", "origin_us", "policies", "thresholds_us", "failed_sources_until_wall_us")
    assert {k: found[k] for k in same} == {k: command[k] for k in same}
    assert found["replicas"][0].keys() == command["replicas"][0].keys()


def test_a_threshold_shows_where_it_is_obeyed(borealis: Borealis) -> None:
    url = urls(borealis)["sums"]
    assert borealis("threshold", "sums", "700ms", "--app", APP).code == 0
    until(lambda: page(url)["thresholds_us"]["sums"] == 700_000, "it is on the page")
    line = 'borealis_replica_delay_threshold_seconds{app="seen",node="sums",replica="0"} 0.7'
    until(lambda: line in get(f"{url}/metrics")[1].splitlines(), "it is in the metrics")


@pytest.mark.parametrize("command", ["status", "top"])
def test_two_apps_on_one_broker_do_not_see_each_other(borealis: Borealis, command: str) -> None:
    assert borealis("threshold", "sums", "700ms", "--app", APP).code == 0
    one, other = (json.loads(borealis(command, "--json", "--app", app).out) for app in (APP, OTHER))
    for found in (one, other):
        assert [(r["node"], r["replica"]) for r in found["replicas"]] == REPLICAS
    for field in ("pid", "uid"):
        assert not {r[field] for r in one["replicas"]} & {r[field] for r in other["replicas"]}
    assert (one["thresholds_us"]["sums"], other["thresholds_us"]["sums"]) == (700_000, 1_000_000)
    assert {r["http"] for r in other["replicas"]} == {""}
    said = borealis(command)
    assert said.code == 2
    assert "several apps on this broker: " in said.err
    assert f"{APP}, {OTHER}" in said.err


def test_a_lost_source_costs_what_was_explained(borealis: Borealis, bootstrap: str) -> None:
    explained = json.loads(borealis("explain", f"{APP}.py", "--json").out)["losses"]["left"]
    log = KafkaLog(bootstrap)
    state = read_app(log, APP)
    with ExitStack() as stack:
        for source in SOURCES:
            stack.enter_context(publisher(source, app=APP, bootstrap=bootstrap))
        until(lambda: all(r["stable_lag_s"] < 2 for r in status(borealis, APP)["replicas"]), "all are up to date")
        assert borealis("fail", "source", "left", "--for", "60s", "--app", APP).code == 0
        url = urls(borealis)["cut"]
        until_equal(lambda: set(page(url)["failed_sources_until_wall_us"]), {"left"}, "the page says that it is lost")
        for query in ("sums", "every"):
            stop, lost = threading.Event(), explained[query]["missing_sources"]
            with closing(live(log, state, query, False, stop, empty=True)) as changes:
                change = next(c for c in changes if c.kind == Kind.TENTATIVE.value and list(c.missing_sources) == lost)
            found = {
                "outcome": "tentative",
                "completeness": change.completeness,
                "missing_sources": list(change.missing_sources),
            }
            assert found == explained[query]
        cut_off(log, APP, ["left"], 0)
        counted = re.compile(r'_events_total{app="seen",event="FIRST_TENTATIVE",node="cut",replica="0"} [1-9]')
        until(lambda: counted.search(get(f"{url}/metrics")[1]) is not None, "the metrics count it")
    assert [explained[q]["completeness"] for q in ("sums", "every")] == [0.5, 0.75]


def test_explain_tells_how_fast_streams_grow(borealis: Borealis) -> None:
    """Those of the app that runs; of one that was never started, that it does not."""
    with ExitStack() as stack:
        for source in SOURCES:
            stack.enter_context(publisher(source, app=APP))

        def grows() -> dict[str, Any]:
            found: dict[str, Any] = json.loads(borealis("explain", f"{APP}.py", "--json").out)["growth"]
            return found

        topics = [f"{APP}.{source}" for source in SOURCES]
        until(lambda: all(grows()[topic]["bytes_a_day"] for topic in topics), "every source has some records")
        found = grows()
    for topic in topics:  # boundaries alone: 10 a second of some dozens of bytes
        assert 1e6 < found[topic]["bytes_a_day"] < 1e9
        assert found[topic]["records"] <= 200
        assert found[topic]["seconds"] > 0
        assert found[topic]["unknown"] is None
    assert found[f"{APP}.sums"] is not None
    Path("new.py").write_text(TEXT.format(name="seennew"))
    lines = [" ".join(line.split()) for line in borealis("explain", "new.py").out.splitlines()]
    assert "seennew.left not running" in lines
    assert "seennew.sums.r0 not running" in lines


def test_explain_predicts_by_the_rates_that_sources_have(borealis: Borealis) -> None:
    """Rows that the filter of the first node drops, so the next one reads none of them."""
    found: dict[str, Any] = {}
    with ExitStack() as stack:
        publishers = [stack.enter_context(publisher(source, app=APP)) for source in SOURCES]

        def measured() -> bool:
            for one in publishers:
                one.send({"v": -1.0})
            found.update(json.loads(borealis("explain", f"{APP}.py", "--json").out)["recovery"] or {})
            return bool(found)

        until(measured, "every source has rows of two times")
    assert found["rates_from"] == "measured"
    assert all(rate > 0 for rate in found["rates"].values())
    tried = {name: node["tried"]["rows_per_s"] for name, node in found["nodes"].items()}
    assert tried["cut"] == pytest.approx(found["rates"]["left"] + found["rates"]["right"])
    assert tried["sums"] == 0
    assert not found["nodes"]["cut"]["ways"]["active"]["in_force"]  # replicas=1


def test_top_on_a_terminal_until_q(bootstrap: str) -> None:
    far, near = pty.openpty()
    command = [sys.executable, "-m", "borealis_py.cli.main", "top", "--app", APP]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "150", "LINES": "40"}
    screen = bytearray()

    def look() -> None:
        with suppress(OSError):  # nobody has the other end any more
            while shown := os.read(far, 65_536):
                screen.extend(shown)

    with subprocess.Popen(command, stdin=near, stdout=near, stderr=subprocess.PIPE, env=environment) as process:
        os.close(near)
        looks = threading.Thread(target=look)
        looks.start()
        until(lambda: b"every" in screen or process.poll() is not None, "the picture")
        os.write(far, b"q")
        assert process.wait(PATIENCE_S) == 0
        assert process.stderr is not None
        said = process.stderr.read().splitlines()
        assert [line for line in said if b"cannot be read at present, retrying" not in line] == []  # of a busy broker
    looks.join(PATIENCE_S)
    os.close(far)
    assert b"\x1b[?1049l" in screen, "the screen is given back"
    assert b"q or Ctrl-C ends" in screen
    assert OTHER.encode() not in screen


def test_sigterm_ends_it_with_the_process(borealis: Borealis, site: Path) -> None:
    cut = status(borealis, APP)["replicas"][0]
    process = psutil.Process(cut["pid"])
    process.send_signal(signal.SIGTERM)
    process.wait(PATIENCE_S)
    with pytest.raises(urllib.error.URLError):
        get(f"{cut['http']}/healthz")
    log = (site / f".borealis/{APP}/replica-0.log").read_text()
    assert f'"at": "{cut["http"]}"' in log
    assert "Traceback" not in log


def test_a_port_that_is_taken_is_said_at_up(borealis: Borealis) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        said = borealis("up", f"{APP}.py", "--host", "process", "--http", taken)
    assert said.code == 1
    assert f"cannot listen for HTTP at {taken}: Address already in use" in said.err
    assert "replica 0 ended while starting" in said.err
