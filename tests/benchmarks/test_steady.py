"""Steady backlogs: what lies in a source's log is what the truth is of."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from benchmarks.load.steady import BUCKETS, ORIGIN, UID, Steady
from borealis_py.bench.events import BUCKET_US, START_US, WINDOW_US
from borealis_py.log.base import Feed
from borealis_py.log.records import BatchHeader, ClaimHeader, unpack_source, unpack_stimes

ROWS = Steady((3, 2), 25)


def test_a_log_is_a_claim_and_a_record_a_bucket_that_closes_it() -> None:
    claim, *batches = [unpack_source(record.value) for record in ROWS.records(Feed("s"), "a1", 0)]
    assert claim[0] == ClaimHeader("a1", 1, UID)
    assert len(batches) == ROWS.buckets
    for number, (header, payload) in enumerate(batches):
        assert isinstance(header, BatchHeader)
        stimes, rows = list(unpack_stimes(header.stimes)), json.loads(bytes(payload))
        assert [row["at"] for row in rows] == stimes
        assert {BUCKETS.of(at) for at in stimes} == {ORIGIN + number}
        assert (header.first_seq, header.boundary) == (3 * number, START_US + (number + 1) * BUCKET_US)


def test_the_truth_is_that_of_the_rows_in_the_logs() -> None:
    counts: Counter[tuple[int, str]] = Counter()
    sums: Counter[tuple[int, str]] = Counter()
    for source in range(2):
        for record in ROWS.records(Feed("s"), "a1", source):
            header, payload = unpack_source(record.value)
            for row in json.loads(bytes(payload)) if isinstance(header, BatchHeader) else ():
                key = row["at"] // WINDOW_US * WINDOW_US, row["customer"]
                counts[key] += 1
                sums[key] += row["amount"]
    assert ROWS.truth() == {key: (n, sums[key]) for key, n in counts.items()}
    assert sum(counts.values()) == ROWS.rows == 125


def test_no_two_sources_have_the_same_event() -> None:
    ones = [i for source in range(2) for b in range(ORIGIN, ROWS.end) for i in ROWS.events(source, b)]
    assert len(set(ones)) == len(ones)


def test_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one of each"):
        Steady((3, 0), 5)
