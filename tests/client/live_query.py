"""A query with two replicas that are written by hand, and a live subscriber."""

from __future__ import annotations

from collections.abc import Callable

from borealis_py.client.subscriber import LiveSubscription
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.messages import Description, Threshold, encode
from borealis_py.log.stream import StreamEncoder
from borealis_py.protocol.settings import Timing, budget
from borealis_py.simulation.cluster.processes import LocalClock
from sunion.bucket import Buckets
from sunion.model import Output, StreamRecord, TentativeBucket
from sunion.view import Change
from tests.support.simulated_app import SimulatedApp

START_US = 1_700_000_000_000_000
BUCKETS = Buckets(100_000)
FIRST = BUCKETS.of(START_US)
SETTINGS = Feed("app.settings")
TOPICS = [Feed("app.q.r0"), Feed("app.q.r1"), SETTINGS]


def wait_of(threshold_us: int) -> int:
    return budget(Timing(), threshold_us)


class LiveQuery(SimulatedApp):
    """A query with two replicas: r0 speaks, r1 does where a test says so (`other`); what r0 calls tentative waits for
    r1 until D."""

    def __init__(self) -> None:
        super().__init__(*(feed.topic for feed in TOPICS), start_us=START_US)
        self.clock = LocalClock(self.scheduler, 0)
        self._writer = self.log.client("writer").appender(lambda: None)
        self._encoder, self.other = (
            StreamEncoder(feed, "a1", BUCKETS, None, "s")  # type: ignore[arg-type]  # rows: none here
            for feed in TOPICS[:2]
        )

    def subscribe(self, wait_us: int, wait_of: Callable[[int], int] | None = wait_of) -> LiveSubscription:
        return LiveSubscription(
            log=self.log.client("subscriber"), clock=self.clock, app="app", app_uid="a1", query="q", replicas=2,
            buckets=BUCKETS, start=FIRST, wait_us=wait_us, schema="s", wake=lambda: None, wait_of=wait_of,
        )  # fmt: skip

    def says(self, *records: StreamRecord, by: StreamEncoder | None = None) -> None:
        for record in records:
            for new in (by or self._encoder).encode(record):
                self._writer.append(new)
        self.after(0.1)

    def setting(self, key: str, value: bytes | None) -> None:
        self._writer.append(NewRecord(SETTINGS, value, key.encode()))
        self.after(0.1)

    def threshold(self, ms: int, query: str = "q") -> None:
        self.setting(f"threshold/{query}", encode(Threshold(ms * 1_000)))

    def shown(self, subscription: LiveSubscription, within_s: float) -> list[Change]:
        """What the subscriber shows in that time, called as a host calls it."""
        changes: list[Change] = []
        end = self.scheduler.now_us + int(within_s * 1_000_000)
        while self.scheduler.now_us < end:
            changes += subscription.poll()
            self.after(0.01)
        return changes


def tentative(bucket: int) -> TentativeBucket:
    return TentativeBucket(
        inc=1,
        bucket=bucket,
        output=Output(),
        missing_sources=("lga",),
        missing=("lga",),
        waited_us=0,
        completeness=0.5,
        diverged_from=bucket,
    )


def trims(world: LiveQuery, below: int, feed: Feed = TOPICS[0]) -> None:
    """A replica deletes from its topic what lies below a bucket."""
    world.setting("app", encode(Description("{}", "h", FIRST, "f", "a1")))
    world.log.delete_before(feed, world.log.client("r0").lookup().find(feed, BUCKETS.timestamp_ms(below)))
