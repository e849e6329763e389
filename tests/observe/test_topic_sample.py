"""Which columns a sample of a topic shows to be absent. No broker."""

from __future__ import annotations

from typing import Any, cast

import pytest

from borealis_py.ingress.absent_columns import SAID_AFTER
from borealis_py.ingress.decoders import decoder_for
from borealis_py.log.base import Feed, Log, Record
from borealis_py.observe.topic_sample import UnknownTopic, absent_in
from borealis_py.query.ingress_spec import IngressSpec

COLUMNS = {"id": "int64", "euros": "double", "at": "int64"}


class Sampled:
    """A log with one topic of two partitions, with these values one after the other in both."""

    def __init__(self, *values: bytes | None) -> None:
        self.values = [list(values[p::2]) for p in (0, 1)]

    def admin(self) -> Sampled:
        return self

    def lookup(self) -> Sampled:
        return self

    def close(self) -> None:
        pass

    def partitions(self, topic: str) -> int:
        return 2 if topic == "prod.t" else 0

    def topics(self) -> list[str]:
        return ["prod.t"]

    def bounds(self, feed: Feed) -> tuple[int, int]:
        return 0, len(self.values[feed.partition])

    def read(self, feed: Feed, first: int, end: int) -> list[Record]:
        return [Record(feed, i, 1, None, v) for i, v in enumerate(self.values[feed.partition])][first:end]


def absent(*values: bytes | None, most: int = 1_000, **more: Any) -> list[tuple[str, int, str]]:
    spec = IngressSpec(topic="prod.t", stime="at", lateness_us=0, inputs=2, **more)
    decoder = decoder_for("t", spec, COLUMNS, 1_000_000)
    return [one[:3] for one in absent_in(cast(Log, Sampled(*values)), "prod.t", decoder, most)]


def test_the_field_that_is_nearest_is_named() -> None:
    assert absent(b'{"id":1,"Euros":2,"at":3}', b'{"id":1,"Euros":2,"at":3}') == [("euros", 2, "Euros")]


def test_one_record_of_any_partition_that_has_it_is_enough_a_null_too() -> None:
    assert absent(b'{"id":1,"Euros":2,"at":3}', b'{"id":1,"euros":null,"at":3}') == []


def test_one_without_a_near_name_needs_many_records() -> None:
    value = b'{"id":1,"at":3}'
    assert absent(*[value] * (SAID_AFTER - 1)) == []
    assert absent(*[value] * SAID_AFTER) == [("euros", SAID_AFTER, "")]


def test_only_the_newest_count_and_what_cannot_be_read_says_nothing() -> None:
    old, new = b'{"id":1,"euros":2,"at":3}', b'{"id":1,"Euros":2,"at":3}'
    assert absent(old, old, new, new, most=2) == [("euros", 2, "Euros")]
    assert absent(b"no JSON", None) == []
    assert absent() == []


def test_a_topic_that_is_not_there_is_refused_with_the_nearest() -> None:
    decoder = decoder_for("t", IngressSpec(topic="prod.s", lateness_us=0, inputs=1), COLUMNS, 1_000_000)
    with pytest.raises(UnknownTopic, match=r"did you mean 'prod\.t'"):
        absent_in(cast(Log, Sampled()), "prod.s", decoder, 10)
