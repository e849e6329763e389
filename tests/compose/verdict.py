"""What lies on the broker in the end, judged by the independent checker with the demo's model of the flights, and what
the subscriber printed with it.
"""

from __future__ import annotations

import json

from borealis_py.demo.content_check import evidence_of, packaged_flights
from borealis_py.demo.model import load_flights
from borealis_py.verify import Verdict, judge
from borealis_py.verify.evidence import Saw, SubscriberHistory
from borealis_py.verify.kafka_reader import TopicReader

REPLICAS = 2
PRINTED = "carrier_delays"
"""The query that the subscriber follows."""


def judge_queries(bootstrap: str, app: str, origin_us: int, days: int, printed: str) -> dict[str, Verdict]:
    """By query.

    Args:
        origin_us: start of the app's first bucket, at which the flights begin.
        printed: what the subscriber wrote, JSON lines.
    """
    flights = load_flights(packaged_flights(), days, origin_us)
    topics = TopicReader(bootstrap)
    try:
        evidence = evidence_of(topics, app, flights, origin_us, REPLICAS)
    finally:
        topics.close()
    evidence[PRINTED].subscribers = [history_of(printed)]
    return {query: judge(of) for query, of in evidence.items()}


def history_of(printed: str) -> SubscriberHistory:
    """The subscriber's output as the checker takes it."""
    seen = []
    for line in printed.splitlines():
        row = json.loads(line)
        bucket, index = map(int, row["id"].split(":"))
        seen.append(Saw(0, "ROW", bucket, bucket + 1, (row["value"],), index=index))
    return SubscriberHistory("subscriber", "corrected", seen)
