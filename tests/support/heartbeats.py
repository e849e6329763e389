"""Heartbeats made by hand."""

from __future__ import annotations

from typing import Any

from borealis_py.protocol.incarnation import Heartbeat


def heartbeat(replica: int, inc: int = 1, **fields: Any) -> Heartbeat:
    """Of a stable replica that has output nothing and asks for nothing; `fields` replace what it reports."""
    at_rest: dict[str, Any] = {"app_uid": "a1", "uid": f"u{replica}.{inc}", "state": "STABLE", "ack_s": 0, "ack_l": 0}
    return Heartbeat(replica=replica, inc=inc, **{**at_rest, "asking": False, "progress": 0, **fields})
