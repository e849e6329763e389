"""What `make compose-test` judges with: its own reading of the queries, and of what the subscriber printed."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest

from borealis_py.demo.checker.__main__ import packaged_flights
from borealis_py.demo.checker.truth import QUERIES, load_flights
from tests.compose.network import MEAN, NETWORKS, SOURCES, all_comparable, comparable
from tests.compose.verdict import session_of
from tests.drills.checker.evidence import Published
from tests.drills.checker.network import Row

T0_US = 1_795_000_000_000_000
DAYS = 3


@pytest.mark.parametrize("query", NETWORKS)
def test_both_checkers_compute_the_same(query: str) -> None:
    flights = load_flights(packaged_flights(), DAYS, T0_US)
    tuples: dict[str, list[Row]] = {source: [] for source in SOURCES}
    for one in flights.itertuples():
        delay = None if math.isnan(one.dep_delay) else float(one.dep_delay)
        tuples[SOURCES[one.source]].append((str(one.carrier), delay, int(one.stime)))
    names = QUERIES[query].columns
    expected = [comparable(dict(zip(names, row[:-1], strict=True))) for row in QUERIES[query].compute(flights)]
    assert len(expected) > 20
    assert [dict(zip(names, row[:-1], strict=True)) for row in NETWORKS[query].run(tuples)] == expected


def test_a_mean_that_is_off_by_little_is_another_one() -> None:
    row = {"carrier": "UA", "flights": 3, MEAN: 7 / 60.0}
    assert comparable({**row, MEAN: math.nextafter(row[MEAN], 1)}) == comparable(row)
    assert comparable({**row, MEAN: row[MEAN] * (1 + 1e-6)}) != comparable(row)
    published = Published(0, (1, 0), 9, row)
    assert all_comparable([published, replace(published, row=None)]) == [
        replace(published, row={**row, MEAN: 21.0}),
        replace(published, row=None),
    ]


def test_what_was_printed_is_read_line_by_line() -> None:
    line = json.dumps({"id": "17:2", "stime": 5, "value": {"carrier": "UA", "dep_delay": 130.0}})
    session = session_of(f"{line}\n")
    assert [(s.bucket, s.index, s.rows) for s in session.seen] == [(17, 2, ({"carrier": "UA", "dep_delay": 130.0},))]
    assert session.complete
