"""Shared by benchmarks with several measurements: their sizes and their test bed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from borealis_py.app.child_processes import terminated_as_interrupt
from borealis_py.bench.load.stage import Stage, directory, staged
from borealis_py.bench.report.bars import Bars, bars_on


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """The sizes of a benchmark. `work`: gets a directory of the run's data and logs; None: none is kept."""

    events: int
    per_record: int = 5_000
    spark: bool = True
    work: Path | None = None


@contextmanager
def on_stage(sizes: Sizes, console: Console) -> Iterator[tuple[Bars, Stage]]:
    """A separate broker, and progress bars. Nothing keeps running, however it ends.

    Raises:
        BrokerError: no Java, or the broker did not start.
    """
    with bars_on(console) as bars, stage_for(sizes.work, bars) as stage:
        yield bars, stage


@contextmanager
def stage_for(work: Path | None, bars: Bars) -> Iterator[Stage]:
    """The same if bars are already shown. `work`: as `Sizes.work`."""
    with directory(work) as kept, terminated_as_interrupt():
        bars.say("starting Apache Kafka")
        with staged(kept) as stage:
            yield stage
            bars.say("stopping")
