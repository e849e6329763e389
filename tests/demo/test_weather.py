"""The demo's table is what the package has, and what the demo says of it is what the rows say."""

from __future__ import annotations

import csv

import pytest

from borealis_py.demo import weather
from borealis_py.demo.data import flights_archive
from borealis_py.demo.sight import sight_of
from borealis_py.demo.weather import TABLE, table_of

HOUR = {"origin": "EWR", "year": "2013", "month": "3", "day": "9", "hour": "7", "visib": "0.5", "precip": "0.01"}


def test_the_file_is_what_the_package_has() -> None:
    with (flights_archive().parent / "weather.csv").open(newline="") as observed:
        expected = list(table_of(csv.DictReader(observed)))
    with TABLE.open(newline="") as file:
        names, *rows = csv.reader(file)
    assert tuple(names) == weather.COLUMNS
    assert [tuple(row) for row in rows] == expected
    assert len(expected) == len({row[:2] for row in expected}) == 26_112


def test_of_an_hour_that_comes_twice_the_first_counts() -> None:
    rows = [HOUR, HOUR | {"visib": "9"}, HOUR | {"origin": "JFK"}]
    assert list(table_of(rows)) == [("EWR", "2013-03-09T07", "0.5", "0.01"), ("JFK", "2013-03-09T07", "0.5", "0.01")]


def test_rows_say_how_far_one_could_see() -> None:
    rows = [
        {"hour": "2013-01-01T00", "visibility": 10.0},
        {"hour": "2013-01-02T12", "visibility": 3.0},
        {"hour": "2013-01-02T13", "visibility": 0.25},
        {"hour": "2013-01-02T13", "visibility": 0.5},
        {"hour": "2013-01-03T05", "visibility": None},
    ]
    found = sight_of(rows, 100_000)
    assert (found.flights, found.reported, found.poor) == (5, 4, 2)
    assert [at for at, _ in found.worst] == pytest.approx([0.0, 1.5])  # 13:00 is 1.54 s, in the same 100 ms
    assert [miles for _, miles in found.worst] == [10.0, 0.25]


def test_without_rows_there_is_nothing_to_say() -> None:
    assert sight_of([], 100_000).worst == ()
