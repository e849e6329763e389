"""A source's schema from a class: a pydantic model, a dataclass or a TypedDict. Pure.

class Order(BaseModel):
    item: str
    euros: Annotated[Decimal, "decimal(12,2)"]      # or Field(max_digits=12, decimal_places=2)
    at: datetime

orders = app.source("orders", schema=Order)
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from borealis_py.query.errors import QueryError
from borealis_py.query.field_paths import path_text
from borealis_py.query.names import is_column_name
from borealis_py.types.spelling import UnknownType, parse_type

_OF_CLASS = {
    ("builtins", "str"): "string",
    ("builtins", "int"): "int64",
    ("builtins", "float"): "double",
    ("builtins", "bool"): "bool",
    ("builtins", "bytes"): "binary",
    ("datetime", "datetime"): "timestamp",
    ("datetime", "date"): "date",
    ("decimal", "Decimal"): "decimal",
    ("pydantic.types", "AwareDatetime"): "timestamp",
}
"""By name: this package knows no clock, and so does not import datetime."""
_JSON: tuple[Any, ...] = (dict, list, Mapping, Sequence, Any)
_DIGITS = "say how many digits it has: Annotated[Decimal, 'decimal(12,2)'], or Field(max_digits=12, decimal_places=2)"


def columns_of(schema: object, where: str) -> Mapping[str, Any]:
    """The columns that a schema names, with their types, or their types and fields: a mapping as it is, of a class its
    fields.

    Args:
        where: whose schema it is, for messages.

    Raises:
        QueryError: it is neither, or a field is of a type that no column has.
    """
    if isinstance(schema, Mapping):
        return schema
    if not isinstance(schema, type) or not _has_fields(schema):
        raise QueryError(
            f"{where}: schema={schema!r}; "
            "give a dict of columns and types, a pydantic model, a dataclass or a TypedDict"
        )
    found = {}
    for name, annotation, metadata, field in _fields(schema, where):
        kind = _kind(annotation, metadata)
        if kind is None or kind == "decimal":
            written = getattr(annotation, "__name__", None) if isinstance(annotation, type) else str(annotation)
            why = _DIGITS if kind else f"no column has that type: name one, as in Annotated[{written}, 'string']"
            raise QueryError(f"field {name!r} of {schema.__name__}, the schema of {where}, is {written}; {why}")
        field = next((text for text in _flat(_told(annotation, metadata)) if _is_field(text)), field)
        found[name] = kind if field is None else (kind, field)
    return found


def _told(annotation: Any, metadata: Iterable[Any]) -> list[Any]:
    """What is annotated."""
    return [*(get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()), *metadata]


def _is_field(told: object) -> bool:
    """Whether it says which field of a topic's records a column is."""
    return isinstance(told, str) and told.startswith("$")


def _has_fields(kind: Any) -> bool:
    return (
        (isinstance(kind, type) and issubclass(kind, BaseModel)) or dataclasses.is_dataclass(kind) or is_typeddict(kind)
    )


def _fields(schema: type, where: str) -> Iterator[tuple[str, Any, Iterable[Any], str | None]]:
    """(column, annotation, what is annotated, field). A pydantic alias is the column's name, since JSON has it; one
    that no column can have is its field alone."""
    if issubclass(schema, BaseModel):
        for name, field in schema.model_fields.items():
            alias = field.alias or name
            column, path = (alias, None) if is_column_name(alias) else (name, path_text((alias,)))
            yield column, field.annotation, field.metadata, path
        return
    try:
        hints = get_type_hints(schema, include_extras=True)
    except NameError as exc:
        raise QueryError(f"{where}: the annotations of {schema.__name__} cannot be read: {exc}") from exc
    names = [f.name for f in dataclasses.fields(schema)] if dataclasses.is_dataclass(schema) else list(hints)
    yield from ((name, hints[name], (), None) for name in names)


def _kind(annotation: Any, metadata: Iterable[Any] = ()) -> str | None:
    """The column type of an annotation; "decimal" where its digits are not said; None: there is none."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(arguments[0], [*arguments[1:], *metadata])
    if origin in (Union, types.UnionType):
        others = [argument for argument in arguments if argument is not type(None)]
        return _kind(others[0], metadata) if len(others) == 1 else None
    told = list(_flat(metadata))
    named = next((text for text in told if isinstance(text, str) and _is_type(text)), None)
    if named is not None:
        return named
    if annotation in _JSON or origin in _JSON or _has_fields(annotation):
        return "json"
    kind = _OF_CLASS.get((getattr(annotation, "__module__", ""), getattr(annotation, "__qualname__", "")))
    if kind == "decimal":
        return next((found for one in told if (found := _digits(one))), kind)
    return kind


def _flat(metadata: Iterable[Any]) -> Iterator[Any]:
    for one in metadata:
        yield from one.metadata if isinstance(one, FieldInfo) else (one,)


def _is_type(text: str) -> bool:
    """Whether an annotated text means a type, right or wrong; it may also be a remark."""
    try:
        parse_type(text)
    except UnknownType as exc:
        return bool(str(exc))
    return True


def _digits(constraint: Any) -> str | None:
    precision, scale = (getattr(constraint, name, None) for name in ("max_digits", "decimal_places"))
    return None if precision is None or scale is None else f"decimal({precision},{scale})"
