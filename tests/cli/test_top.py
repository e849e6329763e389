"""`borealis top` on a terminal and without one, with a follower that is fed by hand."""

from __future__ import annotations

import io
import json
import os
import pty
import signal
import termios
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from borealis_py.app.state import Statuses
from borealis_py.cli.commands import top
from borealis_py.cli.commands.top import picture, watch
from borealis_py.config.signals import setting
from borealis_py.log.messages import RedoStatus
from borealis_py.observe.follower import AppSnapshot
from borealis_py.observe.overview import overview
from tests.harness.waiting import until
from tests.observe.states import app_state
from tests.support.statuses import WALL_US, source, status

WIDTH = 120


class Scripted:
    """Stands for a follower: each look shows what `view` says."""

    def __init__(self, view: AppSnapshot) -> None:
        self.view = view
        self.looks = 0
        self.closed = False

    def look(self) -> AppSnapshot:
        self.looks += 1
        return self.view

    def close(self) -> None:
        self.closed = True


def a_view(**changes: Any) -> AppSnapshot:
    statuses: Statuses = {
        ("cut", 0): status(node="cut"),
        ("cut", 1): status(node="cut", replica=1, at_wall_us=WALL_US - 60_000_000),
        ("q", 0): status(state="UPSTREAM_FAILURE", inc=4, f_s=status().f_s - 12),
    }
    events = (
        status(event="FIRST_TENTATIVE", detail="bucket 7 ran without s"),
        status(event="REDO", redo=RedoStatus(0, 12, 345, "spark", 1.25, WALL_US)),
    )
    return replace(AppSnapshot(app_state(), statuses, WALL_US, events), **changes)


def shown(view: AppSnapshot, width: int = 250, height: int | None = None) -> list[str]:
    console = Console(width=width, file=io.StringIO(), record=True)
    console.print(picture(view, width, height, "q ends"))
    return console.export_text().splitlines()


def test_the_picture_has_the_app_its_replicas_and_what_happened() -> None:
    text = "\n".join(shown(a_view()))
    assert "22:13:20 UTC   6 replicas: 1 STABLE, 1 UPSTREAM_FAILURE, 4 not running   q ends" in text
    assert "delay thresholds q 3s, p 2s" in text
    (row,) = [line.split() for line in shown(a_view()) if line.startswith(" q ") and "UPSTREAM" in line]
    assert row[:5] == ["q", "q", "0", "UPSTREAM_FAILURE", "4"]
    assert "12" in row
    assert "gone, was STABLE" in text
    assert "22:13:20  q.r0  FIRST_TENTATIVE  bucket 7 ran without s" in text
    assert "22:13:20  q.r0  REDO  spark: 12 buckets, 345 rows in 1.25 s" in text


def test_each_input_of_a_replica_that_runs_shows_its_rate() -> None:
    statuses: Statuses = {
        ("cut", 0): status(node="cut", inputs=(source("s"), source("t", late=True), source("u", ended=True))),
        ("cut", 1): status(node="cut", replica=1, at_wall_us=WALL_US - 60_000_000),
        ("q", 0): status(),
    }
    rates = {("cut", 0): (1250.4, 0.25, 3.0), ("cut", 1): (7.0,), ("q", 0): (0.0,)}
    rows = shown(a_view(statuses=statuses, rates=rates))
    assert all(any(said in row for row in rows) for said in ("s:ok 1,250/s", "t:late 0.2/s", "u:ended"))
    assert any(row.rstrip().endswith("s:ok 0/s") for row in rows)
    assert "7.0/s" not in "\n".join(rows)  # it is gone
    assert "/s" not in "\n".join(shown(a_view(statuses=statuses)))


def test_what_is_not_of_now_says_so() -> None:
    assert "not up to date: no broker" in shown(a_view(problem="no broker"))[1]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (100, 20), (200, 50)])
def test_it_fits_the_terminal_and_the_newest_events_stay(width: int, height: int) -> None:
    events = tuple(status(event="REDO", detail=f"number {n} " + "x" * 300) for n in range(100))
    lines = shown(a_view(events=events), width, height)
    assert len(lines) <= height
    assert all(len(line) <= width for line in lines)
    assert "number 99" in lines[-1]
    assert "number 0 " not in "\n".join(lines)


@pytest.fixture
def follower(monkeypatch: pytest.MonkeyPatch) -> Scripted:
    follower = Scripted(a_view())
    monkeypatch.setattr("borealis_py.observe.follower.Follower", lambda log, app: follower)
    monkeypatch.setattr("borealis_py.cli.shared.context.Context.check_broker", lambda _: None)
    return follower


def test_without_a_terminal_it_prints_once(follower: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    top.top()
    said = capsys.readouterr().out
    assert said.count("6 replicas") == 1
    assert "\x1b" not in said
    assert (follower.looks, follower.closed) == (1, True)


def test_json_is_what_status_says_as_often_as_asked(follower: Scripted, capsys: pytest.CaptureFixture[str]) -> None:
    top.top(json=True, count=3, every="100ms")
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    view = follower.view
    assert lines == [json.loads(json.dumps(overview(view.state, view.statuses, view.now_us)))] * 3


class Terminal:
    """A terminal that this process has as standard input and output while it is open. `screen`: what it was sent."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.far, self.near = pty.openpty()
        termios.tcsetwinsize(self.near, (40, WIDTH))
        monkeypatch.setattr("sys.stdin", os.fdopen(os.dup(self.near), "r"))
        monkeypatch.setattr("sys.stdout", os.fdopen(os.dup(self.near), "w"))
        monkeypatch.setenv("TERM", "xterm")
        monkeypatch.setenv("COLUMNS", str(WIDTH))
        monkeypatch.setenv("LINES", "40")
        self.before = termios.tcgetattr(self.near)
        self.screen = b""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        try:
            while data := os.read(self.far, 65_536):
                self.screen += data
        except OSError:
            pass

    def type(self, keys: bytes) -> None:
        os.write(self.far, keys)

    @property
    def restored(self) -> bool:
        return termios.tcgetattr(self.near) == self.before

    def close(self) -> None:
        os.close(self.near)


@pytest.fixture
def open_terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Terminal]]:
    """To be called in the test: pytest sets its own streams between a fixture and the test."""
    opened: list[Terminal] = []

    def make() -> Terminal:
        opened.append(Terminal(monkeypatch))
        return opened[-1]

    yield make
    for terminal in opened:
        terminal.close()


def run(follower: Scripted, meanwhile: Callable[[threading.Event], None]) -> None:
    """`watch` here, as the main thread would, and `meanwhile` in another."""
    stop, failed = threading.Event(), []

    def act() -> None:
        try:
            meanwhile(stop)
        except BaseException as exc:
            failed.append(exc)
            stop.set()

    thread = threading.Thread(target=act)
    thread.start()
    watch(follower, 0.05, stop)  # type: ignore[arg-type]
    thread.join()
    assert not failed, failed


@pytest.mark.parametrize("keys", [b"q", b"xq", b"\x1b", b"\x04"])
def test_a_key_ends_it_and_the_terminal_is_as_before(open_terminal: Callable[[], Terminal], keys: bytes) -> None:
    terminal, follower = open_terminal(), Scripted(a_view())

    def meanwhile(stop: threading.Event) -> None:
        until(lambda: b"UPSTREAM_FAILURE" in terminal.screen, "the picture")
        assert not terminal.restored  # no echo, no waiting for Enter
        follower.view = a_view(problem="the broker is away")
        until(lambda: b"the broker is away" in terminal.screen, "the new picture")
        assert b"q or Ctrl-C ends" in terminal.screen
        terminal.type(keys)

    run(follower, meanwhile)
    until(lambda: b"\x1b[?1049l" in terminal.screen, "the screen is given back")
    assert terminal.restored
    assert follower.closed


def test_a_signal_ends_it_and_the_terminal_is_as_before(
    open_terminal: Callable[[], Terminal], request: pytest.FixtureRequest
) -> None:
    terminal, follower, before = open_terminal(), Scripted(a_view()), signal.getsignal(signal.SIGINT)
    stop = threading.Event()

    def meanwhile() -> None:
        until(lambda: b"UPSTREAM_FAILURE" in terminal.screen, "the picture")
        terminal.type(b"z")
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=meanwhile)
    thread.start()
    with setting(stop, *top.SIGNALS):
        watch(follower, 0.05, stop)  # type: ignore[arg-type]
    thread.join()
    interrupts = request.config.pluginmanager.get_plugin("interrupts")
    assert interrupts is not None
    interrupts.forget()
    assert terminal.restored
    assert signal.getsignal(signal.SIGINT) is before
