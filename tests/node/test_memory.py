"""What a process takes of memory: both kinds from one reading, and seldom."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Event

import psutil

from borealis_py.node.memory import EVERY_S, ROLLUP, MemoryUse, OwnMemory, memory_use, memory_watch
from tests.harness.waiting import until

TEXT = """5648c1948000-7ffca8e34000 ---p 00000000 00:00 0                          [rollup]
Rss:              123456 kB
Pss:               65432 kB
Pss_Dirty:           108 kB
"""


def test_both_sizes_are_those_of_the_system(tmp_path: Path) -> None:
    (tmp_path / "rollup").write_text(TEXT)
    assert memory_use(tmp_path / "rollup") == MemoryUse(123_456, 65_432)


def test_rss_where_there_is_nothing_else(tmp_path: Path) -> None:
    use = memory_use(tmp_path / "not there")
    assert use.pss_kb == 0
    assert 1_000 < use.rss_kb < 2 * psutil.Process().memory_info().rss // 1024


def test_this_process() -> None:
    use = memory_watch().use()
    assert use.rss_kb > 1_000
    assert (0 < use.pss_kb <= use.rss_kb) == ROLLUP.exists()


def test_it_is_read_every_ten_seconds_and_nobody_waits() -> None:
    now_s, go_on, sizes = [0.0], Event(), iter(range(1, 100))

    def slow() -> Iterator[MemoryUse]:
        yield MemoryUse(next(sizes), 0)
        while True:
            go_on.wait()
            yield MemoryUse(next(sizes), 0)

    reader = slow()
    watch = OwnMemory(lambda: next(reader), lambda: now_s[0])
    for now_s[0] in (1.0, EVERY_S - 0.1, EVERY_S, EVERY_S + 1, 3 * EVERY_S):
        assert watch.use() == MemoryUse(1, 0)
    now_s[0] = EVERY_S + 1
    go_on.set()
    until(lambda: watch.use() == MemoryUse(2, 0), "the reading")
    now_s[0] = 2.5 * EVERY_S
    watch.use()
    until(lambda: watch.use() == MemoryUse(3, 0), "the reading")
    now_s[0] = 3.4 * EVERY_S
    assert [watch.use() for _ in range(3)] == [MemoryUse(3, 0)] * 3
