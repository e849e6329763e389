"""The second node of a chain, fed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from borealis_py.protocol.incarnation import Heartbeat, Identity, StartPoint
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.settings import NodeDelays, Timing
from borealis_py.protocol.turn import Append, AskEnds, Effect, Turn
from sunion.model import Input, Output, SourceRecord, StableBucket, StableRange, StreamRecord, TentativeBucket
from tests.protocol.toy import MS, TIMING
from tests.sunion.lists import FRAGMENT, W
from tests.support.managers import toy_config

D = 2_000 * MS - TIMING.slack_us


STREAM = Input("up", 2, ("a", "b"))


def manager(
    *inputs: Input, start: StartPoint | None = None, timing: Timing = TIMING, replica: int = 0, **more: Any
) -> Manager:
    """Of a node that reads these inputs, at the origin unless `start` says otherwise; `more` of its `ManagerConfig`."""
    return Manager(
        toy_config(*inputs, timing=timing, **more),
        identity=Identity(replica, 1, "u"),
        start=start or StartPoint(0, FRAGMENT.initial()),
        delays=NodeDelays(D),
    )


class Node:
    """The second node of a chain, fed by hand: stream `up` of two replicas, and perhaps source `c`."""

    def __init__(self, *inputs: Input, timing: Timing = TIMING, **more: Any) -> None:
        self.manager = manager(*inputs, timing=timing, position=2, **more)
        self.said: list[StreamRecord] = []
        self.offset = 0

    def at(
        self,
        now: int,
        *stream: tuple[int, StreamRecord],
        source: Sequence[SourceRecord] = (),
        index: int = 1,
        beats: Sequence[tuple[int, Heartbeat]] = (),
    ) -> list[Effect]:
        """Turns at `now` until all is said: everything that is there has been read and is acknowledged."""
        effects, streams, inputs = [], {0: stream} if stream else {}, {index: source} if source else {}
        read_to = None
        for _ in range(20):
            acked = 10**9 if self.said else None
            turn = Turn(now, inputs=inputs, streams=streams, beats=beats, read_to=read_to, acked=acked)
            found = self.manager.handle(turn)
            effects += found
            self.said += [e.record for e in found if isinstance(e, Append)]
            streams, inputs, beats = {}, {}, ()
            read_to = now if any(isinstance(e, AskEnds) for e in found) else None
            if not found:
                break
        return effects

    def tentative(self) -> list[TentativeBucket]:
        return [r for r in self.said if isinstance(r, TentativeBucket)]

    def stable_end(self) -> int:
        return max(
            (r.end if isinstance(r, StableRange) else r.bucket + 1 for r in self.said if _is_stable(r)), default=0
        )


def _is_stable(record: StreamRecord) -> bool:
    return isinstance(record, StableBucket | StableRange)


def rows(bucket: int, value: int = 5) -> Output:
    return Output(((bucket * W, value),))


def stable(bucket: int, held: int = 0) -> StableBucket:
    return StableBucket(1, bucket, rows(bucket), held)


def tentative(
    bucket: int, *missing_sources: str, held: int = 0, completeness: float = 0.5, inc: int = 1
) -> TentativeBucket:
    return TentativeBucket(
        inc=inc,
        bucket=bucket,
        output=rows(bucket, 9),
        missing_sources=missing_sources,
        missing=missing_sources,
        waited_us=held,
        completeness=completeness,
        diverged_from=bucket,
    )
