"""The health of one replica, from its newest status: its age, how far its frontiers lag, whether it runs. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from borealis_py.app import origin
from borealis_py.app.state import GONE_S
from borealis_py.log.messages import InputStatus, Status
from borealis_py.query.recovery import RecoveryWay
from sunion.bucket import Buckets

STANDBY = "STANDBY"
"""State of a replica that would take over: it is ready."""
_READING = (RecoveryWay.ACTIVE.value, RecoveryWay.ACTIVE_STANDBY.value, "")


def all_compute(status: Status) -> bool:
    """Whether the replicas of its node compute that stand by, too, by the way in which it recovers."""
    return status.recovery in _READING


def idles(status: Status) -> bool:
    """Whether a replica stands by and reads no input, so that its frontiers and inputs say nothing."""
    return status.state == STANDBY and not all_compute(status)


@dataclass(frozen=True)
class ReplicaHealth:
    """One `status` and what follows from it. `age_s`: seconds since the replica sent it. `stable_until`, `live_until`:
    the stime that each frontier has reached, as text; "END" after the sources' end. `stable_lag_s`, `live_lag_s`: how
    far each frontier lags behind the replica's clock; None: the sources have ended and nothing is left to do.
    `bucket_us`: the app's bucket width."""

    status: Status
    age_s: float
    stable_lag_s: float | None
    live_lag_s: float | None
    stable_until: str
    live_until: str
    bucket_us: int

    def behind_s(self, source: InputStatus) -> float:
        """How far the source's last boundary lags behind the replica's clock."""
        return (self.status.at_wall_us - source.closed * self.bucket_us) / 1e6

    @property
    def gone(self) -> bool:
        return self.age_s > GONE_S or self.status.event == "STOPPED"

    @property
    def ready(self) -> bool:
        """Whether it runs and is past RECOVERING; a standby is."""
        return not self.gone and self.status.state != "RECOVERING"

    @property
    def uncorrected_buckets(self) -> int:
        """Number of buckets run for timeliness but not yet on complete input: F_l - F_s."""
        return self.status.f_l - self.status.f_s


def health_of(status: Status, bucket_us: int, now_us: int) -> ReplicaHealth:
    """The health of a replica, from its status, at wall time `now_us`."""
    s = status
    (stable_until, stable_lag), (live_until, live_lag) = (_frontier(b, bucket_us, s.at_wall_us) for b in (s.f_s, s.f_l))
    return ReplicaHealth(s, (now_us - s.at_wall_us) / 1e6, stable_lag, live_lag, stable_until, live_until, bucket_us)


def _frontier(bucket: int, bucket_us: int, wall_us: int) -> tuple[str, float | None]:
    buckets = Buckets(bucket_us)
    if bucket >= buckets.last:
        return "END", None
    return origin.show(buckets.start(bucket)), (wall_us - buckets.start(bucket)) / 1e6
