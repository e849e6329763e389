"""Where a command writes: data on standard output, everything else on standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

INTERRUPTED = 130
"""Exit code of a command that Ctrl-C ended, or what counts as that."""
_PIPE_WIDTH = 300
"""Columns of a table that goes into a pipe or a file, where nobody's window is too narrow."""


def err() -> Console:
    """Standard error, as it is now."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def out() -> Console:
    """Standard output, as it is now."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def say(message: str, style: str = "") -> None:
    """One line for the person who waits."""
    err().print(Text(message, style=style))


def fail(message: str, hint: str | None = None) -> None:
    """What went wrong, in red, and what helps."""
    console = err()
    console.print(Text.assemble(("error: ", "bold red"), (message, "red")))
    if hint:
        console.print(Text.assemble(("hint: ", "bold"), hint))


def print_json(value: Any) -> None:
    """One JSON document on one line of standard output. Ends the program quietly when nobody reads any more."""
    try:
        sys.stdout.write(msgspec.json.encode(value, enc_hook=str).decode() + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at its end
        raise SystemExit(0) from None


def make_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """A table as all commands show it. A column whose name ends with ">" is aligned to the right."""
    table = Table(title=title or None, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        right = name.endswith(">")
        table.add_column(name.rstrip(">"), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """A table on standard output, see `make_table`."""
    out().print(make_table(title, columns, rows))


@contextmanager
def waiting(message: str) -> Iterator[Any]:
    """A spinner on standard error while the block runs; its `update(message)` changes the text."""
    with err().status(message) as status:
        yield status
