"""Was everything read? Also when the way to a feed is lost between the answer and the last record."""

from __future__ import annotations

from borealis_py.log.base import Feed, NewRecord, TopicSpec
from borealis_py.log.ends import ASK_AGAIN_US, EndsWatch
from borealis_py.sim.clock import Scheduler
from borealis_py.sim.log import MemoryLog

FEED = Feed("t")


def test_a_feed_that_is_lost_after_the_answer_counts_as_read() -> None:
    scheduler = Scheduler()
    log = MemoryLog(scheduler)
    client = log.client("a")
    client.admin().create([TopicSpec("t")])
    reader = client.reader(lambda: None)
    reader.open(FEED, 0)
    log.broker.append(NewRecord(FEED, b"x"))
    watch = EndsWatch(client.lookup(), reader)
    watch.ask(scheduler.now_us, [FEED])
    assert watch.unanswered
    scheduler.run_until(10_000)
    assert watch.read_to(scheduler.now_us) is None, "the end is 1, and nothing was polled yet"
    assert not watch.unanswered
    log.cut("a", {"t"})
    scheduler.run_until(ASK_AGAIN_US)
    assert watch.read_to(scheduler.now_us) is None
    assert watch.unanswered, "it asks anew"
    scheduler.run_until(2 * ASK_AGAIN_US)
    assert watch.read_to(scheduler.now_us) == 0, "nobody reaches it, so there is nothing to wait for"
