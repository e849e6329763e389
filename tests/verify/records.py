"""Records as kafka-python gives them."""

from __future__ import annotations

import json
import struct

import msgspec

from borealis_py.verify.envelope import Raw


def record(offset: int, *header: object, rows: object = None) -> Raw:
    """An envelope by the table of A1."""
    body = msgspec.msgpack.encode([header[0], "a1", *header[1:]])
    payload = b"" if rows is None else json.dumps(rows).encode()
    return Raw(offset, struct.pack(">2sBI", b"BZ", 2, len(body)) + body + payload)
