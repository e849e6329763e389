"""What a way of recovery will cost, and how long readers will wait (Hwang et al., ICDE 2005, table 3).

Everything that was measured or set comes in as `NodeLoad`; here is arithmetic alone. `H n`: line n of the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import inf, pow

from borealis_py.engine.operators.classes import OperatorClass
from borealis_py.query.recovery import Guarantee, RecoveryWay
from borealis_py.recovery.ways import guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeLoad:
    """What is known of one node while nothing fails, and of those who take over."""

    rows_per_s: float
    """Rows that it reads, over all inputs."""
    row_us: float
    """Processor time of a row, measured."""
    window_s: float
    """How far back its state goes: the longest window, or 0 if it has none."""
    state_bytes: float
    """Size of its state, as written."""
    keys: float
    """Keys in its state."""
    result_bytes_per_s: float
    """Size of its replica stream."""
    sync_s: float
    """M: how often changes of the state, or the position from which to read again, are written. Above 0."""
    position_bytes: float
    """Size of a record that says such a position."""
    detect_s: float
    """From the crash until another one knows that it is to run."""
    start_s: float
    """r: from then until it is sent rows."""
    delay_s: float
    """d: the way of a row to it."""
    switch_s: float
    """From the crash until a reader has changed over to a replica that runs."""
    bytes_per_core_s: float
    """Bytes of changes of a state that a core writes and reads again in a second. Above 0."""
    again_s_per_s: float = 0.0
    """Seconds that reading a second of rows again takes, however few they are."""
    kafka_keeps_state: bool = True
    """Whether changes of the state are written to Kafka; else to another place."""
    computing_cores: float = 0.0
    """Processors of a replica that computes, beside its rows: buckets, heartbeats."""
    waiting_cores: float = 0.0
    """Processors of a standby that does not compute, and of what the others do for it."""

    def __post_init__(self) -> None:
        for one in fields(self):
            value, above = getattr(self, one.name), one.name in ("sync_s", "bytes_per_core_s")
            if not 0 <= value < inf or (above and not value):
                raise ValueError(f"{one.name} is {value}: it must be {'above' if above else 'at least'} 0, and finite")

    @property
    def cores(self) -> float:
        """Processors that computing it once takes."""
        return self.rows_per_s * self.row_us / 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """Of one node and way."""

    guarantee: Guarantee
    """The strongest that it can have."""
    still_s: float
    """From the crash to the first result that was not there before: the mean over when it happens."""
    behind_s: float
    """From the crash until results are as recent as without it; infinite if a core is too slow for the rows."""
    replayed_rows: float
    """Rows that are computed again."""
    lost_rows: float
    """Rows that no result will have."""
    bytes_per_s: float
    """Written to Kafka beside what one replica alone would write."""
    cores: float
    """Processors beside those of one replica alone."""

    def tentative_s(self, wait_s: float) -> float:
        """For how long readers who wait this long for a missing input get tentative results; 0: they see nothing."""
        return max(0.0, self.still_s - wait_s)


def predict(way: RecoveryWay, load: NodeLoad, operators: OperatorClass) -> Prediction:
    """Predict one way for one node (H 99-113)."""
    replayed = _replayed_rows(way, load)
    first_s = _first_row_s(way, load)
    still_s = first_s + replayed * load.row_us / 1_000_000 + _read_again_s(way, load)
    idle = 1 - load.cores
    return Prediction(
        guarantee=guarantee(way, operators),
        still_s=still_s,
        behind_s=_behind_s(way, load, still_s, idle),
        replayed_rows=replayed,
        lost_rows=load.rows_per_s * first_s if way is RecoveryWay.AMNESIA else 0.0,
        bytes_per_s=_bytes_per_s(way, load),
        cores=_cores(way, load),
    )


def _first_row_s(way: RecoveryWay, load: NodeLoad) -> float:
    """Until the first row that was not read before the crash, or the first that is read again, can be computed."""
    if way is RecoveryWay.ACTIVE:
        return load.switch_s
    if way is RecoveryWay.ACTIVE_STANDBY:
        return load.detect_s
    return load.detect_s + load.start_s + load.delay_s


def _replayed_rows(way: RecoveryWay, load: NodeLoad) -> float:
    return load.rows_per_s * _replayed_s(way, load)


def _replayed_s(way: RecoveryWay, load: NodeLoad) -> float:
    """Q of table 3: half an interval; or the state, an interval, and what is under way to and fro (H 103-105)."""
    if way is RecoveryWay.PASSIVE_STANDBY:
        return load.sync_s / 2
    if way is RecoveryWay.UPSTREAM_BACKUP:
        return load.window_s + load.sync_s + 2 * load.delay_s
    return 0.0


def _read_again_s(way: RecoveryWay, load: NodeLoad) -> float:
    return load.again_s_per_s * _replayed_s(way, load)


def _behind_s(way: RecoveryWay, load: NodeLoad, still_s: float, idle: float) -> float:
    """What came while nobody computed is caught up with the time that a core has left."""
    if way in (RecoveryWay.ACTIVE, RecoveryWay.ACTIVE_STANDBY, RecoveryWay.AMNESIA):
        return still_s
    return still_s / idle if idle > 0 else inf


def changed_bytes(load: NodeLoad) -> float:
    """Size of what is new in the state after an interval.

    Of windows the entries of the interval, at most the whole state: with an interval beyond the window, what came and
    went between is never written (H 255). Of a state without one the keys that rows have touched, if every row's key is
    as likely as any other.
    """
    if load.window_s:
        return load.state_bytes * min(1.0, load.sync_s / load.window_s)
    if load.keys < 1:
        return 0.0
    return load.state_bytes * (1 - pow(1 - 1 / load.keys, load.rows_per_s * load.sync_s))


def _bytes_per_s(way: RecoveryWay, load: NodeLoad) -> float:
    position = load.position_bytes / load.sync_s
    match way:
        case RecoveryWay.ACTIVE:
            return load.result_bytes_per_s
        case RecoveryWay.PASSIVE_STANDBY:
            return position + (changed_bytes(load) / load.sync_s if load.kafka_keeps_state else 0.0)
        case RecoveryWay.AMNESIA:
            return 0.0
        case _:
            return position


def _cores(way: RecoveryWay, load: NodeLoad) -> float:
    """Table 3's proc overhead, which is all of it once more, or what changes cost, and what a process takes here."""
    if way in (RecoveryWay.ACTIVE, RecoveryWay.ACTIVE_STANDBY):
        return load.computing_cores + load.cores
    if way is RecoveryWay.PASSIVE_STANDBY:
        return load.waiting_cores + changed_bytes(load) / load.sync_s / load.bytes_per_core_s
    return load.waiting_cores
