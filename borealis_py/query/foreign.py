"""What a user writes about a topic of other programs, checked and made into an `IngressSpec`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from borealis_py.query.errors import QueryError, did_you_mean, unknown_column
from borealis_py.query.ingress_spec import (
    BOUNDARIES,
    FORMATS,
    INPUTS_MAX,
    STARTS,
    STIME_UNITS,
    BoundaryName,
    FormatName,
    IngressSpec,
    StartName,
    StimeUnit,
)
from borealis_py.query.layout import layout_of
from borealis_py.query.units import parse_duration

STIME_TYPES = ("int64", "timestamp")
"""Column types that hold a time."""
KEY_TYPES: Mapping[str, type] = {"string": str, "int64": int, "bool": bool}
"""Column types by which a topic can be divided, and what their values are in Python."""
PARTITIONS_MOST = 100_000
"""More partitions than any topic has."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_CLUSTER = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")


def ingress_of(
    source: str,
    schema: Mapping[str, str],
    *,
    topic: str,
    format: FormatName,
    fields: Sequence[str] | None,
    delimiter: str | None,
    writer_schema: str | Mapping[str, Any] | None,
    op: str | None,
    key: str | None,
    stime: str | None,
    stime_unit: StimeUnit,
    lateness: str,
    boundary: BoundaryName,
    expect: str | None,
    heartbeat: str | None,
    by: str | None,
    values: Sequence[bool | int | str] | None,
    start: StartName,
    cluster: str | None,
    partitions: int | None,
) -> IngressSpec:
    """The ingress that these arguments of `App.topic` mean.

    Args:
        schema: checked, with canonical types.

    Raises:
        QueryError: an argument makes no sense; the message names it and says what does.
    """
    where = f"topic {source!r}"
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise QueryError(
            f"{where}: topic={topic!r} is not the name of a Kafka topic: letters, digits, '.', '_' and '-', at most "
            "249 of them"
        )
    if cluster is not None and not (isinstance(cluster, str) and _CLUSTER.fullmatch(cluster)):
        raise QueryError(f"{where}: cluster={cluster!r}; give a name that stands under `clusters:` in borealis.yaml")
    _choose(format, FORMATS, "format", where)
    layout = layout_of(format, schema, where, fields, delimiter, writer_schema, op)
    _check_stime(stime, stime_unit, schema, where)
    _choose(boundary, BOUNDARIES, "boundary", where)
    _choose(start, STARTS, "start", where)
    if expect is not None and boundary == "data":
        raise QueryError(
            f"{where}: expect= goes with boundary='clock'; with 'data' an input is missing as soon as it is silent"
        )
    if heartbeat is not None and (not isinstance(heartbeat, str) or not heartbeat.strip()):
        raise QueryError(
            f"{where}: heartbeat={heartbeat!r}; give an SQL condition over {', '.join(schema)}, like \"kind = 'ping'\""
        )
    named = _values(by, values, schema, where)
    if key is not None:
        _check_key(key, by, format, schema, where)
    spec = IngressSpec(
        topic=topic,
        cluster=cluster,
        format=format,
        **layout,
        key=key,
        stime=stime,
        stime_unit=stime_unit,
        lateness_us=parse_duration(lateness, f"lateness of {where}", zero=True),
        boundary=boundary,
        expect_us=None if expect is None else parse_duration(expect, f"expect of {where}"),
        heartbeat=heartbeat,
        by=by,
        values=named,
        inputs=len(named) + 1 if named else 0,
        start=start,
    )
    if partitions is None:
        return spec
    if by is not None:
        raise QueryError(f"{where}: partitions= does not go with by=: there is one input for each of the values")
    if isinstance(partitions, bool) or not isinstance(partitions, int) or not 1 <= partitions <= PARTITIONS_MOST:
        raise QueryError(
            f"{where}: partitions={partitions!r}; give the topic's number of partitions, or leave it out: `up` asks "
            "the broker"
        )
    return spec.with_partitions(partitions)


def _choose(word: object, known: Sequence[str], what: str, where: str) -> None:
    if word not in known:
        hint = did_you_mean(str(word), known) or ";"
        raise QueryError(f"{where}: {what}={word!r}{hint} choose {' or '.join(known)}")


def _check_key(key: object, by: str | None, format: FormatName, schema: Mapping[str, str], where: str) -> None:
    if not isinstance(key, str) or key not in schema:
        raise unknown_column(str(key), f"key of {where}", schema)
    if by not in (None, key):
        raise QueryError(
            f"{where}: key={key!r} with by={by!r}: a record without a value has a key alone, so nobody could tell "
            f"which input it is for. Leave one out, or choose by={key!r}"
        )
    if format == "debezium":
        raise QueryError(f"{where}: key= does not go with format='debezium', whose deletes have a value: give op=")


def _check_stime(stime: object, unit: object, schema: Mapping[str, str], where: str) -> None:
    _choose(unit, STIME_UNITS, "stime_unit", where)
    if stime is None:
        if unit != "us":
            raise QueryError(
                f"{where}: stime_unit={unit!r} is the unit of the column that stime= names; without stime= a row's "
                "time is its record's timestamp in Kafka"
            )
        return
    if not isinstance(stime, str) or stime not in schema:
        raise unknown_column(str(stime), f"stime of {where}", schema)
    kind = schema[str(stime)]
    if kind not in STIME_TYPES:
        raise QueryError(
            f"{where}: stime={stime!r} is a {kind}; a row's time is a column of {' or '.join(STIME_TYPES)}"
        )
    if kind == "timestamp" and unit != "us":
        raise QueryError(f"{where}: stime_unit={unit!r} is about numbers, and {stime!r} is a timestamp: leave it out")


def _values(by: object, values: object, schema: Mapping[str, str], where: str) -> tuple[bool | int | str, ...]:
    """The values that have an input of their own."""
    if by is None and values is None:
        return ()
    if by is None or values is None:
        raise QueryError(f'{where}: by and values go together: by="shop", values=["berlin", "paris"]')
    if by not in schema:
        raise unknown_column(str(by), f"by of {where}", schema)
    kind = schema[str(by)]
    if kind not in KEY_TYPES:
        raise QueryError(f"{where}: by={by!r} is a {kind}; divide by a column of {', '.join(KEY_TYPES)}")
    if isinstance(values, str | bytes) or not isinstance(values, Sequence) or not values:
        raise QueryError(f'{where}: values={values!r}; give a list of values of {by!r}, like ["berlin", "paris"]')
    wrong = next((v for v in values if type(v) is not KEY_TYPES[kind]), None)
    if wrong is not None:
        raise QueryError(f"{where}: values has {wrong!r}, but {by!r} is a {kind}")
    if len(set(values)) < len(values):
        raise QueryError(f"{where}: values={values!r} has a value twice")
    if len(values) >= INPUTS_MAX:
        raise QueryError(
            f"{where}: {len(values)} values are too many: each is an input, all others are one more, and there are at "
            f"most {INPUTS_MAX}"
        )
    return tuple(values)
