"""What a JSON Schema says of an object's fields, as the types of columns that hold them. Pure.

It is asked for suggestions alone, so it is read loosely: keywords that name types are followed through references and
combinations, those that narrow values are passed over. Of what it says nothing about, nothing is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote, urljoin

from borealis_py.types.values import JSON_LEVELS_MAX, nesting

STEPS_MAX = 10_000
"""Schemas looked at for one text; one that refers to itself by several ways at once would have no end."""
_TYPES: Mapping[str, str] = {
    "integer": "int64", "number": "double", "boolean": "bool", "object": "json", "array": "json",
}  # fmt: skip
_FORMATS: Mapping[str, str] = {"date-time": "timestamp", "date": "date"}
"""Of a string, by `format`."""
_OF_VALUES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", list: "array"}
_COMBINED = ("allOf", "anyOf", "oneOf")


class UnreadableSchema(ValueError):
    """It is no JSON Schema that can be followed; the message says why."""


def fields_of(text: str, references: Iterable[tuple[str, str]] = ()) -> dict[str, frozenset[str]]:
    """The column types that may hold each field that a schema describes, in its order; null is left out, and a field
    of which it says nothing has none.

    Args:
        text: of the schema.
        references: (name, text) of the schemas that it refers to by name or by `$id`.

    Raises:
        UnreadableSchema: it is no JSON, nested too deeply, or refers to too many schemas.
    """
    return _Reader(_parsed(text), {name: _parsed(one) for name, one in references}).fields()


def _parsed(text: str) -> Any:
    if nesting(text.encode()) > JSON_LEVELS_MAX:
        raise UnreadableSchema(f"it is nested more than {JSON_LEVELS_MAX} levels deep")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as exc:
        raise UnreadableSchema(f"it is no JSON: {exc}") from None


class _Reader:
    """Args: `root`: the schema. `others`: those that it may refer to, by name."""

    def __init__(self, root: Any, others: Mapping[str, Any]) -> None:
        self._root = root
        self._documents = {**{_id(one): one for one in (*others.values(), root)}, **others, "": root}
        self._steps = 0

    def fields(self) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for base, schema in self._alternatives(self._root, _id(self._root), frozenset()):
            properties = schema.get("properties")
            for name, one in properties.items() if isinstance(properties, dict) else ():
                found[name] = found.get(name, frozenset()) | self._columns(one, base)
        return found

    def _columns(self, schema: Any, base: str) -> frozenset[str]:
        return frozenset(kind for _, one in self._alternatives(schema, base, frozenset()) for kind in _own(one))

    def _alternatives(self, schema: Any, base: str, on_the_way: frozenset[int]) -> Iterator[tuple[str, dict[str, Any]]]:
        """This schema and all that it refers to or is combined of, each with the address of its document."""
        self._steps += 1
        if self._steps > STEPS_MAX:
            raise UnreadableSchema(f"it refers to more than {STEPS_MAX} schemas")
        if not isinstance(schema, dict) or id(schema) in on_the_way:
            return  # true and false say nothing of types; what refers to itself adds nothing
        on_the_way |= {id(schema)}
        yield base, schema
        if isinstance(reference := schema.get("$ref"), str):
            where, target = self._referred(reference, base)
            yield from self._alternatives(target, where, on_the_way)
        for keyword in _COMBINED:
            several = schema.get(keyword)
            for one in several if isinstance(several, list) else ():
                yield from self._alternatives(one, base, on_the_way)

    def _referred(self, reference: str, base: str) -> tuple[str, Any]:
        """What a reference in the document at `base` leads to, and its document's address; None: it leads nowhere."""
        address, _, pointer = reference.partition("#")
        where = base if not address else address if address in self._documents else _joined(base, address)
        if where not in self._documents or pointer[:1] not in ("", "/"):
            return base, None
        found = self._documents[where]
        for part in pointer.split("/")[1:]:
            part = unquote(part).replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and part.isascii() and part.isdigit() and int(part) < len(found):
                found = found[int(part)]
            elif isinstance(found, dict):
                found = found.get(part)
            else:
                return where, None
        return where, found


def _joined(base: str, address: str) -> str:
    try:
        return urljoin(base, address)
    except ValueError:  # one of them is no address
        return address


def _id(schema: Any) -> str:
    told = schema.get("$id", "") if isinstance(schema, dict) else ""
    return told if isinstance(told, str) else ""


def _own(schema: Mapping[str, Any]) -> Iterator[str]:
    """The columns for what a schema itself allows, without what it refers to."""
    told = schema.get("type")
    types = [told] if isinstance(told, str) else told if isinstance(told, list) else []
    if not types:
        values = schema["enum"] if isinstance(schema.get("enum"), list) else []
        values = [*values, *([schema["const"]] if "const" in schema else [])]
        types = [_OF_VALUES[type(value)] for value in values if value is not None]
    for one in types:
        if one == "string":
            kind = "binary" if schema.get("contentEncoding") == "base64" else "string"
            yield _FORMATS.get(str(schema.get("format")), kind)
        elif isinstance(one, str) and one in _TYPES:
            yield _TYPES[one]
