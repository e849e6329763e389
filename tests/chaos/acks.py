"""Whether publishers and producers go on: what the log acknowledged to them grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.chaos.arena import Arena


def speak(it: Arena, sources: Sequence[str], since: Mapping[str, int]) -> bool:
    """Whether newer rows of all of them are acknowledged."""
    now = it.cluster.acknowledged()
    return all(now.get(s, -1) > since.get(s, -1) for s in sources)


def speaks(it: Arena, sources: Sequence[str], since: Mapping[str, int]) -> bool:
    """Whether newer rows of one of them are."""
    now = it.cluster.acknowledged()
    return any(now.get(s, -1) > since.get(s, -1) for s in sources)
