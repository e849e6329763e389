"""Every SQL function that a query may use gives the same bits wherever and whenever it is computed.

Two processes of their own compute all calls of all functions (`examples`), the second one at another second, with
another time zone, locale, home and directory, in the opposite order, in several threads at once.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from borealis_py.engine.sql.catalogue import catalogue
from borealis_py.engine.sql.functions import AGGREGATES, BY_NAME, SCALARS
from tests.engine import examples

ROOT = Path(__file__).parents[2]
LIMIT_S = 540
PARTS = 4
Calls = list[tuple[str, bool]]
THERE = {"TZ": "Asia/Kolkata", "LANG": "tr_TR.UTF-8", "LC_ALL": "tr_TR.UTF-8", "PYTHONHASHSEED": "77",
         "ICU_TIMEZONE_FILES_DIR": "/nonexistent", "OMP_NUM_THREADS": "3", "MALLOC_PERTURB_": "165"}  # fmt: skip
"""What is different about the second process, beside home, directory, order and threads."""


def proved(calls: Calls, threads: int, directory: Path, **environment: str) -> dict[str, Any]:
    """What a fresh process finds."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.engine.proving"],
        input=json.dumps({"calls": calls, "threads": threads}),
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        cwd=directory,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **environment},
        check=False,
    )
    assert child.returncode == 0, child.stderr[-3_000:]
    answer: dict[str, Any] = json.loads(child.stdout)
    return answer


def everything() -> list[tuple[str, str, bool]]:
    """(function, call, is an aggregate)."""
    scalars = [(name, call, False) for name, calls in examples.scalars().items() for call in calls]
    typed = [(name, call, name in AGGREGATES) for name, calls in examples.typed().items() for call in calls]
    return scalars + typed + [(name, call, True) for name, calls in examples.aggregates().items() for call in calls]


def test_every_function_on_the_list_is_there() -> None:
    known = catalogue()
    assert known.scalars == SCALARS | BY_NAME
    assert known.aggregates == AGGREGATES
    assert not known.refused.keys() & (known.scalars | known.aggregates)


@pytest.mark.parametrize("part", range(PARTS))
def test_the_same_bits_in_another_process_at_another_time_in_another_place(part: int, tmp_path: Path) -> None:
    mine = [one for n, one in enumerate(sorted({name for name, _, _ in everything()})) if n % PARTS == part]
    asked = [(name, call, aggregate) for name, call, aggregate in everything() if name in mine]
    calls: Calls = [(call, aggregate) for _, call, aggregate in asked]
    here = proved(calls, 1, ROOT, TZ="UTC", LC_ALL="C", LANG="C")
    there = proved(calls[::-1], 2, tmp_path, HOME=str(tmp_path), **THERE)
    assert there["at"] > here["at"]
    different = {call: (found, there["found"][call]) for call, found in here["found"].items()
                 if found != there["found"][call]}  # fmt: skip
    assert different == {}
    empty = set(mine) - {name for name, call, _ in asked if here["found"][call].get("rows")}
    assert empty == set(), "no call of these gives a value: write one by hand in examples.py"
