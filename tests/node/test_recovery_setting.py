"""How a node recovers, as a replica reads it: when it starts, and while it runs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from structlog.testing import capture_logs

from borealis_py.log.base import Feed, Log, LogError, NewRecord, Record, TopicSpec
from borealis_py.log.description import Life
from borealis_py.log.messages import RecoverySetting, encode
from borealis_py.node.dynamic_settings import DynamicSettings
from borealis_py.node.recovery_setting import STANDBY_BEAT_US, in_force, increments_of, paced
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.settings import Delays, Timing
from borealis_py.query.recovery import ACTIVE, RecoveryPlan, RecoveryWay
from borealis_py.query.spec import Serves
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryLog
from sunion.model import Input

SETTINGS = Feed("app.settings")
PASSIVE = RecoveryPlan(RecoveryWay.PASSIVE_STANDBY, 700_000)
BACKUP = RecoveryPlan(RecoveryWay.UPSTREAM_BACKUP)
SPEC = ReplicaSpec(
    app="app", app_uid="a1", node="cut.1", replica=0, inputs=(Input.source("s"),), bucket_us=100_000, origin=0,
    partition=0, query_hash="h", app_json="", delays={"q": Delays(3_000_000)}, log=cast(Log, None),
    data_dir=Path("/data"), timing=Timing(), serves=(Serves(query="q"),), position=1, corrected=True, recovery=PASSIVE,
)  # fmt: skip
GARBAGE = [
    b"",
    b"{",
    b'{"app_uid":"a1"}',
    b'{"app_uid":"a1","way":"hot","sync_us":5}',
    b'{"app_uid":"a1","way":"oblivion","sync_us":500000}',
    b'{"app_uid":"a1","way":"passive-standby","sync_us":0}',
    b'{"app_uid":"a1","way":"passive-standby","sync_us":"soon"}',
    b'{"app_uid":"a1","way":"passive-standby","sync_us":3600000001}',
    b'{"app_uid":"a1","way":"passive-standby","sync_us":1000000000000000000000}',
    b"[" * 100_000,
]


class Settings:
    """The settings topic, and what a replica that starts finds in it."""

    def __init__(self) -> None:
        self.log = MemoryLog(Scheduler(0), 0)
        self.log.client("admin").admin().create([TopicSpec(SETTINGS.topic)])

    def put(self, key: str, value: bytes) -> None:
        self.log.broker.append(NewRecord(SETTINGS, value, key.encode()))

    def set(self, node: str, plan: RecoveryPlan, app_uid: str = "a1") -> None:
        self.put(f"recovery/{node}", encode(RecoverySetting.of(app_uid, plan)))

    def in_force(self, spec: ReplicaSpec = SPEC) -> RecoveryPlan:
        return in_force(spec, self.log.client("replica").lookup())


def test_without_a_setting_the_file_is_in_force() -> None:
    assert Settings().in_force() == PASSIVE
    assert Settings().in_force(replace(SPEC, recovery=ACTIVE)) == ACTIVE


def test_the_last_setting_of_the_node_is_in_force() -> None:
    topic = Settings()
    topic.set("cut.1", ACTIVE)
    topic.set("cut.1", BACKUP)
    topic.set("cut.0", ACTIVE)
    topic.set("cut", ACTIVE)
    assert topic.in_force() == BACKUP
    assert topic.in_force(replace(SPEC, node="cut.0")) == ACTIVE


def test_a_setting_of_another_life_is_none() -> None:
    topic = Settings()
    topic.set("cut.1", BACKUP)
    topic.set("cut.1", ACTIVE, app_uid="b2")
    assert topic.in_force() == BACKUP


@pytest.mark.parametrize("value", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_named_and_changes_nothing(value: bytes) -> None:
    topic = Settings()
    topic.set("cut.1", BACKUP)
    topic.put("recovery/cut.1", value)
    with capture_logs() as lines:
        assert topic.in_force() == BACKUP
    assert [line["key"] for line in lines] == ["recovery/cut.1"]


def test_settings_that_cannot_be_read_are_no_answer() -> None:
    log = MemoryLog(Scheduler(0), 0)
    with pytest.raises(LogError):
        in_force(SPEC, log.client("replica").lookup())


def settings() -> DynamicSettings:
    return DynamicSettings(Life("a1"), "cut.1", 0, SPEC.serves, SPEC.delays, Timing())


def record(node: str, value: bytes) -> Record:
    return Record(SETTINGS, 0, 0, f"recovery/{node}".encode(), value)


def test_a_running_replica_sees_what_was_said_last_of_its_node() -> None:
    it = settings()
    assert it.recovery is None
    it.read(record("cut.0", encode(RecoverySetting.of("a1", BACKUP))))
    it.read(record("cut.1", encode(RecoverySetting.of("b2", BACKUP))))
    assert it.recovery is None
    it.read(record("cut.1", encode(RecoverySetting.of("a1", BACKUP))))
    it.read(record("cut.1", encode(RecoverySetting.of("b2", ACTIVE))))
    assert it.recovery == BACKUP
    it.read(record("cut.1", encode(RecoverySetting.of("a1", ACTIVE))))
    assert it.recovery == ACTIVE


@pytest.mark.parametrize("value", GARBAGE, ids=range(len(GARBAGE)))
def test_a_running_replica_and_one_that_starts_ignore_the_same(value: bytes) -> None:
    it = settings()
    it.read(record("cut.1", encode(RecoverySetting.of("a1", BACKUP))))
    with capture_logs() as lines:
        it.read(record("cut.1", value))
    assert it.recovery == BACKUP
    assert [line["key"] for line in lines] == ["recovery/cut.1"]


def test_a_passive_standby_gets_a_checkpoint_in_each_interval() -> None:
    timing = Timing(checkpoint_us=2_000_000, heartbeat_us=STANDBY_BEAT_US)
    assert paced(timing, PASSIVE) == replace(timing, checkpoint_us=700_000)
    assert paced(timing, replace(PASSIVE, sync_us=3_000_000)) == replace(timing, checkpoint_us=3_000_000)
    for way in set(RecoveryWay) - {RecoveryWay.PASSIVE_STANDBY}:
        assert paced(timing, RecoveryPlan(way, 100_000)) == timing


@pytest.mark.parametrize(
    ("sync_us", "most"), [(500_000, 240), (2_500_000, 240), (5_000_000, 120), (600_000_000, 1), (3_600_000_000, 0)]
)
def test_the_increments_behind_one_base_are_few_and_of_ten_minutes_at_most(sync_us: int, most: int) -> None:
    assert increments_of(RecoveryPlan(RecoveryWay.PASSIVE_STANDBY, sync_us)) == most
    assert increments_of(RecoveryPlan(RecoveryWay.UPSTREAM_BACKUP)) == 0


def test_standbys_hear_soon_that_nobody_runs() -> None:
    slow, fast = (Timing(heartbeat_us=us) for us in (2 * STANDBY_BEAT_US, STANDBY_BEAT_US // 2))
    for way in RecoveryWay:
        told = slow.heartbeat_us if way is RecoveryWay.ACTIVE else STANDBY_BEAT_US
        assert paced(slow, RecoveryPlan(way)).heartbeat_us == told
        assert paced(fast, RecoveryPlan(way)).heartbeat_us == fast.heartbeat_us
