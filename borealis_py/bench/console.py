"""Progress of a benchmark: one line per step, with a bar if its length is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from borealis_py.bench.machine import Measured

Say = Callable[[str], None]
"""Reports the current step."""


class Bars:
    """One line for each step; finished ones stay."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._task: TaskID | None = None

    def step(self, what: str, total: float | None = None) -> TaskID:
        """Begin a step, which ends the previous one."""
        self.done()
        self._task = self._progress.add_task(what, total=total)
        return self._task

    def say(self, what: str) -> None:
        """Begin a step of unknown length."""
        self.step(what)

    def done(self) -> None:
        """End the step, if one runs."""
        if self._task is not None:
            self._progress.update(self._task, total=1, completed=1)
            self._progress.stop_task(self._task)
            self._task = None

    @contextmanager
    def bar(self, what: str, total: float) -> Iterator[At]:
        """A step with a known length."""
        yield At(self._progress, self.step(what, total))
        self.done()


class At:
    """Call it with how much is done."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task

    def __call__(self, completed: float) -> None:
        self._progress.update(self._task, completed=completed)


@contextmanager
def bars_on(console: Console) -> Iterator[Bars]:
    """Bars on a console; those of steps that are done stay there."""
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        bars = Bars(progress)
        yield bars
        bars.done()


WIDTH = 120
"""Columns of what goes into a pipe or a file."""


def wide(console: Console) -> Console:
    """The console, as wide as a table needs unless it is a terminal."""
    return console if console.is_terminal else Console(file=console.file, width=WIDTH, highlight=False)


def where(report: Measured, console: Console) -> None:
    """Print the machine and the duration."""
    for line in report.machine.lines(report.seconds):
        console.print(line)


def table(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One table; the first column is of words, the others of numbers."""
    console.print(title, style="italic", markup=False)
    shown = Table(header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for i, name in enumerate(columns):
        shown.add_column(name, justify="right" if i else "left")
    for row in rows:
        shown.add_row(*row)
    console.print(shown)
