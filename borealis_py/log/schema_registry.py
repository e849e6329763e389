"""What an ingress needs of a schema registry. `borealis_py.kafka` and tests implement it."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class RegisteredSchema(NamedTuple):
    """What a registry says of an id, for ever. `kind`: AVRO, PROTOBUF or JSON. `text`: of the schema; of Protobuf its
    file's descriptor in base64. `references`: (name, text) of those that it refers to, each after its own."""

    kind: str
    text: str
    references: tuple[tuple[str, str], ...] = ()


class NoSuchSchema(NamedTuple):
    """The registry answers that it has no schema of this id. `why`: in its words."""

    why: str


class SchemaRegistry(Protocol):
    """Looks schemas up."""

    def ask(self, schema_id: int) -> RegisteredSchema | NoSuchSchema | None:
        """What the registry says of an id; None: not known yet, and being asked for. Never waits."""

    @property
    def trouble(self) -> str:
        """Why the registry does not answer; "": it does, or has not been asked yet."""

    def close(self) -> None: ...
