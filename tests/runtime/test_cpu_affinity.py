"""A start keeps to half of the cores, until it is told that it is over: all threads of all its processes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from borealis_py.runtime.process.cpu_affinity import StartCores, half

ALL = os.sched_getaffinity(0)
SLEEPS = "import threading; t = threading.Thread(target=threading.Event().wait, daemon=True); t.start(); input()"


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    yield
    os.sched_setaffinity(0, ALL)


def test_halves_are_apart_and_all_there_is() -> None:
    assert half({0, 1}, 0) == {0}
    assert half({0, 1}, 1) == {1}
    assert half({3, 5, 7}, 2) == {3}
    assert half({3, 5, 7}, 3) == {5, 7}


@pytest.mark.skipif(len(ALL) < 2, reason="one core has no halves")
def test_what_it_starts_is_kept_to_its_half_and_widened_in_the_end() -> None:
    cores = StartCores(1, others=True, ready=False)
    assert os.sched_getaffinity(0) == half(ALL, 1)
    with subprocess.Popen([sys.executable, "-c", SLEEPS], stdin=subprocess.PIPE) as child:
        assert os.sched_getaffinity(child.pid) == half(ALL, 1)
        cores.done()
        for pid in (os.getpid(), child.pid):
            assert all(os.sched_getaffinity(int(t)) == ALL for t in os.listdir(f"/proc/{pid}/task"))
        os.sched_setaffinity(0, half(ALL, 0))
        cores.done()
        assert os.sched_getaffinity(0) == half(ALL, 0), "it is over: the rest is the user's business"
        child.communicate(b"\n")


def test_alone_on_a_machine_it_takes_all() -> None:
    StartCores(0, others=False, ready=False)
    assert os.sched_getaffinity(0) == ALL


@pytest.mark.skipif(len(ALL) < 2, reason="one core has no halves")
@pytest.mark.parametrize("index", range(4))
def test_however_many_start_half_of_the_cores_is_left_to_who_answers(index: int) -> None:
    StartCores(index, others=True, ready=True)
    assert os.sched_getaffinity(0) == half(ALL, 0)
