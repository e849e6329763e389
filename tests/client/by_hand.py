"""A corrected stream that is written by hand."""

from __future__ import annotations

from borealis_py.client.subscriber import CorrectedSubscription, Row
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.corrected import Progress, progress_record, row_headers
from sunion.bucket import Buckets
from tests.support.simulated_app import SimulatedApp

BUCKETS = Buckets(100_000)
FIRST = 17_000_000
ROWS = Feed("app.q")


class CorrectedByHand(SimulatedApp):
    """An app of one query whose corrected stream is written by hand."""

    def __init__(self) -> None:
        names = (ROWS.topic, "app.q.progress", "app.settings", "app.deadletter", "app.acks")
        super().__init__(*names, start_us=BUCKETS.start(FIRST))
        self.client = self.log.client("subscriber")
        self.describe("a1", FIRST)

    def row(self, bucket: int, index: int, value: bytes | None) -> None:
        headers = row_headers(bucket, index, BUCKETS.start(bucket) + index)
        self.append(NewRecord(ROWS, value, None, BUCKETS.timestamp_ms(bucket), headers))

    def progress(self, bucket: int, app_uid: str = "a1") -> None:
        self.append(progress_record("app", "q", Progress(app_uid, bucket, 0, 1)))

    def poll(self, subscription: CorrectedSubscription) -> list[Row]:
        """Once all that was written has had the time to arrive."""
        self.after(1)
        return subscription.poll()

    def subscribe(self, from_beginning: bool) -> CorrectedSubscription:
        return CorrectedSubscription(self.client, "app", "a1", "q", BUCKETS, from_beginning, lambda: None)
