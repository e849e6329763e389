"""What any way to run a redo must end within, and give."""

from __future__ import annotations

from collections.abc import Mapping

from borealis_py.engine import canonical_hash
from sunion.model import Output

DEADLINE_S = 60.0
Bits = dict[int, str]
"""Bucket -> hash of its rows."""


def bits(outputs: Mapping[int, Output]) -> Bits:
    """A hash of each bucket's rows."""
    return {bucket: canonical_hash(o.rows) for bucket, o in outputs.items() if o.rows is not None}
