"""What a user writes about the format of a foreign topic's records, beyond its name: arguments of single formats."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from borealis_py.query.errors import QueryError, unknown_column
from borealis_py.query.ingress_spec import DECIMALS

TEXT_TYPES = ("string", "binary")
"""Types of the only column of a text."""


def layout_of(
    format: str,
    schema: Mapping[str, str],
    where: str,
    fields: Sequence[str] | None,
    delimiter: str | None,
    nulls: Sequence[str] | None,
    writer_schema: str | Mapping[str, Any] | None,
    op: str | None,
    decimals: str | None,
) -> dict[str, Any]:
    """The fields of an `IngressSpec` that these arguments mean.

    Args:
        format: a known one. schema: with canonical types. where: whose they are, for messages.

    Raises:
        QueryError: an argument of another format, or one that makes no sense.
    """
    given = (
        ("fields", fields, "csv"), ("delimiter", delimiter, "csv"), ("nulls", nulls, "csv"),
        ("writer_schema", writer_schema, "avro"), ("op", op, "debezium"), ("decimals", decimals, "debezium"),
    )  # fmt: skip
    for name, value, of in given:
        if value is not None and format != of:
            raise QueryError(f"{where}: {name}= is about format={of!r}, this is {format!r}")
    if format == "text":
        _check_text(schema, where)
    found: dict[str, Any] = {}
    if fields is not None:
        found["fields"] = _fields(fields, schema, where)
    if delimiter is not None:
        found["delimiter"] = _delimiter(delimiter, where)
    if nulls is not None:
        found["nulls"] = checked_nulls(nulls, where)
    if writer_schema is not None:
        found["writer_schema"] = _writer_schema(writer_schema, where)
    if op is not None:
        found["op"] = _op(op, schema, where)
    if decimals is not None:
        if decimals not in DECIMALS:
            raise QueryError(
                f"{where}: decimals={decimals!r}; choose text, where the connector writes numbers as text, or base64, "
                "where it writes their bytes with as many digits after the point as the columns have"
            )
        found["decimals"] = decimals
    return found


def _check_text(schema: Mapping[str, str], where: str) -> None:
    if len(schema) != 1 or next(iter(schema.values())) not in TEXT_TYPES:
        raise QueryError(
            f"{where}: format='text' is the whole record as one column of {' or '.join(TEXT_TYPES)}, like "
            f"schema={{'line': 'string'}}; this schema has {', '.join(f'{n}: {k}' for n, k in schema.items())}"
        )


def _fields(fields: object, schema: Mapping[str, str], where: str) -> tuple[str, ...]:
    if isinstance(fields, str | bytes) or not isinstance(fields, Sequence) or not fields:
        raise QueryError(
            f'{where}: fields={fields!r}; give the names of the values of a line in order, like ["id", "at"]'
        )
    wrong = next((name for name in fields if not isinstance(name, str)), None)
    if wrong is not None:
        raise QueryError(f"{where}: fields has {wrong!r}, which is no name")
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


def _op(op: object, schema: Mapping[str, str], where: str) -> str:
    if not isinstance(op, str) or op not in schema:
        raise unknown_column(str(op), f"op of {where}", schema)
    if schema[op] != "string":
        raise QueryError(f"{where}: op={op!r} is a {schema[op]}; the operation (c, u, r or d) is a string")
    return op


def checked_nulls(nulls: object, where: str) -> tuple[str, ...]:
    """Values of CSV that are null, in one order: which comes first says nothing. Raises QueryError."""
    some = () if isinstance(nulls, str | bytes) or not isinstance(nulls, Sequence) else tuple(nulls)
    if not some or not all(isinstance(one, str) and one for one in some):
        raise QueryError(f'{where}: nulls={nulls!r}; give values of CSV that mean null, like ["NA"]; an empty one does')
    return tuple(sorted(set(some)))


def _delimiter(delimiter: object, where: str) -> str:
    if not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '"\r\n\0':
        raise QueryError(f"{where}: delimiter={delimiter!r}; give one character, like ';', other than a quotation mark")
    return delimiter


def _writer_schema(schema: object, where: str) -> str:
    """As text in one form. What the schema says is checked where Avro is known (`ingress.formats`)."""
    try:
        told = json.loads(schema) if isinstance(schema, str) else schema
        text = json.dumps(told, separators=(",", ":")) if isinstance(told, Mapping) else ""
    except (ValueError, TypeError, RecursionError):
        text = ""
    if not text:
        raise QueryError(
            f"{where}: writer_schema= is not the Avro schema of a record; give it as JSON text or as a dict, like "
            '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
        )
    return text
