"""Reads what is in a corrected stream now, and ends; values as Python has them.

A subscription follows a stream until its sources have ended, which may be never. This reads up to the ends that the
stream has when it is asked, and knows no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from borealis_py.client.subscriber import CorrectedGap, Row, corrected_rows
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log
from borealis_py.log.corrected import read_gap
from borealis_py.log.description import Life
from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import rules

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LIST = "list of "
"""What the type of a column of lists begins with."""
Read = Callable[[Any], Any]
"""From a value as JSON has it, not null, to the one that Python has."""


@dataclass(frozen=True, slots=True)
class TypedRow:
    """A row of the corrected stream, with values as Python has them. `id` is "bucket:index"; `stime` the row's time, in
    UTC. `value`: its columns by name: Decimal, datetime (in UTC), date, bytes, and for json what `json.loads` makes of
    it; `window_start` and `window_end` are datetimes, too. `partition`: of the query; ids are unique within each."""

    id: str
    stime: datetime
    value: dict[str, Any]
    partition: int = 0


@dataclass(frozen=True, slots=True)
class CorrectedExtent:
    """What lies in the corrected stream of a query at one time: [first, end) of the rows (`rows`) and of the progress
    (`progress`) of each partition, in offsets of committed records. `app_uid`: the app's life, whose gaps count."""

    app_uid: str
    rows: Mapping[Feed, tuple[int, int]]
    progress: Mapping[Feed, tuple[int, int]]


def extent_of(log: Log, app: str, app_uid: str, parts: Sequence[str]) -> CorrectedExtent:
    """What lies there now. Raises LogError.

    Args:
        parts: the query's name, or those of its partitions.
    """
    with closing(log.lookup()) as lookup:
        # progress first: it is written with its rows, so that a gap that is known lies among rows that are
        progress = {feed: lookup.bounds(feed) for feed in (Feed(topics.progress(app, part)) for part in parts)}
        rows = {feed: lookup.bounds(feed) for feed in (topics.corrected(app, part) for part in parts)}
    return CorrectedExtent(app_uid, rows, progress)


def read_extent(log: Log, extent: CorrectedExtent) -> Iterator[Row | CorrectedGap]:
    """The rows of an extent, partition by partition, each in order, after its gaps.

    Raises:
        OffsetGone: the app was begun anew meanwhile. LogError.
    """
    life = Life(extent.app_uid)
    with closing(log.lookup()) as lookup:
        for (feed, rows), (told, progress) in zip(extent.rows.items(), extent.progress.items(), strict=True):
            for record in lookup.read(told, *progress):
                if (lost := read_gap(record, life)) is not None:
                    yield CorrectedGap(lost.first, lost.end, feed.partition)
            yield from corrected_rows(lookup.read(feed, *rows))


def typed(found: Iterator[Row | CorrectedGap], columns: Mapping[str, str]) -> Iterator[TypedRow | CorrectedGap]:
    """The same with values as Python has them.

    Args:
        columns: the type of each column of the result, as `types.arrow.spelled` writes it.
    """
    reads = {name: read for name, kind in columns.items() if (read := _reader(name, kind)) is not None}
    for one in found:
        if isinstance(one, CorrectedGap):
            yield one
            continue
        value = dict(one.value)
        for name, read in reads.items():
            if value.get(name) is not None:
                value[name] = read(value[name])
        yield TypedRow(one.id, _time(one.stime), value, one.partition)


def _reader(name: str, kind: str) -> Read | None:
    """How values of a column are read; None: JSON has them as Python does."""
    if kind.startswith(LIST):
        inner = _reader("", kind.removeprefix(LIST))
        return None if inner is None else lambda values: [None if one is None else inner(one) for one in values]
    if name in (STIME, WINDOW_START, WINDOW_END) and kind == "int64":
        return _time
    type_ = parse_type(kind)
    rule = rules(type_)
    if rule is None or type_.kind == "json":
        return None
    return rule.read if type_.kind != "timestamp" else lambda form: _utc(rule.read(form))


def _time(us: int) -> datetime:
    return EPOCH + timedelta(microseconds=us)


def _utc(value: object) -> datetime:
    assert isinstance(value, datetime)
    return value.replace(tzinfo=UTC)
