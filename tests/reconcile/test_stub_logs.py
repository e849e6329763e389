"""The logs that travel to Spark's workers answer as the simulated log does, which the contract suite compares with
Kafka.
"""

from __future__ import annotations

import pytest

from borealis_py.log.base import Feed, Lookup, NewRecord, OffsetGone, Record
from tests.reconcile.audits import CorrectedLog
from tests.reconcile.list_world import StubLog
from tests.support.instant_log import InstantLog
from tests.support.resume import last_number

FEED, VALUES = Feed("t"), [b"a", b"b", None, b"c", b"d"]


def found(lookup: Lookup, first: int, end: int) -> list[tuple[Feed, int, bytes | None]]:
    return [(r.feed, r.offset, r.value) for r in lookup.read(FEED, first, end)]


@pytest.mark.parametrize("lost", [0, 2, 5])
def test_values_and_what_retention_took_of_them(lost: int) -> None:
    log = InstantLog()
    log.create([FEED.topic])
    log.put(*(NewRecord(FEED, value) for value in VALUES))
    log.delete_before(FEED, lost)
    simulated, stub = log.lookup(), StubLog({FEED.topic: VALUES}, lost).lookup()
    assert stub.bounds(FEED) == simulated.bounds(FEED) == (lost, 5)
    for first in range(lost, 6):
        for end in range(first, 6):
            assert found(stub, first, end) == found(simulated, first, end)
    for lookup in (simulated, stub) if lost else ():
        with pytest.raises(OffsetGone) as gone:
            found(lookup, lost - 1, 5)
        assert (gone.value.feed, gone.value.offset) == (FEED, lost - 1)


def test_a_marker_has_an_offset_and_is_no_record() -> None:
    log = InstantLog()
    log.create([FEED.topic, "progress"])
    transactor = log.transactor("w", Feed("progress"), lambda: None, last_number(Feed("progress")))
    transactor.take_over(1)
    for value in (b"a", b"b"):
        transactor.commit(1, lambda value=value: [NewRecord(FEED, value)])
    a, b = (Record(FEED, 0, 0, None, value) for value in (b"a", b"b"))
    simulated, stub = log.lookup(), CorrectedLog({FEED.topic: [a, None, b, None]}).lookup()
    assert stub.bounds(FEED) == simulated.bounds(FEED) == (0, 4)
    assert found(stub, 0, 4) == found(simulated, 0, 4) == [(FEED, 0, b"a"), (FEED, 2, b"b")]
