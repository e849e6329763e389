"""A raw view of a topic that is trimmed while somebody looks (R16.12)."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from structlog.testing import capture_logs

from borealis_py import api
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.stream import StreamEncoder
from sunion.bucket import Buckets
from sunion.model import StableRange
from tests.support.instant_log import InstantLog

BUCKETS = Buckets(100_000)
TOPIC = Feed(topics.replica("app", "q", 0))


def test_who_looks_slower_than_a_topic_is_trimmed_goes_on_at_what_is_kept() -> None:
    log, nodes = InstantLog(), SimpleNamespace(node=lambda name: SimpleNamespace(exchange=None))
    state: Any = SimpleNamespace(runs=nodes, spec=SimpleNamespace(name="app", bucket_us=100_000))
    encoder = StreamEncoder(TOPIC, "a1", BUCKETS, None, "s")  # type: ignore[arg-type]
    log.create([TOPIC.topic])
    says = [new for n in range(5) for new in encoder.encode(StableRange(1, n, n + 1))]
    log.put(says[0])
    looks = api.raw(log, state, "q", 0, threading.Event())
    seen = [next(looks)["first"]]
    log.put(*says[1:])
    log.delete_before(TOPIC, 3)
    with capture_logs() as lines:
        seen += [next(looks)["first"], next(looks)["first"]]
    looks.close()
    assert seen == [0, 3, 4]
    assert [(line["topic"], line["offset"]) for line in lines] == [(TOPIC.topic, 1)]
