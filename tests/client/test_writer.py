"""What a source's writer refuses: its caller would break a promise that readers have been given (B5)."""

from __future__ import annotations

import pytest

from borealis_py.client.writer import SourceWriter
from borealis_py.log.base import Feed
from sunion.bucket import Buckets
from sunion.errors import IllegalTransition


@pytest.fixture
def writer() -> SourceWriter:
    return SourceWriter(Feed("app.src"), "a1", 1, "u", Buckets(100_000), 500_000, 7)


def test_a_tuple_below_the_boundary_is_refused(writer: SourceWriter) -> None:
    with pytest.raises(IllegalTransition, match="stime 499999 below the boundary 500000"):
        writer.add(b"{}", 499_999, 8)
    with pytest.raises(IllegalTransition, match="stime 499999 below the boundary 500000"):
        writer.add_many(b"{},{}", [500_001, 499_999], 8)
    assert not writer.collecting


def test_a_position_is_written_once(writer: SourceWriter) -> None:
    with pytest.raises(IllegalTransition, match="position 7 after sequence number 7"):
        writer.add(b"{}", 500_000, 7)
    with pytest.raises(IllegalTransition, match="position 6 after sequence number 7"):
        writer.reject(b"?", "malformed", 6)
    writer.add(b"{}", 500_000, 8)
    assert writer.last_seq == 8
