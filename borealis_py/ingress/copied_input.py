"""How far one input of an ingress has come, for those who watch."""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass

from borealis_py.ingress.foreign_topic import ForeignTopic
from borealis_py.ingress.input_writer import InputWriter


@dataclass(frozen=True, slots=True)
class CopiedInput:
    """One input of an owner. `boundary`: the last one promised. `lag`: records that have not been copied yet, of
    all partitions that it waits for; None: the broker did not tell an end of theirs. `rows`: copied; `rejected`:
    made dead letters, `late` of them because they were late; all since the owner began to own. `unreadable`:
    partitions that cannot be read now. `given_up`: those that it does not wait for. `waits_for`: what a partition's
    records need to be decoded; "": nothing. `too_far`: partitions whose next row waits for the boundary (B53).
    `misread`: how times of refused rows seem to be read wrong; "": nothing says so."""

    boundary: int
    lag: int | None
    rows: int
    rejected: int
    late: int
    unreadable: tuple[int, ...]
    given_up: tuple[int, ...] = ()
    waits_for: str = ""
    misread: str = ""
    too_far: tuple[int, ...] = ()

    @classmethod
    def of(
        cls,
        writer: InputWriter,
        feeders: Iterable[int],
        topic: ForeignTopic,
        missing: Iterable[int],
        given_up: Container[int],
    ) -> CopiedInput:
        """From what its owner holds. `missing`: partitions of the topic that cannot be read."""
        fed = tuple(feeders)
        own = tuple(p for p in fed if p not in given_up)
        lags = [_lag(p, topic) for p in own]
        known = [lag for lag in lags if lag is not None]
        return cls(
            writer.boundary,
            sum(known) if len(known) == len(lags) else None,
            writer.rows,
            writer.rejected,
            writer.late,
            tuple(p for p in missing if p in own),
            tuple(p for p in fed if p in given_up),
            next((queue.waits_for for p in own if (queue := topic.queues.get(p)) and queue.waits_for), ""),
            writer.misread,
            tuple(p for p in fed if (queue := topic.queues.get(p)) and queue.too_far),
        )


def _lag(partition: int, topic: ForeignTopic) -> int | None:
    told, queue = topic.ends.get(partition), topic.queues.get(partition)
    return None if told is None or told.committed is None or queue is None else max(0, told.committed - queue.copied)
