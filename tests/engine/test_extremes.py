"""Whatever a row holds, each accepted function gives a value or a dead letter: soon, in bounded memory, twice the same.

A process of its own puts rows through the calls (`enduring`, `extremes`); when it is silent for too long or dies, the
row that it had announced is to blame. `BOREALIS_EXPLORE=20` tries every 20th of the 5 600 calls with every value, half
an hour of one core; `BOREALIS_EXPLORE=1` tries all of them. Without it: what was once found to hang, grow or crash, and
some functions more.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.engine import extremes

ROOT = Path(__file__).parents[2]
EXPLORE = int(os.environ.get("BOREALIS_EXPLORE") or 0)
pytestmark = [pytest.mark.timeout(0)] if EXPLORE else []
CPU_MAX_S = 2.0
"""For one row in one call: a result may come 3 s late by default, and the rest of the way takes most of one."""
SILENCE_S = 240
"""Of a process on a busy machine."""
GROWTH_MAX_MB = 1_400
"""What one row may take at once: the engine's limit of 1 GiB, and what is built beside it."""
MOST = 4 if EXPLORE else 1
PARTS = 16 if EXPLORE else 2
SHARE = 1 if EXPLORE else 40

Calls = list[tuple[str, bool]]


def chosen(part: int) -> Calls:
    """The calls of one part."""
    every = extremes.calls(MOST)
    if EXPLORE:
        found = [call for calls in every.values() for call in calls][::EXPLORE]
    else:
        some = [name for name in every if name not in extremes.MORE and zlib.crc32(name.encode()) % SHARE == 0]
        found = [call for name in some for call in every[name][:1]]
    return found[part::PARTS]


class Child:
    """A process that endures calls; what it says comes in lines."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.engine.enduring"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
        self._lines: queue.Queue[str | None] = queue.Queue()
        assert self._process.stdin is not None
        with self._process.stdin as given:
            json.dump(asked, given)
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    def said(self) -> dict[str, Any]:
        """By call what it found; what was going on when it ended or said nothing any more is a call's "fault"."""
        found: dict[str, Any] = {}
        call = row = ""
        try:
            while (line := self._lines.get(timeout=SILENCE_S)) is not None:
                kind, *rest = json.loads(line)
                if kind == "done":
                    found[rest[0]] = rest[1]
                call, row = (rest[0], "") if kind == "call" else (call, rest[0] if kind == "at" else row)
            if code := self._process.wait():
                found[call] = {"rows": {row: [["fault", f"the process ended with {code}"], 0, 0]}}
        except queue.Empty:
            found[call] = {"rows": {row: [["fault", f"nothing said for {SILENCE_S} s"], 0, 0]}}
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
        return found


def endured(calls: list[list[Any]]) -> dict[str, Any]:
    """What a process finds; each call is [call, is an aggregate, labels of rows or None]."""
    return Child({"calls": calls, "chance": 20 if EXPLORE else 0}).said()


def broken(found: dict[str, Any]) -> list[str]:
    """What no row may do."""
    return [
        f"{call}, row {label!r}: {said[0] if said[0] in ('fault', 'differs') else ''} {said[1:]} {cpu_s} s, {grown} MB"
        for call, answer in found.items()
        for label, (said, cpu_s, grown) in answer.get("rows", {}).items()
        if said[0] in ("fault", "differs") or cpu_s > CPU_MAX_S or grown > GROWTH_MAX_MB
    ]


def verdicts(found: dict[str, Any]) -> dict[str, Any]:
    return {
        call: {label: said for label, (said, _, _) in answer.get("rows", {}).items()} for call, answer in found.items()
    }


@pytest.mark.parametrize("part", range(PARTS))
def test_no_row_stops_a_query(part: int) -> None:
    labels = None if EXPLORE else extremes.HARSH
    found = endured([[call, aggregate, labels] for call, aggregate in chosen(part)])
    assert broken(found) == []
    assert any(answer.get("rows") for answer in found.values())


def test_what_was_found_stays_bounded_and_is_the_same_in_another_process() -> None:
    asked = [[call, False, labels] for call, labels in extremes.FOUND]
    here = endured(asked)
    assert broken(here) == []
    assert [call for call, answer in here.items() if not answer.get("rows")] == []
    assert len(here) == len(asked)
    assert verdicts(endured(asked[::-1])) == verdicts(here)
