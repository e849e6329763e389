"""The Python API: `read` a query's results or `subscribe` to them, and `publisher` of a source, on a running app on
Kafka.

for change in subscribe("carrier_delays", view="live"):
    print(change.kind, change.rows, change.completeness, change.missing_sources)
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from typing import Any, Literal, get_args

import structlog

from borealis_py.app.state import AppState, read_app
from borealis_py.client.publisher import Publisher
from borealis_py.client.reading import TypedRow, extent_of, read_extent, typed
from borealis_py.client.stimes import Boundaries
from borealis_py.client.subscriber import (
    CorrectedGap,
    CorrectedSubscription,
    LiveChange,
    Row,
    live_change,
    raw_records,
)
from borealis_py.config.config import load
from borealis_py.config.kafka import log_of
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Log, OffsetGone
from borealis_py.log.clock import SystemClock
from borealis_py.query.partitions import parts_of
from borealis_py.query.spec import count_of
from borealis_py.query.units import parse_duration
from sunion.bucket import Buckets

logger = structlog.get_logger(__package__)

ViewName = Literal["corrected", "live", "raw"]
Boundary = Literal["clock", "data", "paced"]
IDLE_S = 0.1
"""How often a waiting iterator checks whether it should stop."""


def live(
    log: Log, state: AppState, query: str, from_beginning: bool, stop: threading.Event, empty: bool = False
) -> Iterator[LiveChange]:
    """Changes of the live view until `stop` or the end of the query. `empty`: include buckets without rows."""
    from borealis_py.observe.live_view import forgets, open_live, worth_showing  # here: only this view needs the engine
    from reconcile.replay_context import make_kernel

    woken = threading.Event()
    last = Buckets(state.spec.bucket_us).last
    with ExitStack() as opened:
        subscriptions = open_live(log, state, query, from_beginning, woken.set)
        for subscription in subscriptions:
            opened.callback(subscription.close)
        kernel = make_kernel(state.spec.to_json(), query)  # all partitions have the same schema
        opened.callback(kernel.close)
        certain = forgets(state.spec, query)
        while not stop.is_set():
            woken.clear()
            for partition, subscription in enumerate(subscriptions):
                for change in subscription.poll():
                    if empty or worth_showing(change):
                        yield live_change(change, kernel, certain, partition)
            if all(subscription.stream.next >= last for subscription in subscriptions):
                return
            times = [at for at in (s.next_wakeup() for s in subscriptions) if at is not None]
            wait_s = (min(times) - SystemClock().now_us()) / 1e6 if times else IDLE_S
            woken.wait(min(IDLE_S, max(0.0, wait_s)))


def corrected(
    log: Log, state: AppState, query: str, from_beginning: bool, stop: threading.Event
) -> Iterator[Row | CorrectedGap]:
    """Rows of the corrected stream, and what of it is lost, until `stop` or the end of the query."""
    state.spec.query(query)
    woken = threading.Event()
    of, buckets = (log, state.spec.name, state.app_uid), Buckets(state.spec.bucket_us)
    with ExitStack() as opened:
        subscriptions = [
            opened.enter_context(closing(CorrectedSubscription(*of, part, buckets, from_beginning, woken.set)))
            for part in parts_of(state.spec, query)
        ]
        while not stop.is_set():
            woken.clear()
            for subscription in subscriptions:
                rows = subscription.poll()
                yield from subscription.gaps()
                yield from rows
            if all(subscription.ended for subscription in subscriptions):
                return
            woken.wait(IDLE_S)


def corrected_now(log: Log, state: AppState, query: str) -> Iterator[Row | CorrectedGap]:
    """Rows of the corrected stream, and what of it is lost, up to the ends that it has now; see `read_extent`."""
    state.spec.query(query)
    parts = parts_of(state.spec, query)
    return read_extent(log, extent_of(log, state.spec.name, state.app_uid, parts))


def columns_of(state: AppState, query: str) -> dict[str, str]:
    """The type of each column of a query's result, as people write it."""
    from borealis_py.engine import compile_query  # here: nothing else but the live view needs the engine
    from borealis_py.types.arrow import spelled

    with closing(compile_query(state.spec, query)) as kernel:
        return {field.name: spelled(field.type) for field in kernel.output_schema}


def raw(log: Log, state: AppState, query: str, replica: int, stop: threading.Event) -> Iterator[dict[str, Any]]:
    """One replica's records as stored, from the beginning, until `stop` or the end. `query`: any node or partition."""
    exchange = state.runs.node(query).exchange
    woken, last = threading.Event(), Buckets(state.spec.bucket_us).last
    feeds = set(topics.own_feeds(state.spec.name, query, replica, count_of(exchange)))
    with closing(log.lookup()) as lookup, closing(log.reader(woken.set)) as reader:
        for feed in feeds:
            reader.open(feed, lookup.bounds(feed)[0])
        while feeds and not stop.is_set():
            woken.clear()
            try:
                records = reader.poll()
            except OffsetGone as gone:  # replicas delete what nobody needs (R16.12), and whoever looks may be slow
                logger.warning("deleted records skipped", topic=gone.feed.topic, offset=gone.offset)
                reader.open(gone.feed, lookup.bounds(gone.feed)[0])
                continue
            for feed, record in raw_records(records):
                yield record if exchange is None else {"partition": feed.partition, **record}
                if record.get("end", 0) >= last:  # of a boundary: the sources have ended
                    feeds.discard(feed)
            woken.wait(IDLE_S if feeds else 0)


def publisher(
    source: str,
    lateness: str | None = None,
    boundary: Boundary = "clock",
    *,
    app: str | None = None,
    bootstrap: str | None = None,
    kafka: Mapping[str, str] | None = None,
    take_over: bool = False,
) -> Publisher:
    """A publisher of one source of a running app: `with publisher("ewr") as p: p.send({...})`.

    Args:
        lateness: how long after its stime a row may arrive, like "2s". Required for `send(stime=...)`, where rows carry
            their own times. None: each row gets the time at which it is sent ("clock"), or rows arrive in stime order
            ("data"). Results are delayed by this much; rows that arrive even later are dead letters.
        boundary: what advances the promise that no older row follows. "clock": the clock minus the lateness, even while
            nothing is sent; use it only if no rows are in transit then. "data": the largest stime sent minus the
            lateness; it stops while nothing is sent, so that silence counts as a missing input. "paced": the clock, but
            never past `Publisher.hold`; for a replay, which knows its next row and has no lateness.
        app: required if the broker serves several apps.
        bootstrap, kafka: broker address and librdkafka properties. They override borealis.yaml and BOREALIS_*, which
            apply as in commands.
        take_over: replace an active publisher of this source.

    Raises:
        AppError: unknown app or source.
        LogUnreachable: no broker.
        ConfigError: an invalid setting.
        QueryError: the lateness is not a duration.
        ValueError: an unknown `boundary`, or a lateness for a replay.
    """
    if boundary not in get_args(Boundary):
        raise ValueError(f"source {source!r}: boundary={boundary!r}; choose clock, data or paced")
    if boundary == "paced" and lateness is not None:
        raise ValueError(f"source {source!r}: a replay knows which row comes next, and has no lateness")
    lateness_us = None if lateness is None else parse_duration(lateness, f"lateness of {source!r}", zero=True)
    log = _log(bootstrap, kafka)
    state = read_app(log, app)
    spec = state.spec
    schema = state.published_schema(source)
    ahead_max_us = state.timing.ahead_max_us
    return Publisher(
        log,
        spec.name,
        state.app_uid,
        source,
        schema,
        spec.bucket_us,
        state.origin,
        take_over=take_over,
        boundaries=Boundaries[boundary.upper()],
        lateness_us=lateness_us,
        ahead_max_us=ahead_max_us,
        row_max_bytes=state.timing.row_max_bytes,
    )


def _log(bootstrap: str | None, kafka: Mapping[str, str] | None) -> KafkaLog:
    return log_of(load(bootstrap=bootstrap, kafka=None if kafka is None else dict(kafka)))


def read(
    query: str,
    *,
    app: str | None = None,
    bootstrap: str | None = None,
    kafka: Mapping[str, str] | None = None,
) -> Iterator[TypedRow | CorrectedGap]:
    """The results that a query has now: stable rows, in order, each once; partition by partition. Ends.

    What is published after the call is not in it: `subscribe` follows. Of a query with `guarantee="gap"`, a partition's
    `CorrectedGap`s come before its rows. To have all in one table: `pandas.DataFrame(row.value for row in read(...))`.

    Args:
        app: required if the broker serves several apps.
        bootstrap, kafka: as for `publisher`.

    Raises:
        AppError, QueryError: unknown app or query.
        LogUnreachable: no broker.
        ConfigError: an invalid setting.
    """
    log = _log(bootstrap, kafka)
    state = read_app(log, app)
    return typed(corrected_now(log, state, query), columns_of(state, query))


def subscribe(
    query: str,
    view: ViewName = "corrected",
    *,
    app: str | None = None,
    bootstrap: str | None = None,
    kafka: Mapping[str, str] | None = None,
    from_beginning: bool = True,
    replica: int = 0,
    stop: threading.Event | None = None,
) -> Iterator[Any]:
    """Follow a query's result until its sources have ended, which may be never: `read` ends.

    Args:
        view: "corrected" yields `Row`s (stable, in order, each once) and, of a query with `guarantee="gap"`,
            `CorrectedGap`s; "live" yields `LiveChange`s (tentative now, stable later); "raw" yields one replica's
            records as dicts, of any node.
        app: required if the broker serves several apps.
        bootstrap, kafka: as for `publisher`.

    Raises:
        AppError, QueryError: unknown app or query.
        LogUnreachable: no broker.
        ConfigError: an invalid setting.
        ValueError: an unknown `view`.
        RetentionLost: while a live view is read: no replica keeps its next bucket any more.
    """
    if view not in get_args(ViewName):
        raise ValueError(f"query {query!r}: view={view!r}; choose corrected, live or raw")
    log = _log(bootstrap, kafka)
    state = read_app(log, app)
    stop = stop or threading.Event()
    if view == "live":
        return live(log, state, query, from_beginning, stop)
    if view == "raw":
        return raw(log, state, query, replica, stop)
    return corrected(log, state, query, from_beginning, stop)
