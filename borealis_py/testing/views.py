"""What a live subscriber of a world was shown, and when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

from borealis_py.client.subscriber import LiveChange, live_change
from borealis_py.log.codec import RowCodec
from borealis_py.observe.live_view import forgets, worth_showing
from borealis_py.query.spec import AppSpec
from sunion.view import Change


@dataclass(frozen=True, slots=True)
class ShownChange(LiveChange):
    """A `LiveChange`, and when a subscriber was shown it.

    `shown_us`: the world's time then, microseconds since 1970. `delay_us`: how long after the end of the last of its
    buckets that was, in microseconds; None after the sources' end, which has no time.
    """

    shown_us: int = 0
    delay_us: int | None = None


class LiveLog:
    """Everything that the live subscribers of one query were shown.

    Args:
        codec: of the query's rows.
        end_us: when a bucket ends; None: never.
    """

    def __init__(self, spec: AppSpec, query: str, codec: RowCodec, end_us: Callable[[int], int | None]) -> None:
        self._spec = spec
        self._query = query
        self._codec = codec
        self._end_us = end_us
        self._seen: list[tuple[int, int, Change]] = []
        self._certain: bool | None = None

    def add(self, now_us: int, partition: int, changes: Sequence[Change]) -> None:
        """Note what a subscriber is shown now."""
        self._seen += [(now_us, partition, change) for change in changes if worth_showing(change)]

    def shown(self) -> list[ShownChange]:
        """All of it so far."""
        if self._certain is None:
            self._certain = forgets(self._spec, self._query)
        return [self._one(at_us, partition, change) for at_us, partition, change in self._seen]

    def _one(self, at_us: int, partition: int, change: Change) -> ShownChange:
        told = live_change(change, self._codec, bool(self._certain), partition)
        end_us = self._end_us(change.end - 1)
        same = {field.name: getattr(told, field.name) for field in fields(LiveChange)}
        return ShownChange(**same, shown_us=at_us, delay_us=None if end_us is None else at_us - end_us)
