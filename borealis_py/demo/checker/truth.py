"""The right answers, recomputed from the raw flights in pandas. Knows nothing of Kafka or of records.

A result row is a tuple of the query's columns, its stime last. `QUERIES` is the table to adapt when the app changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

FlightValue = int | float | str | None
FlightRow = tuple[FlightValue, ...]
PartialRows = Mapping[tuple[int, str], int]

SOURCES = ("ewr", "jfk", "lga")
WINDOW_US = 1_000_000


@dataclass(frozen=True)
class TrueQuery:
    """One query of the demo's app: the schema of its rows in replica streams and how pandas computes it.

    `reach_us`: how far before its own bucket a result's input may lie.
    """

    name: str
    schema: pa.Schema
    compute: Callable[[pd.DataFrame], list[FlightRow]]
    reach_us: int

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of a corrected row: the stime travels in a header there."""
        return tuple(self.schema.names[:-1])


def _carrier_delays(flights: pd.DataFrame) -> list[FlightRow]:
    known = flights[flights.dep_delay.notna()]
    start = known.stime // WINDOW_US * WINDOW_US
    groups = (known.dep_delay / 60.0).groupby([start, known.carrier], sort=True).agg(["size", "mean"])
    return [
        (int(at), int(at) + WINDOW_US, str(carrier), int(count), float(mean), int(at) + WINDOW_US - 1)
        for (at, carrier), count, mean in zip(groups.index, groups["size"], groups["mean"], strict=True)
    ]


def _very_late(flights: pd.DataFrame) -> list[FlightRow]:
    late = flights[flights.dep_delay > 120]
    return [(str(c), float(d), int(s)) for c, d, s in zip(late.carrier, late.dep_delay, late.stime, strict=True)]


QUERIES: Mapping[str, TrueQuery] = {
    query.name: query
    for query in (
        TrueQuery(
            "carrier_delays",
            pa.schema(
                [
                    ("window_start", pa.int64()),
                    ("window_end", pa.int64()),
                    ("carrier", pa.string()),
                    ("flights", pa.int64()),
                    ("mean_delay_hours", pa.float64()),
                    ("stime", pa.int64()),
                ]
            ),
            _carrier_delays,
            reach_us=WINDOW_US,
        ),
        TrueQuery(
            "very_late",
            pa.schema([("carrier", pa.string()), ("dep_delay", pa.float64()), ("stime", pa.int64())]),
            _very_late,
            reach_us=0,
        ),
    )
}


def load_flights(archive: Path, days: int, t0_us: int) -> pd.DataFrame:
    """The flights of the first `days` days of 2013 in total order: (stime, source, place in the source).

    Returns:
        Columns `source` (index into SOURCES), `minutes` (since 2013-01-01), `stime` (us), `carrier`, `dep_delay` (NaN:
        none).
    """
    raw = pd.read_csv(
        archive,
        usecols=["year", "month", "day", "sched_dep_time", "dep_delay", "carrier", "origin"],
        keep_default_na=False,
        na_values={"dep_delay": ["", "NA"]},
    )
    midnight = pd.to_datetime(raw[["year", "month", "day"]])
    day = (midnight - pd.Timestamp(2013, 1, 1)).dt.days
    minutes = day * 1440 + raw.sched_dep_time // 100 * 60 + raw.sched_dep_time % 100
    flights = pd.DataFrame(
        {
            "source": raw.origin.str.lower().map({name: i for i, name in enumerate(SOURCES)}).astype("int64"),
            "minutes": minutes.astype("int64"),
            "stime": (t0_us + minutes * 60_000_000 // 86_400).astype("int64"),
            "carrier": raw.carrier,
            "dep_delay": raw.dep_delay.astype("float64"),
        }
    )[day < days]
    order = np.lexsort((flights.source, flights.stime))  # stable: ties keep the order of the raw file
    return flights.iloc[order].reset_index(drop=True)


@dataclass(frozen=True)
class FlightsTruth:
    """What a query must say about each bucket, with all inputs or with fewer."""

    query: TrueQuery
    flights: pd.DataFrame
    bucket_us: int

    def stable(self) -> dict[int, list[FlightRow]]:
        """Rows by bucket, on complete input; buckets without rows are left out."""
        return self._by_bucket(self.query.compute(self.flights))

    def tentative(
        self, bucket: int, missing_sources: Mapping[int, Sequence[str]], partial: PartialRows | None = None
    ) -> list[FlightRow]:
        """Rows of `bucket` when sources `missing_sources[b]` were missing in bucket b; others lacked none.

        `partial[b, source]`: so many of the first rows were there although the source was missing (its boundary was).
        """
        near = self.near(bucket)
        buckets, sources = (near.stime // self.bucket_us).to_numpy(), near.source.to_numpy()
        keep = np.ones(len(near), dtype=bool)
        for b, names in missing_sources.items():
            gone = [i for i, name in enumerate(SOURCES) if name in names]
            keep &= ~((buckets == b) & np.isin(sources, gone))
        for (b, source), count in (partial or {}).items():
            keep[np.flatnonzero((buckets == b) & (sources == SOURCES.index(source)))[:count]] = True
        return self._by_bucket(self.query.compute(near[keep])).get(bucket, [])

    def near(self, bucket: int) -> pd.DataFrame:
        """The flights that can matter to a result in `bucket`."""
        stimes = self.flights.stime.to_numpy()
        low, high = self.reach(bucket) * self.bucket_us, (bucket + 1) * self.bucket_us
        return self.flights.iloc[np.searchsorted(stimes, low) : np.searchsorted(stimes, high)]

    def count(self, bucket: int, source: str) -> int:
        """How many flights of `source` fall into `bucket`."""
        near = self.near(bucket)
        return int(((near.stime // self.bucket_us == bucket) & (near.source == SOURCES.index(source))).sum())

    def reach(self, bucket: int) -> int:
        """The first bucket whose input can matter to a result in `bucket`."""
        return (bucket * self.bucket_us - self.query.reach_us) // self.bucket_us

    def depends(self, bucket: int) -> range:
        """The buckets whose input a result in `bucket` depends on."""
        first = ((bucket + 1) * self.bucket_us - self.query.reach_us) // self.bucket_us
        return range(min(bucket, first), bucket + 1)

    def has_results(self, bucket: int) -> bool:
        """Whether a result can fall into `bucket` at all: for windows, only where one ends."""
        if not self.query.reach_us:
            return True
        return bucket * self.bucket_us // WINDOW_US != (bucket + 1) * self.bucket_us // WINDOW_US

    def _by_bucket(self, rows: list[FlightRow]) -> dict[int, list[FlightRow]]:
        found: dict[int, list[FlightRow]] = {}
        for row in rows:
            stime = row[-1]
            assert isinstance(stime, int)
            found.setdefault(stime // self.bucket_us, []).append(row)
        return found
