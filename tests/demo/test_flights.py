"""The demo's app computes what its model in pandas does: twelve days of real flights, with real weather."""

from __future__ import annotations

import pytest

from borealis_py.demo.data import flights_archive
from borealis_py.demo.flights import app
from borealis_py.demo.model import COLUMNS, NETWORKS, load_flights, tuples_of
from borealis_py.testing import run
from borealis_py.verify.network import agrees, stime_of

T0 = 1_700_000_000_000_000
DAYS = 12


@pytest.fixture(scope="module")
def tuples() -> dict[str, list[tuple[object, ...]]]:
    return tuples_of(load_flights(flights_archive(), DAYS, T0))


def test_the_app_computes_what_the_model_does(tuples: dict[str, list[tuple[object, ...]]]) -> None:
    rows = {
        source: [(stime_of(row), dict(zip(COLUMNS, row[:-1], strict=True))) for row in some]
        for source, some in tuples.items()
    }
    results = run(app, rows)
    assert not results.dead_letters
    for query, network in NETWORKS.items():
        found = [(*row.value.values(), row.stime) for row in results.corrected(query)]
        assert agrees(found, network.run(tuples))
    late = results["very_late"]
    assert len(late) > 20
    assert len({(row["visibility"], row["rain"]) for row in late}) > 1
