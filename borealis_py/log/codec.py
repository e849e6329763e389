"""Bytes of the payloads: what node, client and redo ask of whoever understands the rows (product: `engine`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from sunion.model import Rows, State


class SourceCodec(Protocol):
    """Rows of one source."""

    def decode(
        self, payload: bytes, encoding: str, stimes: Sequence[int]
    ) -> tuple[Rows | None, list[tuple[int, str, bytes]]]:
        """The good rows, and (position, reason, raw) of each bad one. `encoding`: "json" or "arrow".

        A payload that cannot be taken apart at all gives (None, [(-1, reason, payload)]).
        """


class RowCodec(Protocol):
    """Rows of a query's result and the fragment's state."""

    def encode(self, rows: Rows) -> bytes: ...

    def decode(self, payload: bytes) -> Rows: ...

    def encode_parts(self, rows: Rows, bytes_max: int) -> list[bytes]:
        """As `encode`, in as many parts as none exceeds `bytes_max`, one row at least in each."""

    def join(self, parts: Sequence[Rows]) -> Rows: ...

    def encode_state(self, state: State) -> bytes: ...

    def decode_state(self, payload: bytes) -> State: ...

    def published(self, rows: Rows) -> Iterator[tuple[bytes, int]]:
        """Of each row one JSON object, doubles in their shortest form, NaN and infinities null; and its stime."""

    def to_dicts(self, rows: Rows) -> list[dict[str, object]]: ...


class StreamCodec(RowCodec, Protocol):
    """The rows of another node's stream."""

    @property
    def schema_id(self) -> str:
        """Fingerprint of the rows' schema: their bytes do not tell it."""
