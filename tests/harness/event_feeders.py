"""Sources of which one falls silent for a while and then sends everything at once; and the processes that feed them.

    python -m tests.harness.event_feeders BOOTSTRAP APP SOURCE BOUNDARY OUT

Once such a process owns its source it reads a `FeedPlan` from its standard input, a line of JSON. Rows carry their own
times and keep step with the wall clock. BOUNDARY is "data", as for a publisher that forwards its input: while nothing
comes it promises nothing; or "paced", by the clock up to the next row, as `borealis publish --speed 1` does. At the
end, OUT holds a `Fed` as JSON.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import cast

import msgspec

from borealis_py.api import Boundary, publisher
from borealis_py.bench import events
from borealis_py.bench.figures import BenchError
from borealis_py.bench.stage import Stage
from borealis_py.client.publisher import Publisher, wall_us
from borealis_py.log import topics
from tests.harness.staging import wait

MODULE = "tests.harness.event_feeders"
SOURCES = 3
SECOND_US = 1_000_000
NAP_S = 0.001
"""Rows that are due within it go together."""


class FeedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What all sources publish. Wall times in microseconds, which are stimes too.

    Attributes:
        rate: events a second of each source. t0_us: the first row's time, a whole second. seconds: of rows.
        silent: which source says nothing in [silent_from_us, silent_until_us), and sends that when it is over.
    """

    rate: int
    t0_us: int
    seconds: int
    silent: int = -1
    silent_from_us: int = 0
    silent_until_us: int = 0

    @property
    def count(self) -> int:
        """Rows of one source."""
        return self.rate * self.seconds

    def stime(self, source: int, n: int) -> int:
        """Of row `n` of a source; never that of another source's row."""
        return self.t0_us + n * SECOND_US // self.rate + source * SECOND_US // (self.rate * SOURCES)

    def kept_back(self, source: int, n: int) -> int:
        """The row after those that a source keeps back together with row `n`; `n`: it is sent when it is due."""
        while source == self.silent and n < self.count and self._in_silence(self.stime(source, n)):
            n += 1
        return n

    def due_before(self, source: int, n: int, now_us: int) -> int:
        """The first row from `n` on that is not due yet, or is kept back; `count`: neither."""
        while n < self.count and (stime := self.stime(source, n)) <= now_us:
            if source == self.silent and self._in_silence(stime):
                break
            n += 1
        return n

    def same_bucket(self, source: int, n: int, end: int) -> int:
        """The first row after `n` that is in a later bucket than `n`; `end` if that comes first."""
        bucket = self.stime(source, n) // events.BUCKET_US
        while n < end and self.stime(source, n) // events.BUCKET_US == bucket:
            n += 1
        return n

    def row(self, source: int, n: int) -> dict[str, object]:
        """Row `n` of a source, as it is sent."""
        return events.row(n * SOURCES + source, self.stime(source, n))

    def rows(self, source: int, first: int, end: int) -> tuple[list[dict[str, object]], list[int]]:
        """Rows first .. end - 1, and their stimes."""
        numbers = range(first, end)
        return [self.row(source, n) for n in numbers], [self.stime(source, n) for n in numbers]

    def _in_silence(self, stime: int) -> bool:
        return self.silent_from_us <= stime < self.silent_until_us


class Fed(msgspec.Struct, frozen=True, kw_only=True):
    """What became of one source's rows. `healed_us`: when it began to send what it had kept back; `delivered_us`: when
    that lay in the log; wall microseconds, 0: it kept nothing back.
    """

    sent: int
    rejected: int
    healed_us: int = 0
    delivered_us: int = 0


def feed(
    to: Publisher,
    plan: FeedPlan,
    source: int,
    now: Callable[[], int] = wall_us,
    sleep: Callable[[float], None] = time.sleep,
) -> Fed:
    """Publish a source's rows when they are due, END in the end."""
    n = healed_us = delivered_us = 0
    while n < plan.count:
        if to.paced:
            to.hold(plan.stime(source, n))
        kept = plan.kept_back(source, n)
        if kept > n:
            rows, stimes = plan.rows(source, n, kept)  # making them does not count as healing
            while (healed_us := now()) < plan.silent_until_us:
                sleep((plan.silent_until_us - healed_us) / 1e6)
            to.send_many(rows, stimes)
            to.flush()
            n, delivered_us = kept, now()
            continue
        due = plan.due_before(source, n, now())
        while n < due:
            end = plan.same_bucket(source, n, due)
            to.send_many(*plan.rows(source, n, end))
            n = end
            if to.paced and n < plan.count:  # before the next bucket's rows, which would leave without a boundary
                to.hold(plan.stime(source, n))
        if n < plan.count:  # after rows, too: those that became due meanwhile are few
            sleep(max(NAP_S, (plan.stime(source, n) - now()) / 1e6))
    to.close(end=True)
    return Fed(sent=to.counts.sent, rejected=to.counts.rejected, healed_us=healed_us, delivered_us=delivered_us)


def main() -> None:
    bootstrap, app, source, boundary, out = sys.argv[1:]
    to = publisher(f"s{source}", boundary=cast("Boundary", boundary), app=app, bootstrap=bootstrap).start()
    plan = msgspec.json.decode(sys.stdin.buffer.readline(), type=FeedPlan)
    Path(out).write_bytes(msgspec.json.encode(feed(to, plan, int(source))))


READY_S = 60.0


class Feeders:
    """A feeding process for each source of an app. They end with the stage."""

    def __init__(self, stage: Stage, app: str, boundary: Boundary = "data") -> None:
        self._stage, self._app = stage, app
        self._outs = [stage.work / f"{app}-s{i}.json" for i in range(SOURCES)]
        self.processes = {
            f"{app}-s{i}": stage.module(
                f"{app}-s{i}",
                MODULE,
                stage.log.bootstrap,
                app,
                str(i),
                boundary,
                str(out),
                stdin=subprocess.PIPE,
            )
            for i, out in enumerate(self._outs)
        }

    def wait_ready(self) -> None:
        """Wait until each owns its source. Raises BenchError."""
        wait_owned(self._stage, self._app, self.processes)

    def begin(self, plan: FeedPlan) -> None:
        """Make all of them publish. Raises BenchError: one of them has ended."""
        for name, process in self.processes.items():
            assert process.stdin is not None
            try:
                with process.stdin as to:
                    to.write(msgspec.json.encode(plan) + b"\n")
            except BrokenPipeError as exc:
                raise BenchError(f"the publisher has ended; see {name}.log") from exc

    def fed(self) -> list[Fed]:
        """Their reports at the end."""
        return [msgspec.json.decode(out.read_bytes(), type=Fed) for out in self._outs]


def wait_owned(stage: Stage, app: str, publishers: Mapping[str, subprocess.Popen[bytes]]) -> None:
    """Wait until the sources s0, s1 and s2 of an app have an owner.

    Args:
        publishers: processes, by the name of their log file.

    Raises:
        BenchError: one of them has ended, or it takes too long.
    """

    def refuse_ended() -> None:
        for name, process in publishers.items():
            if process.poll() is not None:
                raise BenchError(f"a publisher has ended and owns no source; see {name}.log")

    with closing(stage.log.lookup()) as lookup:

        def owned() -> bool:
            return all(lookup.bounds(topics.source(app, f"s{i}"))[1] for i in range(SOURCES))

        wait(owned, READY_S, f"no publisher owns its source; see {next(iter(publishers))}.log", refuse_ended)


if __name__ == "__main__":
    main()
