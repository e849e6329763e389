"""Managers and their parts, made with the toy fragment."""

from __future__ import annotations

from typing import Any

from borealis_py.protocol.settings import ManagerConfig, Timing
from sunion.model import Input
from tests.sunion.lists import BUCKETS, FRAGMENT, OPS


def toy_config(*inputs: Input, timing: Timing, **more: Any) -> ManagerConfig:
    """A node that runs the toy fragment on these inputs, from bucket 0 unless `more` says otherwise."""
    given: dict[str, Any] = {"origin": 0, **more}
    return ManagerConfig(inputs=inputs, fragment=FRAGMENT, ops=OPS, buckets=BUCKETS, timing=timing, **given)
