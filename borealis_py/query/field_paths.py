"""Which field of a record a column is, where it is not the one of its name. Pure.

schema={"at": ("timestamp", "@timestamp"), "lat": ("double", "$.geo.lat"), "user": ("int64", '$.user["user-id"]')}
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from typing import Any

from borealis_py.query.errors import QueryError
from borealis_py.query.names import is_column_name

FieldPath = tuple[str, ...]
"""Names of fields, each in the object that the one before it holds."""
NAMES_MAX = 32
"""Names of a path."""
COLUMN_MAX = 60
_UNREADABLE = re.compile(r'["\\\x00-\x1f]')
"""What the decoder of JSON takes in no field's name."""
_STEP = re.compile(r"""\.([^.\[\]"'\s]+)|\[("(?:[^"\\]|\\.)*")\]|\['([^']*)'\]""")


def parsed_path(text: str) -> FieldPath:
    """A field's name; or, after "$", the way to it: `$.geo.lat`, `$["a b"].c`.

    Raises:
        ValueError: it is neither; the message says why.
    """
    if not text.startswith("$"):
        if not text:
            raise ValueError('it is empty; a field without a name is $[""]')
        return (text,)
    names: list[str] = []
    at = 1
    while at < len(text):
        step = _STEP.match(text, at)
        if step is None:
            raise ValueError(_why(text[at:]))
        plain, quoted, single = step.groups()
        try:
            names.append(plain or single or (json.loads(quoted) if quoted is not None else ""))
        except ValueError:
            raise ValueError(f"{quoted} is no text of JSON") from None
        at = step.end()
    if not names:
        raise ValueError('it is the whole record: name a field, like "$.geo.lat"')
    if len(names) > NAMES_MAX:
        raise ValueError(f"it is more than {NAMES_MAX} names deep")
    return tuple(names)


def _why(rest: str) -> str:
    if re.match(r"\[\d", rest):
        return "it takes an element of a list: read the list as a json column, and take its element in map()"
    return f'{rest!r} is not understood: write .name or ["a name"]'


def path_text(path: FieldPath) -> str:
    """A path as `parsed_path` reads it."""
    if len(path) == 1 and path[0] and not path[0].startswith("$"):
        return path[0]
    plain = (_STEP.fullmatch(f".{name}") is not None for name in path)
    steps = (f".{n}" if p else f"[{json.dumps(n, ensure_ascii=False)}]" for n, p in zip(path, plain, strict=True))
    return "$" + "".join(steps)


def why_unreadable(name: str) -> str:
    """Why no column can be a field of this name; "": one can."""
    if not _UNREADABLE.search(name):
        return ""
    return (
        "a quotation mark, a backslash or a control character is in its name: read what it is in as a json column, and "
        "take it in map()"
    )


def column_for(field: str) -> str:
    """A column's name after that of a field."""
    letters = unicodedata.normalize("NFKD", field.replace("ß", "ss")).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9]+", "_", letters).strip("_")[:COLUMN_MAX]
    return name if is_column_name(name) else f"field_{name}".rstrip("_")


def split_schema(schema: Mapping[str, Any], where: str) -> tuple[dict[str, Any], dict[str, FieldPath]]:
    """The types of a topic's columns, and the fields of those that are not named as their field is.

    Args:
        schema: column -> type, or (type, field).
        where: whose it is, for messages.

    Raises:
        QueryError: a field that cannot be, or that two columns name; a name that no column can have.
    """
    types: dict[str, Any] = {}
    paths: dict[str, FieldPath] = {}
    for column, kind in schema.items():
        types[column] = kind
        if isinstance(kind, tuple | list):
            if len(kind) != 2 or not all(isinstance(one, str) for one in kind):
                raise QueryError(
                    f"column {column!r} of {where} is {kind!r}; give its type, or its type and field: "
                    '("double", "$.geo.lat")'
                )
            types[column] = kind[0]
            try:
                path = parsed_path(kind[1])
            except ValueError as exc:
                raise QueryError(f"column {column!r} of {where}: field {kind[1]!r}: {exc}") from None
            if odd := next((name for name in path if why_unreadable(name)), None):
                raise QueryError(f"column {column!r} of {where}: field {odd!r}: {why_unreadable(odd)}")
            if path != (column,):
                paths[column] = path
        elif isinstance(column, str) and not is_column_name(column):
            name = column_for(column)
            raise QueryError(
                f"column name {column!r} in {where}: use letters, digits and '_', not starting with a digit, and say "
                f"which field it is: {{{name!r}: ({kind!r}, {column!r})}}"
            )
    _check_apart(types, paths, where)
    return types, paths


def _check_apart(types: Mapping[str, Any], paths: Mapping[str, FieldPath], where: str) -> None:
    """No field is two columns, nor both a value and an object with others."""
    of: dict[FieldPath, str] = {}
    for column in types:
        path = paths.get(column, (column,))
        if path in of:
            raise QueryError(f"{where}: columns {of[path]!r} and {column!r} are both the field {path_text(path)!r}")
        of[path] = column
    for path, column in of.items():
        for depth in range(1, len(path)):
            outer = of.get(path[:depth])
            if outer is not None and types[outer] != "json":
                raise QueryError(
                    f"{where}: column {column!r} is a field within {path_text(path[:depth])!r}, so column {outer!r} "
                    f"can only be json, not {types[outer]}"
                )
