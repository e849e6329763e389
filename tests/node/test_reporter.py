"""What a replica's status tells of one input."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from borealis_py.node.reporter import Reporter
from sunion.bucket import Buckets
from sunion.input_buffers import SourceBuffer
from sunion.source import SourceFold


def test_a_source_s_status_has_its_publisher_s_lateness_and_how_late_rows_came() -> None:
    source = SourceBuffer("s", ("s",), 0, fold=SourceFold(10_000, 1, "u", -1, lateness_us=2_000))
    for late_us, rows in ((0, 60), (8, 38), (15, 1), (1_000, 1)):
        source.lateness.add(late_us, rows)
    union = SimpleNamespace(inputs=[source], closed=lambda index: 7)
    manager: Any = SimpleNamespace(
        union=union, intake=SimpleNamespace(late=lambda index: True), buckets=Buckets(100_000)
    )
    told = Reporter._input(manager, 0, frozenset({0}))
    assert (told.name, told.closed, told.late, told.reachable, told.ended) == ("s", 7, True, False, False)
    assert (told.lateness_us, told.late_us) == (2_000, (0, 15, 1_000))
