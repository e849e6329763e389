"""Starts pytest for each tier: tests that wait for processes beside tests that compute.

Stages of a lane come one after the other, lanes beside each other. The first lane, of tests with processes, has
priority: what needs the CPU (lint, types, pure tests) takes only what they leave.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from tests.tiers import durations, plan, plugin
from tests.tiers.durations import Durations

LOOK_S = 0.5
END_S = 120.0
"""How long an interrupted stage may take to end what it has started."""
NO_TESTS = 5
"""pytest's exit code where there was nothing to run."""
BY_FILE = ("loadfile", "--no-loadscope-reorder")
SPREAD = {
    "pure": ("-n", str(1 + (os.cpu_count() or 1)), "--dist", "worksteal"),  # some wait, too
    "broker": ("-n", "3", "--dist", *BY_FILE),
    "spark": ("-n", "2", "--dist", *BY_FILE),
}


@dataclass(frozen=True)
class Stage:
    """A process that runs tests, or a check.

    Attributes:
        tier: of its tests; "": it has none.
        environment: what is set for it besides.
    """

    name: str
    argv: tuple[str, ...]
    tier: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)


CHECK = Stage("lint, types, contracts", ("make", "--silent", "check"))


@dataclass(frozen=True)
class Ended:
    """What came of a stage.

    Attributes:
        red: files with red tests -> whether one of them found wrong data.
        taken: what its tests took.
    """

    stage: Stage
    code: int
    seconds: float
    output: str
    red: Mapping[str, bool] = field(default_factory=dict)
    taken: Durations = field(default_factory=dict)

    @property
    def green(self) -> bool:
        """All passed; a third of a tier may have no tests at all."""
        return self.code == 0 or (self.code == NO_TESTS and bool(self.stage.tier))


@dataclass(frozen=True)
class Chosen:
    """Which tests of a tier.

    Attributes:
        marks: as in pytest's `-m`; "": any.
        rotation: whose share of families, third and examples are taken; None: the usual ones.
        third: only the rotation's third of the slow tests, and those of the files that are `due` in any rotation.
    """

    marks: str = ""
    rotation: int | None = None
    third: bool = False
    due: Collection[str] = ()


def of_tier(tier: str, chosen: Chosen, files: Sequence[str] = ()) -> Stage:
    """The chosen tests of a tier, on several workers; those of `files` alone, in one."""
    marks, rotation = chosen.marks, chosen.rotation
    name = f"{tier} tests{f', {marks}' if marks else ''}{f' of {chr(32).join(files)}' if files else ''}"
    seed = () if rotation is None else (f"--hypothesis-seed={rotation}",)
    some = (*(() if files else SPREAD[tier]), *seed, "--tier", tier, *(("-m", marks) if marks else ()))
    some = (*some, *(("--third",) if chosen.third else ()), *files)
    set_ = {} if rotation is None else {plugin.ROTATION: str(rotation), plugin.DUE: " ".join(sorted(chosen.due))}
    return Stage(name, (sys.executable, "-m", "pytest", *some), tier, set_)


def run(lanes: Sequence[Sequence[Stage]], scratch: Path, console: Console, part: str = "first") -> list[Ended]:
    """Run all stages, whatever comes of one. The output of each is printed when it has ended.

    Args:
        scratch: an existing directory. part: a name for this run there.

    Raises:
        KeyboardInterrupt: when the running ones have ended what they had started.
    """
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        console=Console(stderr=True), disable=not sys.stderr.isatty(),
    )  # fmt: skip

    async def lane(n: int, stages: Sequence[Stage]) -> list[Ended]:
        return [await _run(stage, n > 0, scratch / f"{part}-{n}-{i}", bars, console) for i, stage in enumerate(stages)]

    async def all_lanes() -> list[Ended]:
        return [one for each in await asyncio.gather(*map(lane, range(len(lanes)), lanes)) for one in each]

    with bars:
        return asyncio.run(all_lanes())


async def _run(stage: Stage, behind: bool, path: Path, bars: Progress, console: Console) -> Ended:
    argv = (*(("nice", "-n", "5") if behind else ()), *stage.argv)
    environment = {**os.environ, **stage.environment, plugin.RESULT: str(path)}
    began, row = time.monotonic(), bars.add_task(stage.name, total=None)
    with path.with_suffix(".output").open("w+b") as output:
        process = await asyncio.create_subprocess_exec(*argv, stdout=output, stderr=output, env=environment)
        ends = asyncio.ensure_future(process.wait())
        try:
            while not ends.done():
                await asyncio.wait({ends}, timeout=LOOK_S)
                done, total = _progress(path)
                bars.update(row, completed=done, total=total or None)
        except asyncio.CancelledError:  # the terminal has interrupted it, too
            with suppress(TimeoutError):
                await asyncio.wait_for(process.wait(), END_S)
            if process.returncode is None:
                process.kill()
            raise
    bars.remove_task(row)
    ended = _ended(stage, process.returncode or 0, time.monotonic() - began, path)
    show(ended, console)
    return ended


def show(ended: Ended, console: Console) -> None:
    """What a stage has printed: all of it if it is red, else what it ended with."""
    lines = ended.output.rstrip().splitlines() or [""]
    what = "passed" if ended.green else "FAILED"
    console.print(f"---- {ended.stage.name}: {what}, {ended.seconds:.0f} s", highlight=False)
    for line in lines[-1:] if ended.green else lines:
        console.out(line, highlight=False)


def _progress(path: Path) -> tuple[int, int]:
    """Tests that are done, and all of them."""
    try:
        done, total = path.with_suffix(".progress").read_text().split()
    except (OSError, ValueError):
        return 0, 0
    return int(done), int(total)


def _ended(stage: Stage, code: int, seconds: float, path: Path) -> Ended:
    output = path.with_suffix(".output").read_text(errors="replace")
    if not path.exists():
        return Ended(stage, code, seconds, output)
    result: dict[str, Any] = json.loads(path.read_text())
    red: dict[str, bool] = {}
    for nodeid, wrong in result["failed"].items():
        red[plan.file_of(nodeid)] = red.get(plan.file_of(nodeid), False) or wrong
    return Ended(stage, code, seconds, output, red, durations.parsed(result["taken"]))
