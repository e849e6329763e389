"""What a sample of a topic of other programs shows: format, fields, times, and the call that reads it. Pure.

A sample proves nothing of what comes later: what it says are suggestions, with the numbers that they rest on.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from borealis_py.log.base import Record
from borealis_py.observe.topic_formats import SampledFormat, recognised
from borealis_py.protocol.settings import Timing
from borealis_py.query.field_paths import column_for, path_text, why_unreadable
from borealis_py.query.formats import KINDS, given_options, written
from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START, is_column_name
from borealis_py.query.times import NoTime, TimeForm
from borealis_py.query.units import DURATION_MAX_US, OUR_DAYS_US, TIME_UNITS, format_duration
from borealis_py.types.spelling import parse_type
from borealis_py.types.values import NUMBER, TEXT_MAX, Misfit, rules, sent

NEAR_US = 366 * 86_400_000_000
"""A time field is at most this far from its records' Kafka timestamps; otherwise it is data, like a birthday."""
LATENESSES_US = (
    *(ms * 1_000 for ms in (500, 1_000, 2_000, 5_000, 10_000, 30_000)),
    *(m * 60_000_000 for m in (1, 5, 15)),
    *(h * 3_600_000_000 for h in (1, 2, 6, 12)),
    *(d * 86_400_000_000 for d in (1, 2, 7, 30, 90, 366)),
)
"""Latenesses to suggest; the last is the longest that there is."""
AHEAD_MAX_US = Timing().ahead_max_us
INT64_MAX = 2**63 - 1
PRECISION, PRECISION_MAX = 18, 38
"""Digits of a decimal to suggest, and the most there are."""
_TIME = re.compile(
    r"[0-9]{4}[-/][0-9]{2}[-/][0-9]{2}[Tt ][0-9]{2}:[0-9]{2}|(?:[A-Z][a-z]{2}, )?[0-9]{1,2} [A-Z][a-z]{2} [0-9]{4} "
)
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}$")
_NAMED = re.compile(
    r"(?:^|[_.-])(?:ts|at|time|date|when|timestamp|datetime)$|(?:time|date|stamp|At|Ts)$", re.IGNORECASE
)
"""Names that people give to fields with times."""
_TIMED = ("int64", "timestamp", "double", "string", "decimal")
"""Types of fields that may hold a row's time."""


@dataclass(frozen=True, slots=True)
class FieldSurvey:
    """The field `name` of the objects of a sample. `type`: the column type that holds all its values; None: none does,
    and `why` tells. `present`: in how many records; `null`: in how many of them it is null. `column`: what a column of
    it can be called; "": not found out yet."""

    name: str
    type: str | None
    present: int
    null: int
    why: str = ""
    column: str = ""


@dataclass(frozen=True, slots=True)
class SampledLateness:
    """How long after its time a record came, in microseconds: median (`p50_us`), 99th percentile (`p99_us`), and the
    most that was seen (`most_us`)."""

    p50_us: int
    p99_us: int
    most_us: int


@dataclass(frozen=True, slots=True)
class TopicSurvey:
    """What a sample shows of `topic`.

    `partitions`: how many the topic has. `records`: how many were looked at. `format`: as `App.topic` takes it, or what
    else it looks like; `options`: of the format, by name. `unusable`: records not in this format. `fields`: of the
    others. `rate`: records per second, of all partitions together; None: too few to tell. `stime`, `unit`: the field
    with a record's time, and what it counts; None: none looks like one, so Kafka's timestamp is taken. `lateness`: by
    that time; None: no records. `gap_us`: the longest time between two records of a partition, by Kafka's timestamps
    (microseconds); None: too few to tell. `passed_over`: where `stime` is None, the fields that look like times, and
    why none of them is one.
    """

    topic: str
    partitions: int
    records: int
    format: str
    options: Mapping[str, Any]
    unusable: int
    fields: tuple[FieldSurvey, ...]
    rate: float | None
    stime: str | None
    unit: str
    lateness: SampledLateness | None
    gap_us: int | None
    passed_over: tuple[str, ...] = ()

    @property
    def lateness_us(self) -> int:
        """The lateness to suggest: half as much again as the most that was seen, but none that no app can have."""
        most = 0 if self.lateness is None else self.lateness.most_us * 3 // 2
        return next((us for us in LATENESSES_US if us >= most), DURATION_MAX_US)

    @property
    def too_late(self) -> str:
        """That records come later than any lateness allows, for people; "": none did."""
        if self.lateness is None or self.lateness.most_us <= DURATION_MAX_US:
            return ""
        most = format_duration(DURATION_MAX_US)
        return (
            f"some records came more than {most} after their time, and no lateness= is longer: they would be dead "
            f"letters. Read them from another field with their time, or as a table of files"
        )

    def call(self, cluster: str | None = None) -> str:
        """The call to paste into an app's file, after the import that its format needs; "": no app can read it."""
        columns = [one for one in self.fields if one.type is not None]
        if self.format not in KINDS or not columns:
            return ""
        schema = ", ".join(f'"{one.column}": {_kind_and_field(one)}' for one in columns)
        form = KINDS[self.format](**self.options)
        said = [] if self.format == "json" else [f"format={written(form)}"]
        needed = f"from borealis_py import {type(form).__name__}\n" if given_options(form) else ""
        timed = [f'stime="{one.column}", stime_unit="{self.unit}"' for one in columns if one.name == self.stime]
        elsewhere = [f'cluster="{cluster}"'] if cluster else []
        rest = [
            *said,
            *timed,
            f'lateness="{format_duration(self.lateness_us)}"',
            *elsewhere,
            f"partitions={self.partitions}",
        ]
        name = source_name(self.topic)
        indent = " " * (len(variable(name)) + len(" = app.topic("))
        return (
            f'{needed}{variable(name)} = app.topic("{name}", topic="{self.topic}",\n{indent}schema={{{schema}}},\n'
            f"{indent}{', '.join(rest)})"
        )


def source_name(topic: str) -> str:
    """A name for the source: the last part of the topic's that can be one."""
    parts = [part for part in topic.split(".") if re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]{0,99}", part)]
    return parts[-1] if parts else "topic"


def variable(name: str) -> str:
    """A Python name for the stream."""
    return re.sub(r"[^A-Za-z0-9_]", "_", name)


def survey(topic: str, partitions: int, records: Sequence[Record], found: SampledFormat | None = None) -> TopicSurvey:
    """Survey a sample.

    Args:
        records: of any partitions, each partition's in order.
        found: their format; None: it is to be recognised.
    """
    found = found or recognised(records)
    objects = _with_times([one for one in found.objects if one is not None], found.types or {})
    rows = [record for record, one in zip(records, found.objects, strict=True) if one is not None]
    fields = _named([*_by_schema(objects, found.types or {}), *_fields(objects, found.types or {})])
    stime, unit = _time_field(fields, objects, rows)
    times = [_us(one[stime], unit) if stime else r.timestamp_ms * 1_000 for one, r in zip(objects, rows, strict=True)]
    return TopicSurvey(
        topic=topic,
        partitions=partitions,
        records=len(records),
        format=found.name,
        options=found.options,
        unusable=len(records) - len(objects),
        fields=fields,
        rate=_rate(records),
        stime=stime,
        unit=unit,
        lateness=_lateness(rows, times),
        gap_us=_gap_us(records),
        passed_over=() if stime else tuple(_passed_over(fields, objects)),
    )


def _fields(objects: Iterable[Mapping[str, Any]], known: Collection[str]) -> list[FieldSurvey]:
    """The fields that the objects show, but those that are `known`."""
    values: dict[str, list[object]] = {}
    for one in objects:
        for name, value in one.items():
            if name not in known:
                values.setdefault(name, []).append(value)
    return [_field(name, Counter(map(_kind, own)), [v for v in own if v is not None]) for name, own in values.items()]


def _named(found: Sequence[FieldSurvey]) -> tuple[FieldSurvey, ...]:
    """With names for their columns: their own, unless SQL takes no such name, or would not tell it from another's."""
    taken = {STIME, WINDOW_START, WINDOW_END}
    named: dict[str, str] = {}
    usual = [one for one in found if is_column_name(one.name) and not one.name.startswith("__")]
    for one in [*usual, *(one for one in found if one not in usual)]:
        base = one.name if one in usual else column_for(one.name)
        names = itertools.chain([base], (f"{base}_{n}" for n in itertools.count(2)))
        named[one.name] = next(name for name in names if name.lower() not in taken)
        taken.add(named[one.name].lower())
    known = [replace(one, column=named[one.name]) for one in found]
    return tuple(replace(one, type=None, why=why) if (why := why_unreadable(one.name)) else one for one in known)


def _kind_and_field(one: FieldSurvey) -> str:
    field = path_text((one.name,))
    return f'"{one.type}"' if one.column == one.name else f'("{one.type}", {json.dumps(field, ensure_ascii=False)})'


def _by_schema(objects: Sequence[Mapping[str, Any]], types: Mapping[str, tuple[str | None, str]]) -> list[FieldSurvey]:
    """The fields that schemas name. A record has null where its own schema has none."""
    return [
        FieldSurvey(name, kind, len(objects), sum(one.get(name) is None for one in objects) if kind else 0, why)
        for name, (kind, why) in types.items()
    ]


def _with_times(objects: Sequence[Mapping[str, Any]], known: Collection[str]) -> Sequence[Mapping[str, Any]]:
    """The objects with times and dates in place of the texts that spell them, in fields that have nothing else."""
    texts: dict[str, list[object]] = {}
    for one in objects:
        for name, value in one.items():
            if value is not None and name not in known:
                texts.setdefault(name, []).append(value)
    readers = {name: read for name, values in texts.items() if (read := _reader_of(values)) is not None}
    if not readers:
        return objects
    return [
        {name: readers[name](value) if name in readers and value is not None else value for name, value in one.items()}
        for one in objects
    ]


def _reader_of(values: Sequence[object]) -> Callable[[str], datetime | date] | None:
    for pattern, rule in ((_TIME, rules(parse_type("timestamp"))), (_DATE, rules(parse_type("date")))):
        if rule is not None and all(isinstance(value, str) and pattern.match(value) for value in values):
            try:
                for value in values:
                    sent(rule, value)
            except Misfit:
                return None
            return lambda value, rule=rule: rule.read(str(sent(rule, value)))  # type: ignore[misc]
    return None


def _kind(value: object) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if -INT64_MAX - 1 <= value <= INT64_MAX else "large integer"
    if isinstance(value, str) and len(value) <= TEXT_MAX and NUMBER.fullmatch(value):
        return "number as text"
    if isinstance(value, dict | list):
        return "json"
    return {float: "double", str: "string", datetime: "timestamp", date: "date"}.get(type(value), "unknown")


def _field(name: str, seen: Counter[str], values: Sequence[object]) -> FieldSurvey:
    null, kinds = seen["null"], set(seen) - {"null"}
    present = seen.total()

    def unfit(why: str) -> FieldSurvey:
        return FieldSurvey(name, None, present, null, why)

    if not kinds:
        return unfit("it is null in all records")
    if kinds == {"int64", "double"}:
        kinds = {"double"}
    elif kinds <= {"string", "number as text"}:
        kinds = {"string"}  # texts of digits alone may be names
    elif "number as text" in kinds and kinds <= {"int64", "large integer", "double", "number as text"}:
        kinds = {_decimal_of(values)}
    elif "json" in kinds:
        kinds = {"json"}
    kinds = {"string" if kind == "number as text" else kind for kind in kinds}
    if len(kinds) > 1:
        return unfit(f"its values are of several types: {', '.join(sorted(kinds))}")
    (kind,) = kinds
    if kind in ("large integer", "unknown"):
        return unfit(f"its values are {kind}s, for which there is no column type")
    return FieldSurvey(name, kind, present, null)


def _decimal_of(values: Iterable[object]) -> str:
    """The decimal type that holds these numbers, with room for larger ones."""
    whole = scale = 0
    for value in values:
        _, digits, exponent = Decimal(str(value)).as_tuple()
        scale = max(scale, -int(exponent))
        whole = max(whole, len(digits) + int(exponent))
    return f"decimal({min(PRECISION_MAX, max(PRECISION, whole + scale))},{scale})"


def _us(value: object, unit: str) -> int:
    found = TimeForm(unit, named=True).us(value)
    return 0 if found is None else found


def _unit_of(value: object) -> str | None:
    """In which unit a value is a time of our days."""
    if isinstance(value, datetime):
        return "us"
    if isinstance(value, str) and not (len(value) <= TEXT_MAX and NUMBER.fullmatch(value.strip())):
        return None
    return next((unit for unit in TIME_UNITS if _in_our_days(value, unit)), None)


def _in_our_days(value: object, unit: str) -> bool:
    try:
        return _us(value, unit) in OUR_DAYS_US
    except NoTime:
        return False


def _may_be_timed(one: FieldSurvey) -> bool:
    return one.type is not None and one.type.partition("(")[0] in _TIMED


def _time_field(
    fields: Iterable[FieldSurvey], objects: Sequence[Mapping[str, Any]], records: Sequence[Record]
) -> tuple[str | None, str]:
    """The field whose values are times, in every record, closest to the records' own timestamps; and its unit."""
    best: tuple[int, str, str] | None = None
    for one in fields:
        if not _may_be_timed(one) or one.null or one.present < len(objects):
            continue
        units = {_unit_of(o[one.name]) for o in objects}
        unit = units.pop()
        if units or unit is None:
            continue
        apart = sorted(
            abs(r.timestamp_ms * 1_000 - _us(o[one.name], unit)) for o, r in zip(objects, records, strict=True)
        )
        if apart[-1] <= NEAR_US and (best is None or apart[len(apart) // 2] < best[0]):
            best = apart[len(apart) // 2], one.name, unit
    return (None, "us") if best is None else best[1:]


def _passed_over(fields: Iterable[FieldSurvey], objects: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Fields that look like times, of which none could be taken, and why."""
    for one in fields:
        values = [o[one.name] for o in objects if o.get(one.name) is not None]
        units = {_unit_of(value) for value in values}
        named = _NAMED.search(one.name) is not None
        if not values or (one.type is not None and not _may_be_timed(one) and not named):
            continue
        if units == {None} or len(units) > 1 or not _may_be_timed(one):
            if named and one.type == "string":
                yield f'{one.name}, like {values[0]!r:.60}: name its form, stime_format="..."'
            elif named:
                yield f"{one.name}, like {values[0]!r:.60}: it is no time that stime= could name"
        elif gone := len(objects) - len(values):
            yield f"{one.name}, in {units.pop()}: {gone} of {len(objects)} records have none, and would be dead letters"
        else:
            yield f"{one.name}, in {units.pop()}: some lie over a year from when their records were written"


def _by_partition(records: Iterable[Record]) -> dict[int, list[Record]]:
    found: dict[int, list[Record]] = {}
    for record in records:
        found.setdefault(record.feed.partition, []).append(record)
    return found


def _rate(records: Sequence[Record]) -> float | None:
    """Records per second: the sum over the partitions, each by its own sample."""
    rates = []
    for part in _by_partition(records).values():
        times = [record.timestamp_ms for record in part]
        span_ms = max(times) - min(times)
        if span_ms > 0:
            rates.append((len(part) - 1) * 1_000 / span_ms)
    return sum(rates) if rates else None


def _lateness(records: Sequence[Record], times: Sequence[int]) -> SampledLateness | None:
    """A record came at the latest timestamp of its partition so far, at the earliest: Kafka does not tell more. An
    ingress also takes it for late by the times of the rows before it, where a producer's clock is ahead; not by those
    that are so far ahead that they are refused."""
    if not records:
        return None
    latest: dict[int, int] = {}
    late = []
    for record, stime in zip(records, times, strict=True):
        p = record.feed.partition
        latest[p] = max(latest.get(p, record.timestamp_ms * 1_000), record.timestamp_ms * 1_000)
        late.append(max(0, latest[p] - stime))
        if stime < latest[p] + AHEAD_MAX_US:
            latest[p] = max(latest[p], stime)
    late.sort()
    return SampledLateness(late[len(late) // 2], late[min(len(late) - 1, len(late) * 99 // 100)], late[-1])


def _gap_us(records: Sequence[Record]) -> int | None:
    gaps = []
    for part in _by_partition(records).values():
        latest = part[0].timestamp_ms
        for record in part[1:]:
            gaps.append(max(0, record.timestamp_ms - latest))
            latest = max(latest, record.timestamp_ms)
    return max(gaps) * 1_000 if gaps else None
