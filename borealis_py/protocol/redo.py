"""A redo as a value: what to recompute, from which state, out of which ranges of the log (R4, B3, B4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from sunion.model import Output, State
from sunion.source import SourceFold


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Offsets [first, end) of input `index`, and the fold before `first`.

    Offsets alone would misread fenced and duplicate records (B3). `end` is what the replica itself had read.
    """

    index: int
    first: int
    end: int
    fold: SourceFold


@dataclass(frozen=True, slots=True)
class RedoJob:
    """Run buckets [first, end) on `state`. `rows`: how many input rows the replica counted in them.

    `peer`: instead, take over that replica's checkpoint at `end`, and what it said of the buckets (B44).
    """

    id: int
    first: int
    end: int
    state: State
    ranges: tuple[SourceRange, ...]
    rows: int
    peer: int | None = None


class RedoPlace(Enum):
    """Who runs a job: Spark; this process, which reads the log again; or nobody, since a peer's checkpoint is taken."""

    SPARK = "spark"
    LOG = "log"
    PEER = "peer"


@dataclass(frozen=True, slots=True)
class RedoDone:
    """The answer to job `id`. `engine`: "spark", "inline" or "peer"."""

    id: int
    state: State
    outputs: Mapping[int, Output]
    engine: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RedoFailed:
    """Job `id` will not answer; `reason` is for people. `lost`: the log no longer has what it needs (retention)."""

    id: int
    reason: str
    lost: bool = False


RedoResult = RedoDone | RedoFailed
