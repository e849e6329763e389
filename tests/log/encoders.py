"""Encoders of streams of text."""

from __future__ import annotations

import json

from borealis_py.log.base import Feed
from borealis_py.log.stream import StreamEncoder
from sunion.bucket import Buckets

FEED = Feed("app.q.r0")


BUCKETS = Buckets(100_000)


class Json:
    """Rows are lists of strings."""

    def encode(self, rows: list[str]) -> bytes:
        return json.dumps(rows).encode()

    def decode(self, payload: bytes) -> list[str]:
        rows: list[str] = json.loads(payload)
        return rows

    def encode_parts(self, rows: list[str], bytes_max: int) -> list[bytes]:
        encoded, half = self.encode(rows), len(rows) // 2
        if not half or len(encoded) <= bytes_max:
            return [encoded]
        return [*self.encode_parts(rows[:half], bytes_max), *self.encode_parts(rows[half:], bytes_max)]

    def join(self, parts: list[list[str]]) -> list[str]:
        return [row for part in parts for row in part]


CODEC = Json()


def encoder(schema: str = "s1") -> StreamEncoder:
    return StreamEncoder(FEED, "a1", BUCKETS, CODEC, schema)  # type: ignore[arg-type]
