"""Files of commands and what each is expected to print, after cockroachdb/datadriven and the test data of etcd's raft.

# prose
command name=value name=value
more lines of the command
----
what it prints, up to the next empty line
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

RULE = "----"
TESTDATA = Path(__file__).parents[1] / "testdata"


def transcripts() -> list[Path]:
    """The files, by name."""
    return sorted(TESTDATA.glob("*.txt"))


class TranscriptError(ValueError):
    """A file of commands cannot be read or run; the message names file and line."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `body`: its lines after the first. `at`: file and line, for messages."""

    name: str
    args: Mapping[str, str]
    body: tuple[str, ...]
    at: str


@dataclass(frozen=True, slots=True)
class Step:
    """A command, its text in the file with the prose before it, and the output that the file expects."""

    command: Command
    text: str
    expected: str


def parse(path: Path) -> list[Step]:
    """The steps of a file, in order. Raises TranscriptError."""
    steps: list[Step] = []
    text: list[str] = []
    words: list[str] = []
    output: list[str] | None = None
    at = ""
    for number, line in enumerate([*path.read_text().splitlines(), ""], 1):
        if output is not None and line:
            output.append(line)
        elif output is not None:
            steps.append(Step(_command(words, at or f"{path.name}:{number}"), "\n".join(text), "\n".join(output)))
            text, words, output, at = [line], [], None, ""
        else:
            text.append(line)
            if line == RULE:
                output = []
            elif line and not line.startswith("#"):
                at = at if words else f"{path.name}:{number}"
                words.append(line)
    if words or not steps:
        raise TranscriptError(f"{at or path.name}: no line {RULE} after the command")
    if any(text):
        raise TranscriptError(f"{path.name}: text after the last command, which nothing prints")
    return steps


def _command(words: list[str], at: str) -> Command:
    if not words:
        raise TranscriptError(f"{at}: a line {RULE} without a command before it")
    name, *args = words[0].split()
    pairs = [arg.partition("=") for arg in args]
    bad = [arg for arg, (_, sign, _) in zip(args, pairs, strict=True) if not sign]
    if bad:
        raise TranscriptError(f"{at}: {bad[0]!r} is not name=value")
    return Command(name, {key: value for key, _, value in pairs}, tuple(words[1:]), at)


def prose(path: Path) -> str:
    """What a file says before its first command."""
    lines = path.read_text().splitlines()
    commands = (i for i, line in enumerate(lines) if line and not line.startswith("#"))
    return "\n".join(line.removeprefix("#").strip() for line in lines[: next(commands, len(lines))])


def replay(path: Path, run: Callable[[Command], str]) -> str:
    """The text of the file as it is when each command prints what `run` returns. Raises TranscriptError."""
    return "\n".join(f"{step.text}\n{run(step.command)}" for step in parse(path)) + "\n"
