"""docs/reference/status.md, from the fields of what replicas report and of what `borealis status` makes of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from borealis_py.config.reference import documented
from borealis_py.log.ingress_status import AbsentField, IngressInput, IngressStatus
from borealis_py.log.messages import InputStatus, RedoStatus, Status, TrimStatus

HEAD = """# Status

Each replica writes its status to the topic `<app>.status` once a second and at every event, as JSON under the key
`<node>/<replica>`. `borealis status` and `borealis top` show it as a table: `top` adds rows a second, and leaves out
`restarts`. A narrow terminal drops columns and says which. `borealis status --json` and `/api/v1/status` of a replica
process give all of it. Ingresses do likewise, under `ingress/<source>/<index>`. This page is generated from the code.

Buckets are numbers: bucket b begins at b times the bucket width (`bucket_us`) after 1970. Fields that end in `_us` are
microseconds, of time or since 1970.
"""
COLUMNS: Mapping[str, str] = MappingProxyType(
    {
        "node, query": "The node; a query is the node of its name.",
        "of query": "The queries that read the node; only where the app has nodes of its own.",
        "r": "The replica's index.",
        "state": "`gone, was ...`: no status for 5 s, or it stopped.",
        "recovery": "How its node survives a crash; only where a node is not active, and empty for those that are.",
        "inc": "Incarnation: grows with each start.",
        "stable until": "Where stable results end: the stable frontier.",
        "lag": "How far that lies behind the replica's clock.",
        "live until": "Where results end, tentative ones too; empty where it equals `stable until`.",
        "live lag": "How far that lies behind.",
        "to correct": "Buckets between the two.",
        "X": "The delay threshold in force.",
        "grant": "`granted`: it may correct now; `waits for K`: replica K is first in the queue.",
        "publishes": "`yes`: it writes the corrected stream.",
        "stable": "Rows it has written as stable.",
        "tentative": "Rows it has written as tentative.",
        "tentative buckets": "Buckets it has written as tentative.",
        "checkpoint": "Age of the newest durable checkpoint since it started; `none`: none yet, as of idle standbys.",
        "tuples in": "Rows it has taken from its sources.",
        "rejected": "Dead letters of its sources.",
        "memory": (
            "Of its process, every 10 s: PSS, which counts shared pages by their share; `RSS` where there is none."
        ),
        "restarts": "How often the supervisor has started its process again; only where one has ended.",
        "inputs": "Of each: `ok`; `late` (results do not wait the full time for it); how far it is `behind`; "
        "`UNREACHABLE` (during `borealis fail source`); `ended`; `not read` of a standby that reads no input.",
    }
)
"""Of the table that `borealis status` prints."""
WHOLE: Mapping[str, str] = MappingProxyType(
    {
        "app": "The app's name.",
        "hash": "Of its description.",
        "bucket_us": "Width of a bucket.",
        "origin_us": "Where the first bucket begins.",
        "at_wall_us": "When this was put together.",
        "thresholds_us": "Delay threshold of each query.",
        "policies": "Of each query: what it does during a failure, and during stabilization.",
        "apart_sources": "Queries with two sources whose latenesses differ by more than the threshold allows: the "
        "least and the most late.",
        "failed_sources_until_wall_us": "Sources that `borealis fail source` has made unreachable, and until when.",
        "replicas": "Of each replica: the fields below.",
        "ingresses": "Of each ingress of a topic of other programs: the fields at the end of this page.",
        "processes_here": "Only `status --json`: the replica processes on this machine.",
        "supervised": "Only `status --json`: a supervisor on this machine starts again what dies.",
    }
)
"""Of the JSON object."""
DERIVED: Mapping[str, str] = MappingProxyType(
    {
        "running": "It reported within the last 5 s and has not stopped.",
        "ready": "It runs and is past RECOVERING; a standby is.",
        "age_s": "Age of its newest status.",
        "stable_until": "The stable frontier as ISO 8601, or END.",
        "live_until": "The live frontier likewise.",
        "stable_lag_s": "How far the stable frontier lies behind the replica's clock; null: the sources have ended.",
        "live_lag_s": "Likewise the live frontier.",
        "uncorrected_buckets": "Buckets that wait for their correction: `f_l - f_s`.",
        "of_queries": "The queries that read its node.",
    }
)
"""Of a replica, beside what it reported itself."""

INGRESS: Mapping[str, str] = MappingProxyType(
    {
        "source": "The source of the app; only where it reads topics of other programs.",
        "i": "The ingress's index.",
        "role": "`owner`: it copies the topic; `standby`: it would take over; `starting`; `gone, was ...`: no status "
        "for 5 s, or it stopped.",
        "input": "One input, and what of the topic it is.",
        "boundary": "The last boundary sent for it: no earlier row can follow.",
        "behind": "How far that lies behind the ingress's clock.",
        "lag": "Records of the topic that have not been read yet.",
        "rows": "Rows sent.",
        "late": "Rows that came after their boundary: dead letters.",
        "dead": "Other records that could not be used: dead letters.",
        "missing": "Why the input is missing, and what it does not wait for; of an ingress, what it waits for.",
    }
)
"""Of the table of ingresses."""
INGRESS_DERIVED: Mapping[str, str] = MappingProxyType(
    {"running": "It reported within the last 5 s and has not stopped.", "age_s": "Age of its newest status."}
)
"""Of an ingress, beside what it reported itself."""


def page() -> str:
    """The whole page."""
    return (
        HEAD
        + _table("Columns of the table", "column", COLUMNS.items(), code=False)
        + _table("The JSON object", "field", WHOLE.items())
        + _table("Each replica, as seen from outside", "field", DERIVED.items())
        + _table("Each replica, as it reports", "field", documented(Status))
        + _table("Each of its `inputs`", "field", documented(InputStatus))
        + _table("Its `redo`, at the event REDO", "field", documented(RedoStatus))
        + _table("Each of its `trims`", "field", documented(TrimStatus))
        + _table("Columns of the ingresses' table", "column", INGRESS.items(), code=False)
        + _table("Each ingress, as seen from outside", "field", INGRESS_DERIVED.items())
        + _table("Each ingress, as it reports", "field", documented(IngressStatus))
        + _table("Each of an ingress's `inputs`", "field", documented(IngressInput))
        + _table("Each of its `absent`", "field", documented(AbsentField))
    )


def _table(title: str, what: str, rows: Iterable[tuple[str, str]], code: bool = True) -> str:
    mark = "`" if code else ""
    lines = "".join(f"| {mark}{name}{mark} | {text} |\n" for name, text in rows)
    return f"\n## {title}\n\n| {what} | meaning |\n|---|---|\n{lines}"
