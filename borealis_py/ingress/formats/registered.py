"""Values whose schema is in a registry: a zero byte, the schema's id in four bytes, then the record by that schema.

What a registry says of an id never changes, so the same bytes give the same rows everywhere. While it says nothing, the
values wait: they would be dead letters at one ingress and rows at another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import pyarrow as pa

from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.ingress.formats.base import NO_ROW, FormatRows, Paths, RecordFormat, together
from borealis_py.log.schema_registry import NoSuchSchema, RegisteredSchema, SchemaRegistry

HEAD = 5
"""Bytes before a record."""
MAGIC = 0
"""The first of them."""
ID_MAX = 2**31 - 1
"""No registry has a schema beyond this one. Asked for one, it answers as to a mistake of ours, so values would wait."""


class RegisteredFormat:
    """Args:
    kind: of schema that the topic's are; others make their records dead letters.
    form: reads values, with their first `HEAD` bytes, by a schema of this kind. Raises if none can be read by it.
    """

    tombstone = NO_ROW
    """See `RecordFormat.tombstone`."""

    def __init__(
        self,
        columns: Mapping[str, str],
        registry: SchemaRegistry,
        kind: str,
        form: Callable[[RegisteredSchema], RecordFormat],
    ) -> None:
        self.schema: pa.Schema = segment_schema(columns).remove(len(columns))
        self._registry = registry
        self._kind = kind
        self._form = form
        self._forms: dict[bytes, RecordFormat | str] = {}
        """By the bytes before a record; or why no record by this schema can be read."""
        self._unknown: dict[bytes, str] = {}
        """Those of which the registry has said that it does not know them, when it was asked last."""
        self._waits_for: int | None = None

    def ready(self, values: Sequence[bytes | None]) -> int:
        """See `RecordFormat.ready`."""
        heads = {value[:HEAD] for value in values if value is not None}
        self._unknown, self._waits_for = {}, None
        waiting = {head for head in heads - self._forms.keys() if is_framed(head) and not self._learn(head)}
        if not waiting:
            return len(values)
        first = next(i for i, value in enumerate(values) if value is not None and value[:HEAD] in waiting)
        self._waits_for = id_of((values[first] or b"")[:HEAD])
        return first

    def waits_for(self) -> str:
        """See `RecordFormat.waits_for`."""
        if self._waits_for is None:
            return ""
        why = self._registry.trouble or "the registry has not said anything of it yet"
        return f"schema {self._waits_for}: {why}"

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        places: dict[bytes, list[int]] = {}
        for i, value in enumerate(values):
            places.setdefault(value[:HEAD], []).append(i)
        parts: list[tuple[Sequence[int], FormatRows]] = []
        bad: list[tuple[int, str]] = []
        for head, own in places.items():
            form = self._forms.get(head) or self._unknown.get(head) or unframed(head)
            if isinstance(form, str):
                bad += [(i, form) for i in own]
                continue
            part = form.rows(values if len(own) == len(values) else [values[i] for i in own])
            parts.append((own, part._replace(bad=named(head, part.bad))))
        found = together(parts, self.schema)
        return found._replace(bad=sorted([*found.bad, *bad]))

    def fields(self, value: bytes, within: Sequence[str] = ()) -> Collection[str] | None:
        """See `RecordFormat.fields`."""
        form = self._forms.get(value[:HEAD])
        return () if form is None or isinstance(form, str) else form.fields(value, within)

    def has(self, values: Sequence[bytes], columns: Paths) -> set[str]:
        """See `RecordFormat.has`."""
        groups: dict[bytes, list[bytes]] = {}
        for value in values:
            groups.setdefault(value[:HEAD], []).append(value)
        found: set[str] = set()
        for head, own in groups.items():
            form = self._forms.get(head)
            if form is not None and not isinstance(form, str):
                found |= form.has(own, columns)
        return found

    def _learn(self, head: bytes) -> bool:
        """Whether it is known what the registry says of this id."""
        number = id_of(head)
        if number > ID_MAX:
            self._unknown[head] = f"schema {number}: no registry has it: ids end at {ID_MAX}"
            return True
        answer = self._registry.ask(number)
        if answer is None:
            return False
        if isinstance(answer, NoSuchSchema):
            self._unknown[head] = f"schema {number}: the registry does not know it: {answer.why}"
        elif answer.kind != self._kind:
            self._forms[head] = f"schema {number}: it is of {answer.kind}, the topic's are of {self._kind}"
        else:
            try:
                self._forms[head] = self._form(answer)
            except (ImportError, MemoryError):
                raise  # this process is at fault: others can read the record
            except Exception as exc:  # whatever is wrong with a schema that others wrote
                self._forms[head] = f"schema {number}: no record can be read by it: {str(exc) or type(exc).__name__}"
        return True


def is_framed(head: bytes) -> bool:
    """Whether a value with these first `HEAD` bytes names a schema."""
    return len(head) == HEAD and head[0] == MAGIC


def id_of(head: bytes) -> int:
    """The schema's id."""
    return int.from_bytes(head[1:])


def named(head: bytes, bad: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Reasons, with the schema's id first."""
    return [(i, f"schema {id_of(head)}: {reason}") for i, reason in bad]


def unframed(head: bytes) -> str:
    """Why a value with these first bytes is no row."""
    return (
        f"it begins with {head.hex(' ') or 'nothing'}, not with a zero byte and the id of a schema: its producer does "
        "not use the registry"
    )
