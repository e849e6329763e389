"""A watch of a foreign topic wakes its asker: nobody need look again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable

from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Feed
from borealis_py.log.foreign import Told

Fill = Callable[[Feed, list[bytes]], None]


def test_it_wakes_when_an_answer_is_whole(log: KafkaLog, new_feed: Callable[..., Feed], fill: Fill) -> None:
    feed, woken = new_feed(), threading.Event()
    fill(feed, [b"1", b"2"])
    watch = log.topic_watch(feed.topic, woken.set)
    for _ in range(3):
        ends = watch.ask_ends([0])
        assert woken.wait(30)
        assert ends.poll() == {0: Told(2, 2)}
        woken.clear()
        count = watch.ask_partitions()
        assert woken.wait(30)
        assert count.poll() == 1
        woken.clear()
    watch.close()
