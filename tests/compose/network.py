"""The two queries of the flights as plain functions, for the independent checker. Rows are (carrier, delay, stime).

The mean of a window travels as what it is the mean of, in minutes to six places: delays are whole minutes, so sums of
doubles in whatever order agree there, and nothing else does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from tests.drills.checker.evidence import Published
from tests.drills.checker.network import Network, Row, Stage, stime_of

SOURCES = ("ewr", "jfk", "lga")
COLUMNS = ("carrier", "dep_delay")
BUCKET_US = 100_000
WINDOW_US = 1_000_000
MEAN = "mean_delay_hours"


def carrier_delays(rows: Sequence[Row]) -> list[Row]:
    """Flights and mean delay of each carrier in each second; cancelled flights have none."""
    groups: dict[tuple[int, str], list[float]] = {}
    for row in rows:
        if row[1] is not None:
            at = stime_of(row) // WINDOW_US * WINDOW_US
            groups.setdefault((at, str(row[0])), []).append(float(row[1]))
    return [
        (at, at + WINDOW_US, carrier, len(delays), round(sum(delays), 6), at + WINDOW_US - 1)
        for (at, carrier), delays in sorted(groups.items())
    ]


def very_late(rows: Sequence[Row]) -> list[Row]:
    """Flights that left more than two hours late."""
    return [row for row in rows if row[1] is not None and float(row[1]) > 120]


def comparable(row: Mapping[str, Any]) -> dict[str, Any]:
    """A corrected row as `carrier_delays` has it; others as they are."""
    if MEAN not in row:
        return dict(row)
    return {**row, MEAN: round(row[MEAN] * 60 * row["flights"], 6)}


def all_comparable(rows: Sequence[Published]) -> list[Published]:
    """The same for what lies in the corrected topic."""
    return [row if row.row is None else replace(row, row=comparable(row.row)) for row in rows]


_DELAYS = pa.schema(
    [
        ("window_start", pa.int64()),
        ("window_end", pa.int64()),
        ("carrier", pa.string()),
        ("flights", pa.int64()),
        (MEAN, pa.float64()),
        ("stime", pa.int64()),
    ]
)
_LATE = pa.schema([("carrier", pa.string()), ("dep_delay", pa.float64()), ("stime", pa.int64())])

NETWORKS = {
    stage.name: Network(SOURCES, COLUMNS, BUCKET_US, (stage,))
    for stage in (
        Stage("carrier_delays", _DELAYS, carrier_delays, origin=0, reach_us=WINDOW_US),
        Stage("very_late", _LATE, very_late, origin=0),
    )
}
