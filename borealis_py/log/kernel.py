"""The kernel as replicas, redo jobs and audits use it: a fragment, and the codecs of what it reads and writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from borealis_py.log.codec import RowCodec, SourceCodec, StreamCodec
from sunion.model import Fragment, Input, RowOps, Rows


class Kernel(Fragment, RowOps, RowCodec, Protocol):
    """A compiled query: its step function, and whoever understands its rows."""

    @property
    def schema_id(self) -> str:
        """Fingerprint of the result's schema: Arrow bytes do not tell theirs."""

    def source_codec(self, name: str) -> SourceCodec:
        """Decodes the rows of one of the node's sources."""

    def stream_codec(self, name: str) -> StreamCodec:
        """Decodes the rows of one of the node's inputs that is another node's stream."""

    def divide(self, rows: Rows, by: Sequence[str], count: int) -> Sequence[Rows | None]:
        """The node's rows by the partition, of `count`, that their columns `by` fall to."""

    def close(self) -> None:
        """Let go of the engine's connection."""


def codecs_of(kernel: Kernel, inputs: Sequence[Input]) -> tuple[dict[int, SourceCodec], dict[int, StreamCodec]]:
    """By input index: what decodes the sources, and what decodes the streams."""
    sources = {i: kernel.source_codec(of.name) for i, of in enumerate(inputs) if not of.replicas}
    streams = {i: kernel.stream_codec(of.name) for i, of in enumerate(inputs) if of.replicas}
    return sources, streams
