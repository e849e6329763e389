"""Output of commands: data to standard output, everything else to standard error."""

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
"""Exit code of a command ended by Ctrl-C or its equivalent."""
_PIPE_WIDTH = 300
"""Width of a table written to a pipe or a file."""


def err() -> Console:
    """Standard error, as it is now."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def out() -> Console:
    """Standard output, as it is now."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else _PIPE_WIDTH)


def say(message: str, style: str = "") -> None:
    """Print one line for the waiting user."""
    err().print(Text(message, style=style))


def fail(message: str, hint: str | None = None) -> None:
    """Print an error, in red, and a hint."""
    console = err()
    console.print(Text.assemble(("error: ", "bold red"), (message, "red")))
    if hint:
        console.print(Text.assemble(("hint: ", "bold"), hint))


def print_json(value: Any) -> None:
    """Print one JSON document on one line of standard output. Ends the program quietly if the reader has gone."""
    try:
        sys.stdout.write(msgspec.json.encode(value, enc_hook=str).decode() + "\n")
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the interpreter complains at exit
        raise SystemExit(0) from None


def make_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> Table:
    """A table in the style of all commands. A column whose name ends with ">" is right-aligned."""
    table = Table(title=title or None, title_justify="left", header_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for name in columns:
        right = name.endswith(">")
        table.add_column(name.rstrip(">"), justify="right" if right else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]]) -> None:
    """Print a table on standard output; see `make_table`."""
    out().print(make_table(title, columns, rows))


@contextmanager
def waiting(message: str) -> Iterator[Any]:
    """A spinner on standard error while the block runs; its `update(message)` changes the text."""
    with err().status(message) as status:
        yield status
