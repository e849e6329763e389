"""Output of commands: data to standard output, everything else to standard error."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console
from rich.text import Text

from borealis_py.cli.shared.tables import FittingTable

FAILED, USAGE = 1, 2
"""Exit codes: it could not be done; a word of the command is wrong."""
INTERRUPTED = 130
"""Exit code of a command ended by Ctrl-C or its equivalent."""
_PIPE_WIDTH = 100_000
"""Width of a table written to a pipe or a file: nothing is left out or broken."""


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


def print_table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[str | Text]], least: Sequence[str] = ()
) -> None:
    """Print a table on standard output; see `FittingTable`."""
    out().print(FittingTable(title, columns, rows, least))


@contextmanager
def waiting(message: str) -> Iterator[Any]:
    """A spinner on standard error while the block runs; its `update(message)` changes the text."""
    with err().status(message) as status:
        yield status
