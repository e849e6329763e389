"""A redo as a value: what to recompute, from which state, out of which ranges of the log (R4.3, B3, B4)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from sunion.model import Output, State
from sunion.source import SourceFold
from sunion.units import Bucket, Offset


@dataclass(frozen=True, slots=True)
class SourceRange:
    """Offsets [first, end) of input `index`, and the fold before `first`.

    Offsets alone would misread fenced and duplicate records (B3). The replica itself had read up to `end`.
    """

    index: int
    first: Offset
    end: Offset
    fold: SourceFold


@dataclass(frozen=True, slots=True, kw_only=True)
class RedoJob:
    """Run buckets [first, end) on `state`.

    Attributes:
        id: grows with each job of an incarnation.
        ranges: where the log has the rows of each source.
        rows: how many input rows the replica counted in these buckets.
        peer: take over this replica's checkpoint at `end` instead, with what it emitted for the buckets (B44);
            None: run them.
        deadline_us: for how long it is waited for, from its start; None: not limited.
    """

    id: int
    first: Bucket
    end: Bucket
    state: State
    ranges: tuple[SourceRange, ...]
    rows: int
    peer: int | None = None
    deadline_us: int | None = None


MEASURED = 0
"""Id of a job without buckets that only measures how long a job takes: below those of all others."""


class RedoPlace(Enum):
    """How a job is done: on Spark; in this process, which reads the log again; or with a peer's checkpoint."""

    SPARK = "spark"
    LOG = "log"
    PEER = "peer"


@dataclass(frozen=True, slots=True)
class RedoDone:
    """The result of job `id`: the `state` at its end, and `outputs` by bucket; those without output are left out.
    `engine`: "spark", "inline" or "peer". `seconds`: how long it took there."""

    id: int
    state: State
    outputs: Mapping[int, Output]
    engine: str
    seconds: float


@dataclass(frozen=True, slots=True)
class RedoFailed:
    """Job `id` failed for the human-readable `reason`. `lost`: the log no longer holds what it needs (retention)."""

    id: int
    reason: str
    lost: bool = False


RedoResult = RedoDone | RedoFailed
