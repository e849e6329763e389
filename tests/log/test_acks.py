"""Acknowledgements as records: what comes back, and what has no effect or raises doubts (R16)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, cast

import pytest

from borealis_py.log.acks import Forgotten, LastNeeds, ack_record, audit_record, forget_record, read_ack, read_audit
from borealis_py.log.base import Feed, Lookup, NewRecord, Record
from borealis_py.log.description import Life
from borealis_py.protocol.trimming import Need, ReplicaName
from sunion.units import Bucket, Offset
from tests.support.instant_log import InstantLog

NAME = ReplicaName("clean.1", 2)
NEED = Need(
    inc=3, uid="u", number=4, bucket=17_000, offsets={"web": 5, "till.0": 0}, published=16_990, place="m1:/data"
)
GOLDEN = (
    b'{"app_uid":"a1","inc":3,"uid":"u","number":4,"bucket":17000,"offsets":{"web":5,"till.0":0},'
    b'"published":16990,"place":"m1:/data","version":1}'
)


def record(key: bytes | None, value: bytes | None) -> Record:
    return Record(Feed("app.acks"), 7, 0, key, value)


def changed(**fields: Any) -> bytes:
    return json.dumps({**json.loads(GOLDEN), **fields}).encode()


def test_what_is_written_is_this_and_comes_back() -> None:
    new = ack_record("app", "a1", NAME, NEED)
    assert (new.feed, new.key, new.value) == (Feed("app.acks"), b"clean.1/2", GOLDEN)
    assert read_ack(record(new.key, new.value), Life("a1")) == (NAME, NEED)


def test_a_replica_that_was_given_up_comes_back_as_that() -> None:
    new = forget_record("app", "a1", NAME)
    assert (new.feed, new.key) == (Feed("app.acks"), b"clean.1/2")
    assert read_ack(record(new.key, new.value), Life("a1")) == (NAME, Forgotten("a1"))
    assert read_ack(record(new.key, new.value), Life("a2")) is None


def test_another_life_has_no_effect() -> None:
    assert read_ack(record(b"clean.1/2", GOLDEN), Life("a2")) is None
    assert read_ack(record(b"clean.1/2", changed(version=2, app_uid="a0")), Life("a1")) is None


@pytest.mark.parametrize(
    "key", [None, b"", b"clean", b"/1", b"clean/", b"clean/01", b"clean/-1", b"clean/" + b"9" * 5_000, b"\xff/x"]
)
def test_a_key_of_no_replica_has_no_effect(key: bytes | None) -> None:
    assert read_ack(record(key, GOLDEN), Life("a1")) is None


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"\xff",
        b"[" * 10_000,
        b"null",
        GOLDEN[:-2],
        changed(bucket=-1),
        changed(bucket=2**60),
        changed(number="1"),
        changed(offsets={"web": -1}),
        changed(offsets=None),
        changed(published=-1),
    ],
)
def test_garbage_under_a_replica_s_key_puts_what_it_needs_in_doubt(value: bytes | None) -> None:
    assert read_ack(record(b"clean.1/2", value), Life("a1")) == (NAME, "acknowledgement is garbage")


def test_so_does_another_version() -> None:
    assert read_ack(record(b"clean.1/2", changed(version=2, bucket="new")), Life("a1")) == (
        NAME,
        "acknowledgement of version 2",
    )


AUDIT = b'{"app_uid":"a1","bucket":17000,"offsets":{"web":5,"till.0":0},"version":1}'


def test_the_end_of_an_audit_is_this_and_comes_back() -> None:
    offsets = {"web": Offset(5), "till.0": Offset(0)}
    new = audit_record("app", "a1", "sales", Bucket(17_000), offsets)
    assert (new.feed, new.key, new.value) == (Feed("app.acks"), b"sales/audit", AUDIT)
    assert read_audit(record(new.key, new.value), Life("a1")) == ("sales", offsets)
    assert read_audit(record(new.key, new.value), Life("a2")) is None


def test_audits_and_replicas_do_not_take_each_other_s_records(caplog: pytest.LogCaptureFixture) -> None:
    assert read_ack(record(b"sales/audit", AUDIT), Life("a1")) is None
    assert read_audit(record(b"clean.1/2", GOLDEN), Life("a1")) is None
    assert caplog.text == ""


@pytest.mark.parametrize("value", [None, b"", b"{}", AUDIT.replace(b"5", b"-5"), AUDIT.replace(b":1}", b":2}")])
def test_an_end_of_an_audit_that_cannot_be_used_is_in_doubt(value: bytes | None) -> None:
    assert read_audit(record(b"sales/audit", value), Life("a1")) == ("sales", None)


def test_of_each_replica_the_last_word_of_its_highest_incarnation_counts() -> None:
    """A zombie speaks on after its successor has; who was given up said what it needed before."""
    other, third = ReplicaName("clean.1", 0), ReplicaName("sum", 2)
    log = InstantLog()
    log.create(["app.acks"])
    newer, last = replace(NEED, inc=4, place="m2:/data"), replace(NEED, inc=4, number=5, place="m2:/data")
    for name, need in ((NAME, NEED), (NAME, newer), (other, NEED), (NAME, last), (NAME, replace(NEED, number=9))):
        log.put(ack_record("app", "a1", name, need))
    log.put(
        forget_record("app", "a1", other), ack_record("app", "a0", third, NEED), ack_record("app", "a1", third, newer)
    )
    log.put(NewRecord(Feed("app.acks"), b"{", b"sum/2"), audit_record("app", "a1", "sum", Bucket(9), {}))
    assert LastNeeds("app", Life("a1")).read(log.lookup()) == {NAME: last, other: NEED, third: newer}


def test_what_was_read_is_not_read_again_and_who_has_a_number_first_owns_it() -> None:
    log, read = InstantLog(), list[tuple[int, int]]()
    log.create(["app.acks"])
    it, lookup = LastNeeds("app", Life("a1")), cast(Lookup, Reads(log.lookup(), read))
    log.put(ack_record("app", "a1", NAME, NEED))
    assert it.read(lookup) == {NAME: NEED}
    twin, later = replace(NEED, uid="twin", number=9), replace(NEED, number=5)
    log.put(ack_record("app", "a1", NAME, twin), ack_record("app", "a1", NAME, later))
    assert it.read(lookup) == {NAME: later}
    assert read == [(0, 1), (1, 3)]


class Reads:
    """A lookup that notes what is read in `ranges`."""

    def __init__(self, lookup: Lookup, ranges: list[tuple[int, int]]) -> None:
        self._lookup, self._ranges = lookup, ranges
        self.bounds = lookup.bounds

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        self._ranges.append((first, end))
        return self._lookup.read(feed, first, end)
