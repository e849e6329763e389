"""Checkpoints whose state is a text."""

from __future__ import annotations

from borealis_py.protocol.turn import SaveCheckpoint
from sunion.source import SourceFold
from sunion.union import Mark


class Text:
    """State is a string."""

    def encode_state(self, state: str) -> bytes:
        return state.encode()

    def decode_state(self, payload: bytes) -> str:
        return payload.decode()


def checkpoint(bucket: int, state: str = "state") -> SaveCheckpoint:
    marks = (Mark(7, SourceFold(1000, 2, "uid", 41)), Mark(0, SourceFold(500)))
    return SaveCheckpoint(bucket, state, marks)
