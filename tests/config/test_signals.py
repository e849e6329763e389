"""A signal sets an event without its handler touching the event's lock, which the main thread may hold."""

from __future__ import annotations

import os
import signal
import threading

from borealis_py.config.signals import set_by, setting
from tests.harness.waiting import PATIENCE_S, until


def test_a_signal_that_comes_while_the_event_is_being_waited_for_sets_it() -> None:
    """The main thread holds the event's lock just before and just after it sleeps."""
    stop = threading.Event()
    with setting(stop, signal.SIGUSR1), stop._cond:
        signal.raise_signal(signal.SIGUSR1)
    assert stop.wait(PATIENCE_S)


def test_a_second_signal_within_the_handler_of_the_first_is_taken() -> None:
    stop, depth = threading.Event(), list[int]()

    def first() -> None:
        depth.append(len(depth))
        if len(depth) == 1:
            signal.raise_signal(signal.SIGUSR2)

    with setting(stop, signal.SIGUSR1, signal.SIGUSR2, first=first):
        os.kill(os.getpid(), signal.SIGUSR1)
        assert stop.wait(PATIENCE_S)
    assert depth == [0, 1]


def test_signals_are_as_before_afterwards_and_no_thread_stays() -> None:
    before, stop = signal.getsignal(signal.SIGUSR1), threading.Event()
    threads = set(threading.enumerate())
    undo = set_by([signal.SIGUSR1], stop)
    assert signal.getsignal(signal.SIGUSR1) != before
    (ours,) = set(threading.enumerate()) - threads
    undo()
    assert signal.getsignal(signal.SIGUSR1) == before
    until(lambda: not ours.is_alive(), "the thread ends")
    assert not stop.is_set()
