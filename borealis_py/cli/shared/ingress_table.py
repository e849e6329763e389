"""The table of an app's ingresses, for `borealis status` and `borealis top`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from borealis_py.cli.shared.replica_table import clock, duration
from borealis_py.cli.shared.tables import FittingTable

if TYPE_CHECKING:
    from borealis_py.app.state import AppState, IngressStatuses
    from borealis_py.log.ingress_status import IngressInput, IngressStatus

INGRESS_COLUMNS = ("source", "i>", "role", "input", "boundary", "behind>", "lag>", "rows>", "late>", "dead>", "missing")
INGRESS_EXPENDABLE = ("rows>", "boundary", "late>", "dead>", "lag>", "i>")
"""Columns that a narrow terminal leaves out, the first ones first."""


def ingress_table(state: AppState, statuses: IngressStatuses, now_us: int) -> FittingTable:
    """Every ingress of an app, the owner's inputs below it. `now_us`: wall time."""
    from borealis_py.log.ingress_status import IngressRole
    from borealis_py.observe.ingress_overview import gone, ingress_keys

    rows: list[list[str | Text]] = []
    for source, k in ingress_keys(state, statuses):
        status = statuses.get((source, k))
        if status is None:
            rows.append([source, str(k), Text("not running", "red"), *[""] * 8])
            continue
        over = gone(status, now_us)
        ended = status.role is IngressRole.ENDED
        role = Text(status.role, _STYLES.get(status.role, "yellow"))
        if over and not ended:
            role = Text(f"gone, was {status.role}", "red")
        rows.append([source, str(k), role, *[""] * 7, status.detail])
        if status.role is IngressRole.OWNER and not over:
            rows += [["", "", "", *_input(status, one)] for one in status.inputs]
    return FittingTable("ingresses", INGRESS_COLUMNS, rows, INGRESS_EXPENDABLE)


_STYLES = {"owner": "green", "standby": "", "ended": ""}


def _input(status: IngressStatus, one: IngressInput) -> list[str | Text]:
    from borealis_py.observe.ingress_overview import behind_s, boundary_text

    behind = behind_s(status, one)
    given_up = f"partition {', '.join(map(str, one.given_up))} given up" if one.given_up else ""
    return [
        f"{one.name}: {one.feeds}",
        clock(boundary_text(one), behind),
        duration(behind),
        "" if one.lag is None else str(one.lag),
        str(one.rows),
        str(one.late or ""),
        str(one.dead or ""),
        Text("; ".join(filter(None, (one.missing, given_up))), "yellow"),
    ]
