"""What a user writes about a topic of other programs, checked and made into an `IngressSpec`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from borealis_py.query.errors import QueryError, did_you_mean, unknown_column
from borealis_py.query.field_paths import FieldPath, parsed_path, why_unreadable
from borealis_py.query.formats import CSV, Avro, Debezium, Text, TopicFormat, format_of
from borealis_py.query.ingress_spec import (
    BOUNDARIES,
    INPUTS_MAX,
    KEY_FORMATS,
    STARTS,
    STIME_UNITS,
    BoundaryName,
    FormatName,
    IngressSpec,
    KeyFormatName,
    StartName,
    StimeUnit,
)
from borealis_py.query.times import check_format
from borealis_py.query.units import parse_duration

TEXT_TYPES = ("string", "binary")
"""Types of the only column of a text."""
STIME_TYPES = ("int64", "timestamp", "double", "decimal", "string", "date")
"""Column types that can hold a time."""
NUMBERS_TOO = ("int64", "double", "decimal", "string")
"""Those of them whose values may be numbers."""
KEY_TYPES: Mapping[str, type] = {"string": str, "int64": int, "bool": bool}
"""Column types by which a topic can be divided, and what their values are in Python."""
PARTITIONS_MOST = 100_000
"""More partitions than any topic has."""
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_CLUSTER = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,99}")


def ingress_of(
    source: str,
    schema: Mapping[str, str],
    paths: Mapping[str, FieldPath],
    *,
    topic: str,
    format: TopicFormat | FormatName,
    key: str | Sequence[str] | None,
    key_format: KeyFormatName | None,
    stime: str | None,
    stime_unit: StimeUnit,
    stime_format: str | None,
    stime_sql: str | None,
    lateness: str,
    boundary: BoundaryName,
    expect: str | None,
    heartbeat: str | None,
    by: str | None,
    values: Sequence[bool | int | str] | None,
    other: bool,
    start: StartName,
    cluster: str | None,
    partitions: int | None,
) -> IngressSpec:
    """The ingress that these arguments of `App.topic` mean.

    Args:
        schema: checked, with canonical types. paths: of columns that are not the fields of their names.

    Raises:
        QueryError: an argument makes no sense; the message names it and says what does.
    """
    where = f"topic {source!r}"
    _check_topic(topic, cluster, where)
    form = format_of(format, where)
    layout = layout_of(form, schema, where)
    _check_paths(paths, form, where)
    _check_time(stime, stime_unit, stime_format, stime_sql, schema, paths, form.name, where)
    _choose(boundary, BOUNDARIES, "boundary", where)
    _choose(start, STARTS, "start", where)
    _check_silence(boundary, expect, heartbeat, schema, where)
    named = _values(by, values, other, schema, where)
    spec = IngressSpec(
        topic=topic,
        cluster=cluster,
        **layout,
        paths=dict(paths),
        key=_key(key, key_format, by, form.name, schema, where),
        key_format=key_format,
        stime=stime,
        stime_unit=stime_unit,
        stime_format=stime_format,
        stime_sql=stime_sql,
        lateness_us=parse_duration(lateness, f"lateness of {where}", zero=True),
        boundary=boundary,
        expect_us=None if expect is None else parse_duration(expect, f"expect of {where}"),
        heartbeat=heartbeat,
        by=by,
        values=named,
        other=other,
        inputs=len(named) + other if named else 0,
        start=start,
    )
    if partitions is None:
        return spec
    _check_partitions(partitions, by, where)
    return spec.with_partitions(partitions)


def _check_topic(topic: object, cluster: object, where: str) -> None:
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise QueryError(
            f"{where}: topic={topic!r} is not the name of a Kafka topic: letters, digits, '.', '_' and '-', at most "
            "249 of them"
        )
    if cluster is not None and not (isinstance(cluster, str) and _CLUSTER.fullmatch(cluster)):
        raise QueryError(f"{where}: cluster={cluster!r}; give a name that stands under `clusters:` in borealis.yaml")


def _check_paths(paths: Mapping[str, FieldPath], form: TopicFormat, where: str) -> None:
    if paths and form.name in ("csv", "text"):
        instead = "CSV(fields=...) names the values of a line" if form.name == "csv" else "a text has no fields"
        raise QueryError(f"{where}: format={form.name!r} with a field of its own for {', '.join(paths)}: {instead}")
    if isinstance(form, Debezium) and form.op in paths:
        raise QueryError(f"{where}: column {form.op!r} takes the operation (op=), so it is no field")


def _check_silence(
    boundary: BoundaryName, expect: object, heartbeat: object, schema: Mapping[str, str], where: str
) -> None:
    if expect is not None and boundary == "data":
        raise QueryError(
            f"{where}: expect= goes with boundary='clock'; with 'data' an input is missing as soon as it is silent"
        )
    if heartbeat is not None and (not isinstance(heartbeat, str) or not heartbeat.strip()):
        raise QueryError(
            f"{where}: heartbeat={heartbeat!r}; give an SQL condition over {', '.join(schema)}, like \"kind = 'ping'\""
        )


def _check_partitions(partitions: object, by: str | None, where: str) -> None:
    if by is not None:
        raise QueryError(f"{where}: partitions= does not go with by=: there is one input for each of the values")
    if isinstance(partitions, bool) or not isinstance(partitions, int) or not 1 <= partitions <= PARTITIONS_MOST:
        raise QueryError(
            f"{where}: partitions={partitions!r}; give the topic's number of partitions, or leave it out: `up` asks "
            "the broker"
        )


def _choose(word: object, known: Sequence[str], what: str, where: str) -> None:
    if word not in known:
        hint = did_you_mean(str(word), known) or ";"
        raise QueryError(f"{where}: {what}={word!r}{hint} choose {' or '.join(known)}")


def _key(
    key: object, form: object, by: str | None, format: FormatName, schema: Mapping[str, str], where: str
) -> tuple[str, ...]:
    """The columns that keys hold."""
    if form is not None:
        _choose(form, KEY_FORMATS, "key_format", where)
    if key is None:
        if form is not None:
            raise QueryError(f'{where}: key_format={form!r} is of what key= names: give both, like key="id"')
        return ()
    names = (key,) if isinstance(key, str) else tuple(key) if isinstance(key, list | tuple) else ()
    if not names:
        raise QueryError(f'{where}: key={key!r}; give the name of a column, or several: key=["shop", "item"]')
    for name in names:
        if name not in schema:
            raise unknown_column(str(name), f"key of {where}", schema)
    if len(set(names)) < len(names):
        raise QueryError(f"{where}: key={key!r} has a column twice")
    if by is not None and by not in names:
        raise QueryError(
            f"{where}: key={key!r} with by={by!r}: a record without a value has a key alone, so nobody could tell "
            f"which input it is for. Leave one out, or choose by={names[0]!r}"
        )
    if format == "debezium":
        raise QueryError(
            f"{where}: key= does not go with format='debezium', whose deletes have a value: give Debezium(op=...)"
        )
    if form in ("text", "int") and len(names) > 1:
        raise QueryError(f"{where}: key_format={form!r} is one value, and key= names {len(names)} columns: name one")
    if form == "int" and schema[names[0]] != "int64":
        raise QueryError(f"{where}: key_format='int' is of int64 columns, and {names[0]!r} is a {schema[names[0]]}")
    return names


def _check_time(
    stime: object,
    unit: object,
    form: object,
    sql: object,
    schema: Mapping[str, str],
    paths: Mapping[str, FieldPath],
    format: FormatName,
    where: str,
) -> None:
    """The arguments that say where a row's time is."""
    if sql is not None:
        _check_stime_sql(sql, (stime, form), unit, schema, where)
    elif isinstance(stime, str) and stime.startswith("$"):
        _check_stime_path(stime, unit, form, schema, paths, format, where)
    else:
        _check_stime(stime, unit, form, schema, where)


def _check_stime_sql(
    text: object, others: tuple[object, object], unit: object, schema: Mapping[str, str], where: str
) -> None:
    """Which expressions give times, the engine knows."""
    if not isinstance(text, str) or not text.strip():
        raise QueryError(
            f"{where}: stime_sql={text!r}; give an SQL expression over {', '.join(schema)} for a timestamp, like "
            "\"CAST(day || ' ' || clock AS TIMESTAMP)\""
        )
    if any(one is not None for one in others) or unit != "us":
        raise QueryError(
            f"{where}: stime_sql= gives the time itself; stime=, stime_unit= and stime_format= are about a field with "
            "it: leave them out"
        )


def _check_stime_path(
    stime: str,
    unit: object,
    form: object,
    schema: Mapping[str, str],
    paths: Mapping[str, FieldPath],
    format: FormatName,
    where: str,
) -> None:
    if format in ("csv", "text"):
        raise QueryError(f"{where}: stime={stime!r} is a path, and format={format!r} has no fields: name a column")
    try:
        path = parsed_path(stime)
    except ValueError as exc:
        raise QueryError(f"{where}: stime={stime!r}: {exc}") from None
    if odd := next((name for name in path if why_unreadable(name)), None):
        raise QueryError(f"{where}: stime={stime!r}: field {odd!r}: {why_unreadable(odd)}")
    for column, kind in schema.items():
        of = paths.get(column, (column,))
        if of == path:
            raise QueryError(f"{where}: stime={stime!r} is the field of column {column!r}: write stime={column!r}")
        if path[: len(of)] == of and kind != "json":
            raise QueryError(
                f"{where}: stime={stime!r} is a field within column {column!r}, which can then only be json, not {kind}"
            )
        if of[: len(path)] == path:
            raise QueryError(f"{where}: stime={stime!r} is an object, as column {column!r} is a field within it")
    _choose(unit, STIME_UNITS, "stime_unit", where)
    if form is not None and unit != "us":
        raise QueryError(f"{where}: stime_unit= is about numbers and stime_format= about texts: leave one out")
    if form is not None:
        check_format(form, f"{where}: stime_format")


def _check_stime(stime: object, unit: object, form: object, schema: Mapping[str, str], where: str) -> None:
    _choose(unit, STIME_UNITS, "stime_unit", where)
    if stime is None:
        if unit != "us":
            raise QueryError(
                f"{where}: stime_unit={unit!r} is the unit of the column that stime= names; without stime= a row's "
                "time is its record's timestamp in Kafka"
            )
        if form is not None:
            raise QueryError(f"{where}: stime_format={form!r} is about the column that stime= names: name it")
        return
    if not isinstance(stime, str) or stime not in schema:
        raise unknown_column(str(stime), f"stime of {where}", schema)
    kind = schema[str(stime)].partition("(")[0]
    if kind not in STIME_TYPES:
        raise QueryError(
            f"{where}: stime={stime!r} is a {kind}; a row's time is a column of {' or '.join(STIME_TYPES)}"
        )
    if kind not in NUMBERS_TOO and unit != "us":
        raise QueryError(f"{where}: stime_unit={unit!r} is about numbers, and {stime!r} is a {kind}: leave it out")
    if form is None:
        return
    if kind != "string":
        raise QueryError(f"{where}: stime_format={form!r} is about text, and {stime!r} is a {kind}: make it a string")
    if unit != "us":
        raise QueryError(f"{where}: stime_unit= is about numbers and stime_format= about texts: leave one out")
    check_format(form, f"{where}: stime_format")


def _values(
    by: object, values: object, other: object, schema: Mapping[str, str], where: str
) -> tuple[bool | int | str, ...]:
    """The values that have an input of their own."""
    if not isinstance(other, bool):
        raise QueryError(f"{where}: other={other!r}; give True or False")
    if by is None and values is None:
        if not other:
            raise QueryError(f"{where}: other=False is about values that values= does not name: give by= and values=")
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
    if len(values) + other > INPUTS_MAX:
        raise QueryError(
            f"{where}: {len(values)} values are too many: each is an input, all others are one more (unless "
            f"other=False), and there are at most {INPUTS_MAX}"
        )
    return tuple(values)


def layout_of(form: TopicFormat, schema: Mapping[str, str], where: str) -> dict[str, Any]:
    """The fields of an `IngressSpec` that a format means.

    Args:
        schema: with canonical types. where: whose they are, for messages.

    Raises:
        QueryError: an option names no column or a wrong one, or the schema does not suit the format.
    """
    found: dict[str, Any] = {"format": form.name}
    match form:
        case CSV():
            if form.fields is not None:
                found["fields"] = _checked_fields(form.fields, schema, where)
            found |= {"delimiter": form.delimiter, "nulls": tuple(form.nulls or ())}
        case Avro():
            found["writer_schema"] = form.writer_schema
        case Debezium():
            if form.op is not None:
                _check_op(form.op, schema, where)
            found |= {"op": form.op, "decimals": form.decimals}
        case Text():
            _check_text(schema, where)
    return found


def _check_text(schema: Mapping[str, str], where: str) -> None:
    if len(schema) != 1 or next(iter(schema.values())) not in TEXT_TYPES:
        raise QueryError(
            f"{where}: format='text' is the whole record as one column of {' or '.join(TEXT_TYPES)}, like "
            f"schema={{'line': 'string'}}; this schema has {', '.join(f'{n}: {k}' for n, k in schema.items())}"
        )


def _checked_fields(fields: Sequence[str], schema: Mapping[str, str], where: str) -> tuple[str, ...]:
    twice = next((name for name in schema if fields.count(name) > 1), None)
    if twice is not None:
        raise QueryError(f"{where}: fields has {twice!r} twice")
    absent = [name for name in schema if name not in fields]
    if absent:
        raise QueryError(
            f"{where}: the schema has {', '.join(map(repr, absent))}, which fields= does not name: every column is a "
            "value of a line"
        )
    return tuple(fields)


def _check_op(op: str, schema: Mapping[str, str], where: str) -> None:
    if op not in schema:
        raise unknown_column(op, f"op of {where}", schema)
    if schema[op] != "string":
        raise QueryError(f"{where}: op={op!r} is a {schema[op]}; the operation (c, u, r or d) is a string")
