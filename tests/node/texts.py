"""Checkpoints whose state is a text, or some numbers."""

from __future__ import annotations

import msgspec

from borealis_py.protocol.turn import SaveCheckpoint
from sunion.source import SourceFold
from sunion.union import Mark
from sunion.units import Bucket


class Text:
    """State is a string."""

    def encode_state(self, state: str) -> bytes:
        return state.encode()

    def decode_state(self, payload: bytes) -> str:
        return payload.decode()


def checkpoint(bucket: int, state: str = "state") -> SaveCheckpoint:
    marks = (Mark(7, SourceFold(1000, 2, "uid", 41)), Mark(0, SourceFold(500)))
    return SaveCheckpoint(bucket, state, marks)


class Numbers:
    """State is a tuple of ascending numbers, of which the first go and others come: an increment is how many are left,
    and the new ones."""

    def encode_state(self, state: tuple[int, ...]) -> bytes:
        return msgspec.json.encode(state)

    def decode_state(self, payload: bytes) -> tuple[int, ...]:
        return msgspec.json.decode(payload, type=tuple[int, ...])

    def encode_increment(self, before: tuple[int, ...], after: tuple[int, ...], since: int, end: int) -> bytes:
        left = len([n for n in before if n in after])
        return msgspec.json.encode((left, after[left:]))

    def decode_increment(self, before: tuple[int, ...], payload: bytes, end: int) -> tuple[int, ...]:
        left, new = msgspec.json.decode(payload, type=tuple[int, tuple[int, ...]])
        return (*before[len(before) - left :], *new)


def numbers(bucket: int, window: int = 100) -> SaveCheckpoint:
    """The checkpoint at this bucket: a large number for each of so many before it. Its offset tells the bucket, too."""
    state = tuple(n * 10**15 for n in range(max(0, bucket - window), bucket))
    return SaveCheckpoint(Bucket(bucket), state, (Mark(10 * bucket, SourceFold(1000, 2, "uid", 41)),))
