"""What a format's options mean beside a schema: fields of an `IngressSpec`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from borealis_py.query.errors import QueryError, unknown_column
from borealis_py.query.formats import CSV, Avro, Debezium, Text, TopicFormat

TEXT_TYPES = ("string", "binary")
"""Types of the only column of a text."""


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
