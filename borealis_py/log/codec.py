"""Codecs of record payloads, as nodes, clients and redos use them; `engine` implements them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from sunion.model import Rows, State


class SourceCodec(Protocol):
    """Rows of one source."""

    def decode(
        self, payload: bytes, encoding: str, stimes: Sequence[int]
    ) -> tuple[Rows | None, list[tuple[int, str, bytes]]]:
        """The valid rows, and (position, reason, raw) of each invalid one. `encoding`: "json" or "arrow".

        A payload that cannot be parsed at all gives (None, [(-1, reason, payload)]).
        """


class RowCodec(Protocol):
    """Rows of a query's result and the fragment's state."""

    def encode(self, rows: Rows) -> bytes: ...

    def decode(self, payload: bytes) -> Rows: ...

    def encode_parts(self, rows: Rows, bytes_max: int) -> list[bytes]:
        """Like `encode`, but split so that no part exceeds `bytes_max`; each part holds at least one row."""

    def join(self, parts: Sequence[Rows]) -> Rows: ...

    def encode_state(self, state: State) -> bytes: ...

    def decode_state(self, payload: bytes) -> State: ...

    def encode_increment(self, before: State, after: State, since: int, end: int) -> bytes:
        """What the state at bucket `end` (`after`) has that the one at bucket `since` had not."""

    def decode_increment(self, before: State, payload: bytes, end: int) -> State:
        """The state at bucket `end`, bit for bit. Raises ValueError for bytes that are no increment of this state."""

    def published(self, rows: Rows) -> Iterator[tuple[bytes, int]]:
        """(JSON object, stime) of each row; doubles in their shortest form, NaN and infinities as null."""

    def to_dicts(self, rows: Rows) -> list[dict[str, object]]: ...


class StreamCodec(RowCodec, Protocol):
    """The rows of another node's stream."""

    @property
    def schema_id(self) -> str:
        """Fingerprint of the rows' schema, which their bytes do not contain."""
