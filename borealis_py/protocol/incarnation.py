"""One life of a replica: who it is, where it begins, when it has caught up, what it has said (B30, R11)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from borealis_py.protocol.control import ControlFold
from sunion.model import Output, RowOps, State
from sunion.union import Mark


@dataclass(frozen=True, slots=True)
class Identity:
    """Which replica this is: index, incarnation number and random process id (B30)."""

    replica: int
    inc: int
    uid: str


@dataclass(frozen=True, slots=True)
class StartPoint:
    """Where to begin: a checkpoint's content, or the origin with the fragment's initial state.

    A checkpoint of a peer may be ahead of the own topic, which `own` is the first bucket not in: then `outputs` has
    what the peer said of [own, bucket), to be said first, so that the own topic has no hole (B2).
    """

    bucket: int
    state: State
    marks: tuple[Mark, ...] | None = None
    own: int | None = None
    outputs: Mapping[int, Output] = field(default_factory=dict)


@dataclass(slots=True)
class RowCounts:
    """What has left this incarnation, for status."""

    stable_rows: int = 0
    tentative_rows: int = 0
    stable_buckets: int = 0
    tentative_buckets: int = 0

    def stable(self, outputs: Mapping[int, Output], ops: RowOps) -> None:
        """Buckets with output are said as stable."""
        self.stable_buckets += len(outputs)
        self.stable_rows += sum(ops.count(o.rows) for o in outputs.values() if o.rows is not None)

    def tentative(self, output: Output, ops: RowOps) -> None:
        """A bucket is said as tentative."""
        self.tentative_buckets += 1
        self.tentative_rows += 0 if output.rows is None else ops.count(output.rows)


class Recovery:
    """RECOVERING ends at a fixed goal: what the live peers had reached when this incarnation was first heard."""

    def __init__(self) -> None:
        self.recovering = True
        self._goal: int | None = None

    def done(self, control: ControlFold, f_l: int, busy: bool) -> bool:
        """True once: recovering ends now.

        Args:
            busy: inputs not read to their end since the start, complete buckets to run, or output not acknowledged.
        """
        if not self.recovering:
            return False
        if self._goal is None and control.echoed:
            peers = [p.beat for p in control.live_peers() if not p.beat.recovering]
            self._goal = max((b.ack_l for b in peers), default=f_l)
        if self._goal is None or busy or f_l < self._goal:
            return False
        self.recovering = False
        return True
