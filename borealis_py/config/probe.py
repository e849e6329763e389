"""Checks that checkpoints can be written to a location, before a replica relies on it.

A separate process tries locations beyond this machine: clients of object stores retry for minutes, cannot be stopped,
and keep their process from ending meanwhile.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from borealis_py.node.checkpoint_storage import (
    CheckpointLocation,
    LocalLocation,
    LocationError,
    in_short,
    location_at,
    without_query,
)
from borealis_py.node.checkpoint_topic import KAFKA

ANSWER_S = 30.0
"""Time limit of the process, the start of its interpreter included."""
NAME = ".probe.tmp"
_TAIL = 200


def check_writable(uri: str, content: str = "") -> None:
    """Write a file there and remove it again. Of `kafka` nothing is tried: without the app's topics nothing starts.

    Args:
        uri: of pyarrow.fs, or `kafka`.
        content: what to write. An empty file shows that the location exists, but can be written to a full disk.

    Raises:
        LocationError: that fails or takes more than `ANSWER_S`.
    """
    if uri == KAFKA:
        return
    location_at(uri)
    why = _asked(uri, content)
    if why:
        needs = "(a bucket must be created first) and is writable, with space left"
        raise LocationError(_told(without_query(uri), why, needs, "checkpoints"))


def check_directory(directory: Path, content: str = "") -> None:
    """Likewise for a directory of this machine, which is created if it does not exist. Raises LocationError."""
    why = attempt(LocalLocation(directory), content, str(directory))
    if why:
        raise LocationError(_told(str(directory), why, "and is writable, with space left", "data_dir"))


def attempt(place: CheckpointLocation, content: str, uri: str) -> str:
    """Try it here. Returns why the location cannot be written; "": it can."""
    try:
        place.prepare()
        place.write(NAME, content.encode())
        place.remove(NAME)
    except OSError as exc:
        return in_short(exc, uri)
    return ""


def _asked(uri: str, content: str) -> str:
    """Likewise in a process, which gets the URI on standard input, as command lines would show its keys."""
    child = [sys.executable, "-m", "borealis_py.config.probe"]
    task = json.dumps([uri, content])
    try:
        done = subprocess.run(child, input=task, capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {ANSWER_S:g} s"
    try:
        return str(json.loads(done.stdout))
    except ValueError:
        return f"the process that tried ended with code {done.returncode}: {done.stderr.strip()[-_TAIL:]}"


def _told(where: str, why: str, needs: str, setting: str) -> str:
    return (
        f"checkpoints cannot be written at {where}: {why}. Make sure that it exists {needs}, or name another location: "
        f"`{setting}:` in borealis.yaml"
    )


def main() -> None:
    """The process: reads [uri, content] as JSON from standard input, writes the reason or "" to standard output."""
    uri, content = json.load(sys.stdin)
    json.dump(attempt(location_at(uri), content, uri), sys.stdout)


if __name__ == "__main__":
    main()
