"""Whether checkpoints can be written at a place, found out before a replica relies on it.

What lies beyond this machine is tried by a process of its own: clients of object stores repeat for minutes what fails,
cannot be stopped, and let no process end meanwhile.
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

ANSWER_S = 30.0
"""An interpreter starts in it, too."""
NAME = ".probe.tmp"
_TAIL = 200


def check_writable(uri: str, content: str = "") -> None:
    """Write something there and remove it again.

    Args:
        uri: of pyarrow.fs.
        content: what to write. Nothing finds out whether there is a place at all, and passes on a disk that is full.

    Raises:
        LocationError: that is not possible, or takes more than `ANSWER_S`.
    """
    location_at(uri)
    why = _asked(uri, content)
    if why:
        needs = "(a bucket has to be made) and may be written, with space left"
        raise LocationError(_told(without_query(uri), why, needs, "checkpoints"))


def check_directory(directory: Path, content: str = "") -> None:
    """The same for a directory of this machine, which is made if it is not there. Raises LocationError."""
    why = attempt(LocalLocation(directory), content, str(directory))
    if why:
        raise LocationError(_told(str(directory), why, "and may be written, with space left", "data_dir"))


def attempt(place: CheckpointLocation, content: str, uri: str) -> str:
    """Why it cannot be written; "": it can."""
    try:
        place.prepare()
        place.write(NAME, content.encode())
        place.remove(NAME)
    except OSError as exc:
        return in_short(exc, uri)
    return ""


def _asked(uri: str, content: str) -> str:
    """The same by a process, which is handed the URI where nobody sees its keys."""
    child = [sys.executable, "-m", "borealis_py.node.probe"]
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
        f"checkpoints cannot be written at {where}: {why}. See that it is there {needs}, or name another place: "
        f"`{setting}:` in borealis.yaml"
    )


def main() -> None:
    """The process: a task on standard input, the answer on standard output."""
    uri, content = json.load(sys.stdin)
    json.dump(attempt(location_at(uri), content, uri), sys.stdout)


if __name__ == "__main__":
    main()
