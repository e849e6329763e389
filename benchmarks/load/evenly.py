"""Feeds three sources from one process with few rows, evenly, whatever the bucket width.

    python -m benchmarks.load.evenly BOOTSTRAP APP SAID_US OUT

Once it owns the sources it reads a `Sending` from its standard input, a line of JSON. Each row carries the time at
which it was handed to its publisher; all times differ. SAID_US 0: boundaries at each bucket's end by the clock, as a
publisher usually has them; else only at multiples of SAID_US. At the end, OUT holds the number of rows sent, as JSON.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from borealis_py.api import Boundary, publisher
from borealis_py.bench import events
from borealis_py.client.publisher import Publisher, wall_us
from tests.harness.event_feeders import SOURCES

EVERY_US = 9_700
"""Between rows of a source. No multiple of a bucket's width: rows fall everywhere in it."""


class Sending(msgspec.Struct, frozen=True, kw_only=True):
    """When rows are sent, wall times in microseconds."""

    from_us: int
    until_us: int


def feed(
    to: Sequence[Publisher],
    span: Sending,
    said_us: int,
    now: Callable[[], int] = wall_us,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Send a row to each at every `EVERY_US`, END in the end. Returns how many rows were sent."""
    due = span.from_us
    says = span.from_us - span.from_us % said_us if said_us else span.until_us
    at = sent = 0
    while due < span.until_us:
        upcoming = min(due, says)
        while (left_us := upcoming - now()) > 0:
            sleep(left_us / 1e6)
        if said_us and says == upcoming:
            for each in to:
                each.hold(says)
            says += said_us
            continue
        for each in to:
            at = max(at + 1, now())
            each.send(events.row(sent, at), at if said_us else None)
            sent += 1
        due += EVERY_US
    for each in to:
        each.close(end=True)
    return sent


def main() -> None:
    bootstrap, app, said_us, out = sys.argv[1:]
    boundary: Boundary = "paced" if int(said_us) else "clock"
    to = [publisher(f"s{i}", boundary=boundary, app=app, bootstrap=bootstrap).start() for i in range(SOURCES)]
    span = msgspec.json.decode(sys.stdin.buffer.readline(), type=Sending)
    Path(out).write_bytes(msgspec.json.encode(feed(to, span, int(said_us))))


if __name__ == "__main__":
    main()
