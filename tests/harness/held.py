"""Holds back sources of a running app, so that they can be filled, and releases them; and measures
the app's progress.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable
from contextlib import closing
from dataclasses import dataclass

from borealis_py.app.state import StatusReader
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Running, Stage
from borealis_py.log import topics
from borealis_py.log.base import Feed, Record
from borealis_py.log.clock import SystemClock
from borealis_py.log.corrected import read_progress
from borealis_py.log.description import Life
from borealis_py.log.records import RangeHeader, StableHeader, unpack_stream
from borealis_py.query.partitions import parts_of
from borealis_py.query.spec import count_of
from tests.harness.launching import cut_off
from tests.harness.staging import wait

HELD_US = 2**52
LET_GO_US = 300_000
"""Time from writing that a source is to be read again until it is: its reader knows by then."""
TIMEOUT_S = 180.0
LOOK_S = 0.05


def hold(stage: Stage, running: Running, sources: Iterable[str], readers: Collection[tuple[str, int]]) -> None:
    """Have sources not read, and wait until their readers do not.

    Args:
        readers: (node, replica) of each.

    Raises:
        BenchError: one reads on.
    """
    name = running.state.name
    cut_off(stage.log, name, sources, HELD_US, running.state.app_uid)
    with closing(StatusReader(stage.log, name, running.started_ms)) as reader:

        def unread() -> bool:
            reader.poll()
            said = [reader.newest.get(each) for each in readers]
            return all(status is not None and not any(i.reachable for i in status.inputs) for status in said)

        wait(unread, TIMEOUT_S, f"{name}: its sources are still read after they were to be held back")


def let_go(stage: Stage, running: Running, sources: Iterable[str]) -> float:
    """Have them read again. Returns when, in seconds since 1970: now."""
    at_us = SystemClock().wall_us() + LET_GO_US
    cut_off(stage.log, running.state.name, sources, at_us, running.state.app_uid)
    time.sleep(max(0.0, at_us / 1e6 - time.time()))
    return at_us / 1e6


@dataclass(frozen=True, slots=True)
class ReachedAt:
    """When a bucket was reached, seconds since 1970: by the last of the replicas' own streams (0: they are not
    followed), and by what is published of the last partition.
    """

    own: float
    published: float


class Reached:
    """How far a query has got.

    Args:
        own: follow its replicas' own streams, too.
    """

    def __init__(self, stage: Stage, running: Running, query: str, own: bool = False) -> None:
        state = running.state
        self._running = running
        self._life = Life(state.app_uid)
        self._woken = threading.Event()
        parts = parts_of(state.spec, query)
        self._progress = {Feed(topics.progress(state.name, part)): 0 for part in parts}
        nodes = [state.runs.node(part) for part in parts] if own else []
        self._own = {
            feed: 0
            for part, node in zip(parts, nodes, strict=False)
            for replica in range(node.replicas)
            for feed in topics.own_feeds(state.name, part, replica, count_of(node.exchange))
        }
        self._reader = stage.log.reader(self._woken.set)
        for feed in (*self._progress, *self._own):
            self._reader.open(feed, 0)

    def wait(self, bucket: int) -> ReachedAt:
        """Wait until everything below `bucket` is emitted and published.

        Raises:
            BenchError: a process ended, or it takes too long.
        """
        deadline = time.monotonic() + TIMEOUT_S
        own = published = 0.0
        while True:
            if self._own and not own and min(self._own.values()) >= bucket:
                own = time.time()
            if not published and min(self._progress.values()) >= bucket:
                published = time.time()
            if published and (own or not self._own):
                return ReachedAt(own, published)
            self._refuse_ended()
            if time.monotonic() > deadline:
                far = {feed.topic: reached for feed, reached in (self._progress | self._own).items()}
                raise BenchError(f"not at bucket {bucket} after {TIMEOUT_S:g} s: {far}")
            self._woken.wait(LOOK_S)
            self._woken.clear()
            for record in self._reader.poll():
                self._read(record)

    def _read(self, record: Record) -> None:
        feed = record.feed
        if feed in self._progress:
            self._progress[feed] = max(self._progress[feed], read_progress(record, self._life, 0) or 0)
            return
        header, _ = unpack_stream(record.value)
        if isinstance(header, StableHeader) and header.part == header.parts - 1:
            self._own[feed] = max(self._own[feed], header.bucket + 1)
        elif isinstance(header, RangeHeader):
            self._own[feed] = max(self._own[feed], header.end)

    def _refuse_ended(self) -> None:
        for name in self._running.pids:
            if self._running.processes.ended(name) is not None:
                raise BenchError(f"{name} ended:\n{self._running.processes.log_tail(name)}")

    def close(self) -> None:
        """Read no more."""
        self._reader.close()
