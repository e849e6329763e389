"""Python's own way in: `subscribe` and `publish` on a running app, wired to Kafka.

for change in subscribe("carrier_delays", view="live"):
    print(change.kind, change.rows, change.completeness, change.lacked)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, Literal

from borealis_py.client.publisher import Publisher
from borealis_py.client.subscriber import (
    CorrectedSubscription,
    LiveChange,
    LiveSubscription,
    Row,
    live_change,
    published,
    raw_records,
)
from borealis_py.host.appstate import AppState, read_app
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, Wake
from borealis_py.log.clock import SystemClock
from borealis_py.protocol.settings import Timing
from reconcile.work import make_kernel
from sunion.bucket import Buckets
from sunion.model import Kind

View = Literal["corrected", "live", "raw"]
BOOTSTRAP = "localhost:9092"
IDLE_S = 0.1
"""How often a waiting iterator looks whether it is to stop."""


def open_live(log: Log, state: AppState, query: str, from_beginning: bool, wake: Wake) -> LiveSubscription:
    """A live subscription. Raises QueryError for an unknown query."""
    spec = state.spec
    q = spec.query(query)
    lookup = log.lookup()
    start = state.origin if from_beginning else published(lookup, spec.name, query, state.origin)
    lookup.close()
    slack_us = Timing().slack_of(spec.position(query))

    def wait_of(threshold_us: int) -> int:
        return max(0, threshold_us - slack_us)

    x_us, buckets = state.threshold_us(query), Buckets(spec.bucket_us)
    return LiveSubscription(
        log, SystemClock(), spec.name, query, q.replicas, buckets, start, wait_of(x_us), None, wake, wait_of
    )


def live(
    log: Log, state: AppState, query: str, from_beginning: bool, stop: threading.Event, empty: bool = False
) -> Iterator[LiveChange]:
    """Changes of the live view until `stop` or the end of the query. `empty`: tell of buckets without rows too."""
    woken = threading.Event()
    subscription = open_live(log, state, query, from_beginning, woken.set)
    kernel = make_kernel(state.spec.to_json(), query)
    last = Buckets(state.spec.bucket_us).last
    try:
        while not stop.is_set():
            woken.clear()
            for change in subscription.poll():
                if empty or change.output.rows is not None or change.kind not in (Kind.BOUNDARY, Kind.TENTATIVE):
                    yield live_change(change, kernel)
            if subscription.stream.next >= last:
                return
            at = subscription.next_wakeup()
            wait_s = IDLE_S if at is None else (at - SystemClock().now_us()) / 1e6
            woken.wait(min(IDLE_S, max(0.0, wait_s)))
    finally:
        subscription.close()
        kernel.close()


def corrected(log: Log, state: AppState, query: str, from_beginning: bool, stop: threading.Event) -> Iterator[Row]:
    """Rows of the corrected stream until `stop` or the end of the query."""
    state.spec.query(query)
    woken = threading.Event()
    buckets = Buckets(state.spec.bucket_us)
    subscription = CorrectedSubscription(log, state.spec.name, query, buckets, from_beginning, woken.set)
    try:
        while not stop.is_set():
            woken.clear()
            yield from subscription.poll()
            if subscription.ended:
                return
            woken.wait(IDLE_S)
    finally:
        subscription.close()


def raw(log: Log, state: AppState, query: str, replica: int, stop: threading.Event) -> Iterator[dict[str, Any]]:
    """One replica's records as they lie, from the beginning, until `stop` or the end. `query` may be any node."""
    state.spec.node(query)
    woken, last = threading.Event(), Buckets(state.spec.bucket_us).last
    lookup, reader = log.lookup(), log.reader(woken.set)
    feed = Feed(topics.replica(state.spec.name, query, replica))
    try:
        reader.open(feed, lookup.bounds(feed)[0])
        while not stop.is_set():
            woken.clear()
            for record in raw_records(reader.poll()):
                yield record
                if record.get("end", 0) >= last:  # of a boundary: the sources have ended
                    return
            woken.wait(IDLE_S)
    finally:
        reader.close()
        lookup.close()


def publisher(source: str, *, app: str | None = None, bootstrap: str = BOOTSTRAP, take_over: bool = False) -> Publisher:
    """A publisher of one source of a running app: `with publisher("ewr") as p: p.send({...})`.

    Raises:
        AppError: unknown app or source. LogUnreachable: no broker.
    """
    log = KafkaLog(bootstrap)
    state = read_app(log, app)
    spec = state.spec
    schema = state.schema(source)
    return Publisher(log, spec.name, source, schema, spec.bucket_us, state.origin, take_over=take_over)


def subscribe(
    query: str,
    view: View = "corrected",
    *,
    app: str | None = None,
    bootstrap: str = BOOTSTRAP,
    from_beginning: bool = True,
    replica: int = 0,
    stop: threading.Event | None = None,
) -> Iterator[Any]:
    """Follow a query's result; ends when its sources have ended.

    Args:
        view: "corrected" gives `Row`s (stable, in order, each once); "live" gives `LiveChange`s (tentative now, stable
            later); "raw" gives one replica's records as dicts, of any node.
        app: needed where the broker serves several.

    Raises:
        AppError, QueryError: unknown app or query. LogUnreachable: no broker.
    """
    log = KafkaLog(bootstrap)
    state = read_app(log, app)
    stop = stop or threading.Event()
    if view == "live":
        return live(log, state, query, from_beginning, stop)
    if view == "raw":
        return raw(log, state, query, replica, stop)
    return corrected(log, state, query, from_beginning, stop)
