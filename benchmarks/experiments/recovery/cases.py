"""What `make bench NAME=recovery` runs and what it finds: the apps, a way and window each, and their figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from borealis_py.bench import events
from borealis_py.query import App
from borealis_py.query.recovery import RecoveryWay
from tests.harness.event_feeders import SOURCES

ACTIVE, STANDBY, PASSIVE, UPSTREAM, AMNESIA = (
    RecoveryWay.ACTIVE,
    RecoveryWay.ACTIVE_STANDBY,
    RecoveryWay.PASSIVE_STANDBY,
    RecoveryWay.UPSTREAM_BACKUP,
    RecoveryWay.AMNESIA,
)
MEASURED = (ACTIVE, STANDBY, PASSIVE, UPSTREAM, AMNESIA)
WINDOWS_S = (1, 10, 60)
RATE = 1_000
"""Tuples a second, all sources together."""
BUSY_RATE = 20_000
BUSY_WINDOW_S = 10
EVERY = "1s"

SOURCE_KIND, STREAM_KIND, CORRECTED_KIND, STATE_KIND, CONTROL_KIND = (
    "sources",
    "replica streams",
    "corrected stream",
    "checkpoints",
    "control, status, progress",
)
DATA_KINDS = (SOURCE_KIND, STREAM_KIND, CORRECTED_KIND, STATE_KIND)
KINDS = (*DATA_KINDS, CONTROL_KIND)
ByKind = Mapping[str, float]
"""Bytes a second of each kind of topics."""


def windows_of(way: RecoveryWay, windows_s: Sequence[int]) -> Sequence[int]:
    """Those to measure of these windows. By amnesia a longer one loses more, and does not wait longer."""
    return windows_s[:1] if way is AMNESIA else windows_s


def query_of(window_s: int) -> str:
    """The name of the query with this window."""
    return f"w{window_s}"


def recovery_app(name: str, way: RecoveryWay, windows_s: Sequence[int], replicas: int = 2) -> App:
    """Count and sum per customer over the union of the sources, every second, a query for each window."""
    built = App(name, bucket="100ms")
    guarantee = "gap" if way is AMNESIA else None
    union = built.union(*(built.source(f"s{i}", schema=events.SCHEMA) for i in range(SOURCES)))
    for seconds in windows_s:
        totals = union.window(f"{seconds}s", every=EVERY).group_by("customer").agg(n="count(*)", total="sum(amount)")
        built.query(query_of(seconds), totals, "3s", replicas=replicas, recovery=way.value, guarantee=guarantee)
    return built


def kind_of(app: str, topic: str, window_s: int) -> str | None:
    """What a topic holds of the query with this window; None: nothing."""
    query = query_of(window_s)
    own = topic.removeprefix(f"{app}.")
    if own in {f"s{i}" for i in range(SOURCES)}:
        return SOURCE_KIND
    if own == query:
        return CORRECTED_KIND
    if own in {f"{query}.r{k}" for k in range(2)}:
        return STREAM_KIND
    if own.startswith(f"{query}.r") and own.endswith(".files"):
        return STATE_KIND
    return CONTROL_KIND if own in (f"{query}.progress", "control", "status", "settings", "acks", "deadletter") else None


NEAR, NEAR_S = 0.35, 0.25
"""By how much a prediction may be off: a share of what was measured, or seconds a kill."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WayStills:
    """One way and window.

    Attributes:
        stills_s: for each kill, the longest time without news at the reader of the live view, less the usual one.
        quiet_s: the same in the time before each kill. spacing_s: the usual one.
        predicted_s: by `borealis explain`.
        tentative: buckets that the live view showed before they were stable. rows: of the corrected stream. repeated:
            those that are there twice. missing: results that are not there.
    """

    way: str
    window_s: int
    stills_s: Sequence[float]
    quiet_s: Sequence[float]
    spacing_s: float
    predicted_s: float
    tentative: int
    rows: int
    repeated: int
    missing: int

    @property
    def usual_s(self) -> float:
        """The median."""
        return median(self.stills_s)

    @property
    def longest_s(self) -> float:
        return max(self.stills_s)

    @property
    def foreseen(self) -> bool:
        """The prediction is within 35 % or 0.25 s of the median."""
        return _near(self.predicted_s, self.usual_s, NEAR_S)


@dataclass(frozen=True, slots=True, kw_only=True)
class BeyondX:
    """Upstream backup, with readers that wait for less than it takes.

    Attributes:
        x_s: X of the query. stills: what its reader saw of the kills.
        predicted_tentative: how many buckets it would see tentatively, by `borealis explain`.
        verify, audit: exit codes of these commands in the end.
    """

    x_s: int
    stills: WayStills
    predicted_tentative: float
    verify: int
    audit: int

    @property
    def foreseen(self) -> bool:
        """The tentative buckets were predicted within 35 %, or 0.25 s a kill."""
        buckets = NEAR_S * 1_000_000 / events.BUCKET_US * len(self.stills.stills_s)
        return _near(self.predicted_tentative, self.stills.tentative, buckets)


def _near(predicted: float, measured: float, some: float) -> bool:
    """Whether they differ by at most `some`, or by `NEAR` of what was measured."""
    return abs(predicted - measured) <= max(some, NEAR * measured)


@dataclass(frozen=True, slots=True, kw_only=True)
class WayBytes:
    """Bytes a second in Kafka's log, one copy, of one way and window; `way` is empty for one replica alone."""

    way: str
    window_s: int
    by_kind: ByKind
    predicted: float = 0.0

    @property
    def data(self) -> float:
        """All but what is said once in a while, however much comes."""
        return sum(self.by_kind.get(kind, 0.0) for kind in DATA_KINDS)

    @property
    def control(self) -> float:
        return self.by_kind.get(CONTROL_KIND, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class WayCores:
    """Cores of all replicas' processes at `BUSY_RATE`; `way` is empty for one replica alone. `predicted`: beside it."""

    way: str
    cores: float
    predicted: float = 0.0
