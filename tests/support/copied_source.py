"""An app with a source that an ingress writes, on a log of a test: its topics, settings and statuses by hand."""

from __future__ import annotations

import time
from typing import Any

import msgspec

from borealis_py.app.state import AppState
from borealis_py.app.topics import topics_of
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.description import APP_KEY
from borealis_py.log.ingress_status import IngressStatus, status_key
from borealis_py.log.messages import Description, encode
from borealis_py.log.records import BatchHeader, pack
from borealis_py.query import App
from tests.harness.waiting import PATIENCE_S
from tests.support.instant_log import InstantBroker, InstantLog


def described(**more: Any) -> AppState:
    """App shop: orders of two partitions, a source of its own, and a query over both that waits 2.75 s."""
    app = App("shop")
    orders = app.topic("orders", topic="prod.orders", schema={"euros": "double"}, partitions=2, **more)
    own = app.source("own", schema={"euros": "double"})
    app.query("q", app.union(orders, own), "3s")
    spec = app.describe()
    return AppState("shop", spec, Description(spec.to_json(), spec.hash, 1, "", "a1"))


def described_log() -> InstantLog:
    """The app's topics, and its description."""
    made, state = InstantBroker().log(), described()
    made.admin().create(topics_of(state.spec))
    put(made, topics.settings("shop"), APP_KEY, encode(state.description))
    return made


def put(log: InstantLog, topic: str, key: str | bytes, value: bytes, partition: int = 0) -> None:
    appender = log.appender(lambda: None)
    appender.append(NewRecord(Feed(topic, partition), value, key.encode() if isinstance(key, str) else key))
    assert appender.flush(PATIENCE_S)
    appender.close()


def tell(log: InstantLog, status: IngressStatus, **changes: Any) -> None:
    told = msgspec.structs.replace(status, at_wall_us=time.time_ns() // 1_000, **changes)
    put(log, "shop.status", status_key(told.source, told.ingress), encode(told))


def copy(log: InstantLog, index: int, *partitions: int, app_uid: str = "a1") -> None:
    """A record of an input's log that says how far these partitions have been copied."""
    header = BatchHeader(app_uid, 1, "u", 0, b"", 100_000, "arrow", 0, (), tuple((p, 7) for p in partitions))
    put(log, "shop.orders", b"", pack(header, b""), index)
