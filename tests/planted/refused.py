"""Planted in what keeps a log from refusing records: times that any clock may write, and sizes that fit (4.3, 4.5)."""

from __future__ import annotations

from typing import Any
from unittest import mock

from borealis_py.log import topics
from borealis_py.log.stream import StreamEncoder
from tests.planted.bug import Bug
from tests.planted.worlds import Worlds


def _without(config: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    return tuple((name, value) for name, value in config if name not in dict(topics.ANY_TIME))


def _the_clusters_bounds_of_time() -> Any:
    return mock.patch.multiple(topics, SHORT=_without(topics.SHORT), COMPACTED=_without(topics.COMPACTED))


def _outputs_in_one_part() -> Any:
    def parts(self: StreamEncoder, rows: Any) -> list[bytes]:
        return [b""] if rows is None else [self._codec.encode(rows)]

    return mock.patch.object(StreamEncoder, "_parts", parts)


BUGS = (
    Bug(
        "A5 topics take records of any time",
        "liveness",
        _the_clusters_bounds_of_time,
        Worlds(("wall_clock",), ("convergence", "delay", "end", "buffers"), found=1, seeds=20),
    ),
    Bug(
        "A3 an output that is too large for a record is split",
        "liveness",
        _outputs_in_one_part,
        Worlds(("big",), ("convergence", "end", "delay"), found=1, seeds=20),
    ),
)
