"""A schema registry of a test's own, that answers when the test says so; and values as producers frame them."""

from __future__ import annotations

import io
import json
from typing import Any

from borealis_py.log.schema_registry import NoSuchSchema, RegisteredSchema


class ToldRegistry:
    """Knows `schemas`; of others it says nothing, or, once it is `complete`, that it does not know them."""

    def __init__(self, schemas: dict[int, RegisteredSchema] | None = None, complete: bool = False) -> None:
        self.schemas = {} if schemas is None else schemas
        self.complete = complete
        self.trouble = ""
        self.asked: list[int] = []

    def ask(self, schema_id: int) -> RegisteredSchema | NoSuchSchema | None:
        self.asked.append(schema_id)
        found = self.schemas.get(schema_id)
        return found or (NoSuchSchema("Schema not found") if self.complete else None)

    def close(self) -> None:
        pass


def framed(schema_id: int, record: bytes) -> bytes:
    """As the registry's serializers write it."""
    return b"\0" + schema_id.to_bytes(4) + record


def avro_schema(**fields: Any) -> str:
    """The schema of a record with these fields."""
    told = [{"name": name, "type": kind} for name, kind in fields.items()]
    return json.dumps({"type": "record", "name": "R", "fields": told})


def avro_record(schema: str, value: dict[str, Any]) -> bytes:
    """A record in Avro's binary encoding."""
    import fastavro

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(schema)), value)
    return out.getvalue()
