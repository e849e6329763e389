"""The kernel as replicas, redo jobs and audits use it: a fragment and the codecs of its inputs and output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from borealis_py.log.codec import RowCodec, SourceCodec, StreamCodec
from sunion.model import Fragment, Input, RowOps, Rows


class Kernel(Fragment, RowOps, RowCodec, Protocol):
    """A compiled query: its step function, and the operations on its rows."""

    @property
    def unbounded(self) -> Sequence[str]:
        """Its operators, as their user wrote them, whose results may depend on any earlier bucket: no start with empty
        state comes to their state (R17.14)."""

    @property
    def schema_id(self) -> str:
        """Fingerprint of the result's schema, which Arrow bytes do not contain."""

    def source_codec(self, name: str) -> SourceCodec:
        """Decodes the rows of one of the node's sources."""

    def stream_codec(self, name: str) -> StreamCodec:
        """Decodes the rows of an input that is another node's stream."""

    def divide(self, rows: Rows, by: Sequence[str], count: int) -> Sequence[Rows | None]:
        """Split the node's rows into `count` partitions by their columns `by`."""

    def close(self) -> None:
        """Release the engine's connection."""


def codecs_of(kernel: Kernel, inputs: Sequence[Input]) -> tuple[dict[int, SourceCodec], dict[int, StreamCodec]]:
    """The codecs of the sources and of the streams, by input index."""
    sources = {i: kernel.source_codec(of.name) for i, of in enumerate(inputs) if not of.replicas}
    streams = {i: kernel.stream_codec(of.name) for i, of in enumerate(inputs) if of.replicas}
    return sources, streams
