"""A task ends with its host, in order where it can, and never outlives it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading

import psutil
import pytest

from borealis_py.runtime.spark.parent_watchdog import LOOK_S, ended_with_host
from tests.harness.processes import ROOT
from tests.harness.waiting import PATIENCE_S, until

TASK = """
import sys, threading, time
from borealis_py.runtime.spark import parent_watchdog
parent_watchdog.LEAVE_S = {leave_s}
stop = threading.Event()
with parent_watchdog.ended_with_host(stop):
    print("runs", flush=True)
    {body}
print("a result", flush=True)
"""
ORDERLY = 'stop.wait(600); print("in order", flush=True)'
HANGING = "time.sleep(600)"
HANGING_IN_C = 'import hashlib; hashlib.pbkdf2_hmac("sha256", b"x", b"y", 2**31 - 1)'
"""No handler runs before it returns, after many minutes."""
TWICE = """
    import signal
    with stop._cond:  # as the main thread has it while it begins to wait, or while a handler sets the event
        signal.raise_signal(signal.SIGHUP)
        signal.raise_signal(signal.SIGTERM)
    {0}"""


def text_of(body: str) -> str:
    """Who hangs is ended soon; whoever ends in order has the time that a busy machine takes."""
    return textwrap.dedent(TASK.format(body=body, leave_s=PATIENCE_S if ORDERLY in body else 0.5))


def begun(body: str) -> subprocess.Popen[str]:
    text = text_of(body)
    return subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, text=True, cwd=ROOT)


def task(body: str) -> subprocess.Popen[str]:
    """One that prints nothing more until it is told: what `readline` has read ahead, `communicate` does not return."""
    it = begun(body)
    assert it.stdout is not None
    assert it.stdout.readline() == "runs\n"
    return it


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_it_ends_in_order_when_told(number: signal.Signals) -> None:
    it = task(ORDERLY)
    it.send_signal(number)
    out, _ = it.communicate(timeout=PATIENCE_S)
    assert (out, it.returncode) == ("in order\n", 0)


def test_signals_that_come_at_the_worst_moment_end_it_in_order() -> None:
    """Executors that are killed send several; a handler that took a lock left a worker that nothing ended."""
    it = begun(TWICE.format(ORDERLY))
    out, _ = it.communicate(timeout=PATIENCE_S)
    assert (out, it.returncode) == ("runs\nin order\n", 0)


def test_one_that_hangs_is_ended() -> None:
    it = task(HANGING)
    it.send_signal(signal.SIGHUP)
    out, _ = it.communicate(timeout=PATIENCE_S)
    assert (out, it.returncode) == ("", 1)


def test_one_that_hangs_where_no_handler_runs_is_ended() -> None:
    it = task(HANGING_IN_C)
    began = psutil.Process(it.pid).cpu_times().user
    until(lambda: psutil.Process(it.pid).cpu_times().user > began + 0.5, "it computes")
    it.send_signal(signal.SIGHUP)
    out, _ = it.communicate(timeout=PATIENCE_S)
    assert (out, it.returncode) == ("", 1)


def test_signals_are_as_before_once_it_is_done() -> None:
    numbers = (signal.SIGHUP, signal.SIGTERM)
    before = [signal.getsignal(n) for n in numbers]
    stop, heard = threading.Event(), threading.Event()
    alarm = signal.signal(signal.SIGALRM, lambda *_: heard.set())
    with ended_with_host(stop):
        assert [signal.getsignal(n) for n in numbers] != before
        signal.raise_signal(signal.SIGALRM)
        assert heard.wait(PATIENCE_S)
        assert not stop.wait(2 * LOOK_S), "only a signal to end ends it"
    signal.signal(signal.SIGALRM, alarm)
    assert [signal.getsignal(n) for n in numbers] == before
    assert not stop.is_set()


def test_an_orphan_ends_itself() -> None:
    text = text_of(ORDERLY)
    parent = f"import subprocess, sys, time; p = subprocess.Popen([sys.executable, '-c', {text!r}]); time.sleep(600)"
    it = subprocess.Popen([sys.executable, "-c", parent], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    assert it.stdout is not None
    assert it.stdout.readline() == "runs\n"
    (child,) = psutil.Process(it.pid).children()
    os.kill(it.pid, signal.SIGKILL)
    out, _ = it.communicate(timeout=PATIENCE_S)
    assert out == "in order\n"
    assert psutil.wait_procs([child], timeout=PATIENCE_S)[1] == []
