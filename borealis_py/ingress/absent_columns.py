"""Columns that no record of a topic has had: a field that is called otherwise would look as if it were always null.

A column is known once a record has its field, be it null. Until then each record is looked at, which costs little: most
columns have a value in the first records. A field's name that is nearly the column's is named with it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from typing import NamedTuple

import pyarrow as pa

from borealis_py.ingress.formats.base import NO_PATHS, FieldWalk, Paths, RecordFormat
from borealis_py.query.field_paths import path_text

SAID_AFTER = 100
"""A column with no near name is spoken of after so many records: it may be a rare one."""
NEAR = 0.75
"""How much a name must resemble another one, as `difflib` measures it."""
NAMES_MAX = 500
"""Names of fields that are remembered: keys of a map that is written as a record may be any number."""
SAMPLED = 3
"""Records of those decoded together whose fields are noted."""


class AbsentColumn(NamedTuple):
    """A column that none of `records` records had; `near`: the field that they have instead; "": nothing near. `field`:
    of a column that is not the field of its name."""

    name: str
    records: int
    near: str = ""
    field: str = ""


class AbsentColumns:
    """Those of one topic, since this process began to read it.

    A column is absent only if some record has the object in which its field should be, or lacks that object. Where an
    object is null in all records, nobody knows.

    Args:
        columns: those whose fields records' values should have.
        paths: of columns that are not the field of their name.
    """

    def __init__(self, columns: Iterable[str], paths: Paths = NO_PATHS) -> None:
        self._paths = {name: tuple(paths.get(name, (name,))) for name in columns}
        self._unseen = set(self._paths)
        self._lacking: dict[str, set[int]] = {}
        """How many names of a column's path lead to objects that lack the next one."""
        self._names: dict[tuple[str, ...], dict[str, None]] = {}
        """Those of the fields of each object."""
        self._records = 0
        self._remembered = 0

    def saw(self, form: RecordFormat, rows: pa.RecordBatch, values: Sequence[bytes]) -> None:
        """See decoded records: their rows, and in parallel their values."""
        if not self._unseen or not values:
            return
        self._unseen = {name for name in self._unseen if rows.column(name).null_count == len(values)}
        if self._unseen:
            self._unseen -= form.has(values, {name: self._paths[name] for name in self._unseen})
        self._records += len(values)
        if self._unseen:
            for value in values[:SAMPLED]:
                self._note(FieldWalk(form, value))

    def _note(self, walk: FieldWalk) -> None:
        for name in self._unseen:
            depth = walk.along(self._paths[name])
            if isinstance(depth, int):
                self._lacking.setdefault(name, set()).add(depth)
        for within, fields in walk.objects.items():
            known = self._names.setdefault(within, {})
            for field in fields or ():
                if field not in known and self._remembered < NAMES_MAX:
                    known[field] = None
                    self._remembered += 1

    def found(self) -> tuple[AbsentColumn, ...]:
        """Those worth speaking of, by name."""
        told = [self._absent(name) for name in sorted(self._unseen & self._lacking.keys())]
        return tuple(one for one in told if one.near or one.records >= SAID_AFTER)

    def _absent(self, name: str) -> AbsentColumn:
        path = self._paths[name]
        return AbsentColumn(name, self._records, self._near(name, path), "" if path == (name,) else path_text(path))

    def _near(self, name: str, path: tuple[str, ...]) -> str:
        """The field that is most like the first one of a path that is missing, furthest along it; "": none."""
        taken = set(self._paths.values())
        for depth in sorted(self._lacking[name], reverse=True):
            within = path[:depth]
            last = depth == len(path) - 1
            others = [one for one in self._names.get(within, ()) if not (last and (*within, one) in taken)]
            joined = ".".join(path[depth:])
            found = joined if joined in others else near(path[depth], others)
            if found:
                return path_text((*within, found))
        return ""


def near(name: str, others: Collection[str]) -> str:
    """The name that is most like this one: the same but for case and marks between words, or close to it; "": none."""
    by_plain = {_plain(other): other for other in others}
    wanted = _plain(name)
    if wanted in by_plain:
        return by_plain[wanted]
    close = get_close_matches(wanted, list(by_plain), n=1, cutoff=NEAR)
    return by_plain[close[0]] if close else ""


def _plain(name: str) -> str:
    return "".join(filter(str.isalnum, name.casefold())) or name
