"""`borealis logs`: the logs of an app's processes on this machine, as people read them. Needs no broker."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from borealis_py.cli.shared.console import INTERRUPTED
from borealis_py.cli.shared.options import AppName, DataDir
from borealis_py.config.signals import setting

if TYPE_CHECKING:
    from borealis_py.app.log_lines import LogLine

LOOK_S = 0.2
"""How often files are looked at with --follow."""
WHICH = "replica 0, ingress 1 or supervisor"


def logs(
    which: Annotated[
        list[str] | None,
        typer.Argument(help=f"Whose: {WHICH}; of a replica of one node: sales.r0.", show_default="all of them"),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is written, until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the newest lines.")] = 50,
    level: Annotated[
        str, typer.Option("--level", help="The least grave to show: debug, info, warning or error.")
    ] = "info",
    app: AppName = None,
    data_dir: DataDir = None,
) -> None:
    """Show what an app's processes on this machine have logged: time (UTC), level, replica or process, message, fields.

    Lines of all processes are in the order of their times. What a library or a crash printed has no time, and follows
    the line before it.
    """
    from borealis_py.app.log_lines import LEVELS, grave, ordered, parsed, shown
    from borealis_py.config.config import load

    if level not in LEVELS:
        raise typer.BadParameter(f"{level!r}: choose {', '.join(LEVELS[:-1])}", param_hint="--level")
    directory = _directory(load(data_dir=data_dir).data_dir, app)
    files = _files(directory, which or [])
    ends: dict[Path, tuple[int, int]] = {}
    found: list[LogLine] = []
    for file in files:
        for path in (*_older(file), file):
            text, end = _read(path, 0)
            found += [parsed(file.stem, line) for line in text]
            ends[file] = end
    width = next((line.bucket_us for line in reversed(found) if line.bucket_us), None)
    wanted = list(grave(ordered(found), level))
    for line in wanted[len(wanted) - min(lines, len(wanted)) :]:
        typer.echo(shown(line, width))
    if not follow:
        return
    stop = threading.Event()
    with setting(stop, signal.SIGINT, signal.SIGTERM):
        while not stop.wait(LOOK_S):
            new: list[LogLine] = []
            for file in _files(directory, which or []):
                text, ends[file] = _since(file, ends.get(file, (0, 0)))
                new += [parsed(file.stem, line) for line in text]
            width = next((line.bucket_us for line in reversed(new) if line.bucket_us), width)
            for line in grave(ordered(new), level):
                typer.echo(shown(line, width))
    raise typer.Exit(INTERRUPTED)


def _directory(data_dir: Path, app: str | None) -> Path:
    """That of the app named, or of the only one with logs. Raises BadParameter."""
    from borealis_py.app.replicas import apps_known_here
    from borealis_py.query.errors import did_you_mean

    known = apps_known_here(data_dir)
    there = f"apps there: {', '.join(known) or 'none'}"
    if app is not None and app not in known:
        hint = did_you_mean(app, known) or ";"
        raise typer.BadParameter(f"no logs of app {app!r} below {data_dir}{hint} {there}", param_hint="--app")
    if app is None and len(known) != 1:
        choose = "choose one with --app" if known else "`borealis up app.py` starts one"
        raise typer.BadParameter(f"{len(known) or 'no'} apps have logs below {data_dir} ({there}): {choose}")
    return data_dir / (app or known[0])


def _files(directory: Path, which: list[str]) -> list[Path]:
    """The logs of the process that is named, or all. Raises BadParameter."""
    there = sorted(path for path in directory.glob("*.log") if not path.stem.endswith(".spark"))
    if not which:
        return there
    stem = "-".join(which)
    found = [path for path in there if path.stem == stem]
    if not found:
        names = ", ".join(path.stem.replace("-", " ") for path in there) or "none"
        raise typer.BadParameter(f"no log of {' '.join(which)!r}: name {WHICH}; there are: {names}")
    return found


def _older(file: Path) -> list[Path]:
    """What was rotated away, oldest first."""
    return sorted(file.parent.glob(f"{file.name}.[0-9]"), reverse=True)


def _read(path: Path, first: int) -> tuple[list[str], tuple[int, int]]:
    """Whole lines from this place in a file, and where they end: the file's number, and the place."""
    try:
        with path.open("rb") as file:
            number = os.fstat(file.fileno()).st_ino
            file.seek(first)
            data = file.read()
    except FileNotFoundError:  # rotated, or the app was reset
        return [], (0, 0)
    whole = data[: data.rfind(b"\n") + 1]
    return whole.decode(errors="replace").splitlines(), (number, first + len(whole))


def _since(file: Path, end: tuple[int, int]) -> tuple[list[str], tuple[int, int]]:
    """What was written since; also into a file that was rotated away meanwhile."""
    number, place = end
    with suppress(FileNotFoundError):
        if file.stat().st_ino == number:
            return _read(file, place)
        before = next((old for old in _older(file) if old.stat().st_ino == number), None)
        rest = [] if before is None else _read(before, place)[0]
        text, now = _read(file, 0)
        return [*rest, *text], now
    return [], end
