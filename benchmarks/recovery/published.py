"""What the paper found: data, with the lines of its text (`H n`). Nothing else in this package has a figure of it.

Figures 6 and 7 have no values in the text beyond those in `STATED`; they are there as pictures only.
"""

from __future__ import annotations

from typing import NamedTuple

PASSIVE, ACTIVE, UPSTREAM, AMNESIA = "passive standby", "active standby", "upstream backup", "amnesia"
OVERHEAD, RECOVERY = "overhead %", "recovery ms"


class PublishedRow(NamedTuple):
    """One row: `values` in the order of the table's columns; None: not given."""

    way: str
    measure: str
    lines: str
    values: tuple[float | None, ...]


NETWORKS = ("filter", "aggregate", "union")
"""Repeatable, convergent-capable, non-deterministic (H 263): the columns of table 6."""
TABLE_6 = (
    PublishedRow(UPSTREAM, OVERHEAD, "H 267", (0.64, 0.64, 1.28)),
    PublishedRow(ACTIVE, OVERHEAD, "H 269", (100.96, 100.96, 101.91)),
    PublishedRow(PASSIVE, OVERHEAD, "H 271", (101.27, 111.55, 101.90)),
    PublishedRow(UPSTREAM, RECOVERY, "H 267", (47.62, 69.86, 50.92)),
    PublishedRow(ACTIVE, RECOVERY, "H 269", (1.80, 0.07, 1.82)),
    PublishedRow(PASSIVE, RECOVERY, "H 271", (45.88, 48.88, 47.24)),
)
WINDOWS = (100, 200, 300, 400, 500)
TABLE_7 = (
    PublishedRow(PASSIVE, OVERHEAD, "H 279-287", (111.55, 111.55, 111.54, 111.54, 111.54)),
    PublishedRow(PASSIVE, RECOVERY, "H 279-287", (48.9, 51.7, 54.6, 60.0, 63.9)),
    PublishedRow(UPSTREAM, RECOVERY, "H 279-287", (69.9, 98.9, 138.7, 188.5, 248.3)),
)
ADVANCES = (100, 50, 25, 10, 5)
TABLE_8 = (
    PublishedRow(PASSIVE, OVERHEAD, "H 291-299", (102.6, 103.6, 105.6, 111.6, 121.5)),
    PublishedRow(PASSIVE, RECOVERY, "H 291-299", (47.5, 47.5, 47.6, 48.8, 51.6)),
    PublishedRow(UPSTREAM, RECOVERY, "H 291-299", (62.6, 61.4, 61.3, 69.9, 83.8)),
)
INTERVALS_MS = (25, 50, 100, 150, 200)
"""Of figure 6 (H 253)."""
OPERATORS = (1, 2, 3, 4, 5)
"""Of figure 7 (H 317)."""
STATED = {
    "figure 6": PublishedRow(UPSTREAM, OVERHEAD, "H 255", (0.64, None, None, None, None)),
    "figure 7": PublishedRow(UPSTREAM, RECOVERY, "H 317", (None, None, None, None, 170.0)),
}
"""The values of figures that the text states."""
PRECISE_MORE = {
    UPSTREAM: PublishedRow(UPSTREAM, OVERHEAD, "H 261", (16.0,)),
    ACTIVE: PublishedRow(ACTIVE, RECOVERY, "H 261", (40.0,)),
}
"""What precise recovery adds to rollback recovery."""
NOTHING = (PublishedRow(AMNESIA, OVERHEAD, "H 101-109", (0.0,)), PublishedRow(AMNESIA, RECOVERY, "H 101-109", (0.0,)))
"""Amnesia, by table 3."""
