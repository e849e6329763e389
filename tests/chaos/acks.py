"""What publishers and producers were told is in the log, from the file in which they note it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from tests.chaos.arena import Arena


def acknowledged(it: Arena) -> dict[str, int]:
    """By source, the last row."""
    out: dict[str, int] = {}
    path = it.cluster.directory / "acks.jsonl"
    for line in path.read_text().rpartition("\n")[0].splitlines() if path.exists() else ():
        entry = json.loads(line)
        out[entry["source"]] = max(out.get(entry["source"], -1), entry["acknowledged"])
    return out


def speak(it: Arena, sources: Sequence[str], since: Mapping[str, int]) -> bool:
    """Whether newer rows of all of them are acknowledged."""
    now = acknowledged(it)
    return all(now.get(s, -1) > since.get(s, -1) for s in sources)


def speaks(it: Arena, sources: Sequence[str], since: Mapping[str, int]) -> bool:
    """Whether newer rows of one of them are."""
    now = acknowledged(it)
    return any(now.get(s, -1) > since.get(s, -1) for s in sources)
