"""JSON objects as the serializers of JSON Schema write them: behind the id of their schema in a registry.

The columns alone say what is read, so the registry is not asked: it may be gone. The id is named in dead letters.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import pyarrow as pa

from borealis_py.ingress.formats.base import NO_PATHS, FormatRows, JsonFields, Paths, names_in, together
from borealis_py.ingress.formats.json_objects import JsonFormat
from borealis_py.ingress.formats.registered import HEAD, is_framed, named, unframed


class JsonSchemaFormat(JsonFields):
    """Reads the objects by `columns` as `JsonFormat` does."""

    def __init__(self, columns: Mapping[str, str], paths: Paths = NO_PATHS) -> None:
        self._json = JsonFormat(columns, paths)
        self.schema: pa.Schema = self._json.schema

    def rows(self, values: Sequence[bytes]) -> FormatRows:
        """See `RecordFormat.rows`."""
        own = [i for i, value in enumerate(values) if is_framed(value[:HEAD])]
        part = self._json.rows([values[i][HEAD:] for i in own])
        bad = [one for i, reason in part.bad for one in named(values[own[i]][:HEAD], [(i, reason)])]
        found = together([(own, part._replace(bad=bad))], self.schema)
        others = [(i, unframed(value[:HEAD])) for i, value in enumerate(values) if not is_framed(value[:HEAD])]
        return found._replace(bad=sorted([*found.bad, *others]))

    def fields(self, value: bytes, within: Sequence[str] = ()) -> Collection[str] | None:
        """See `RecordFormat.fields`."""
        return names_in(value[HEAD:], within)
