"""What is kept while the app runs, and replicas that are given up. On the simulated log."""

from __future__ import annotations

import time
from contextlib import closing

import pytest

from borealis_py.app.settings import give_up_replica, set_retain
from borealis_py.app.state import AppState, NoSuchApp, put_settings, read_settings
from borealis_py.app.topics import fit_segments
from borealis_py.log import topics
from borealis_py.log.acks import Forgotten, ack_record, read_acks
from borealis_py.log.base import Feed, LogError
from borealis_py.log.description import Life
from borealis_py.log.messages import Policy, RetainSetting, SourceFailure, Threshold
from borealis_py.node.dynamic_settings import DynamicSettings
from borealis_py.protocol.settings import SettingsError, Timing
from borealis_py.protocol.trimming import Need, NodeReads, ReplicaName, Retain
from borealis_py.query import App
from borealis_py.query.retention import Keep
from borealis_py.runtime.specs import trimming_of
from sunion.units import Bucket
from tests.harness.launching import described
from tests.support.app_log import NAME, AppLog

HOUR_US = 3_600_000_000


class UpLog(AppLog):
    """An app of two nodes, and what its commands write."""

    def __init__(self) -> None:
        super().__init__()
        self.up("24h")

    def up(self, source: str) -> None:
        """`source`: what its file says that is kept of source `s`."""
        app = App(NAME, bucket="100ms", retain="2h")
        cut = app.source("s", schema={"x": "int64"}, retain=source).node("cut")
        app.query("q", app.union(cut, app.source("t", schema={"x": "int64"})), "3s", replicas=3)
        described(self, app)

    def state(self) -> AppState:
        state = read_settings(self, NAME)
        assert state is not None
        return state

    def retained(self) -> dict[str, Keep]:
        return {name: self.state().keeps(name) for name in ("s", "t", "cut", "q")}

    def words(self) -> list[object]:
        with closing(self.lookup()) as lookup:
            return list(read_acks(lookup, NAME, Life(self.state().app_uid)))


def test_what_the_file_says_holds_until_it_is_changed() -> None:
    log = UpLog()
    assert log.retained() == {"s": 24 * HOUR_US, "t": None, "cut": 2 * HOUR_US, "q": 2 * HOUR_US}
    set_retain(log, log.state(), "s", None)
    set_retain(log, log.state(), "q", 0)
    set_retain(log, log.state(), "cut", HOUR_US)
    assert log.retained() == {"s": None, "t": None, "cut": HOUR_US, "q": 0}


def test_what_another_life_was_told_to_keep_does_not_count() -> None:
    log = UpLog()
    before = log.retained()
    put_settings(log, NAME, {"retain/t": RetainSetting.of("another", 0)})
    assert log.retained() == before
    put_settings(log, NAME, {"retain/t": RetainSetting.of(log.state().app_uid, 0)})
    assert log.retained() == before | {"t": 0}


def test_commands_read_nothing_that_was_set_in_another_life() -> None:
    log = UpLog()
    before = log.state()
    values = {"threshold/q": Threshold(500_000, "another"), "policy/q": Policy("delay", "delay", "another")}
    put_settings(log, NAME, {**values, "fail/s": SourceFailure(77, "another")})
    assert log.state() == before
    put_settings(log, NAME, {"threshold/q": Threshold(500_000, before.app_uid)})
    assert log.state().thresholds == {"q": 500_000}


def test_replicas_are_told_what_is_kept_as_audited_and_whose_audits_count() -> None:
    log = UpLog()
    set_retain(log, log.state(), "t", "audited")
    assert log.retained()["t"] == "audited"
    found = trimming_of(log.state().runs)
    assert found.audits == {"s": ("q",), "t": ("q",)}
    uid = log.state().app_uid
    (record,) = [r for r in log.committed(Feed(topics.settings(NAME))) if r.key == b"retain/t"]
    assert record.value == b'{"lag_us":null,"audited":true,"app_uid":"%s"}' % uid.encode(), (
        "a replica of an earlier version keeps all"
    )
    settings = DynamicSettings(Life(uid), "q", 0, (), {}, Timing())
    settings.read(record)
    assert settings.retain("t") == Retain(0, audited=True)
    with pytest.raises(SettingsError, match="cut: audited is for sources"):
        set_retain(log, log.state(), "cut", "audited")
    log.up("audited")
    assert trimming_of(log.state().runs).retain["s"] == Retain(0, audited=True)
    assert log.retained()["s"] == "audited"


def test_what_was_set_stays_until_the_file_changes() -> None:
    log = UpLog()
    set_retain(log, log.state(), "s", 0)
    set_retain(log, log.state(), "q", 0)
    log.up("24h")
    assert log.retained()["s"] == 0
    log.up("48h")
    assert (log.retained()["s"], log.retained()["q"]) == (48 * HOUR_US, 0)


def test_topics_that_are_trimmed_later_get_segments_that_can_be_freed() -> None:
    """Those of `t` are kept whole, and what `s` had was small already."""
    log = UpLog()
    names = {of: topics.stream(NAME, of) for of in ("s", "t", "q")} | {"r": topics.replica(NAME, "q", 2)}

    def sizes() -> dict[str, int]:
        with log.broker.settled() as memory:
            return {of: memory.broker.segment_bytes[name] for of, name in names.items()}

    before = sizes()
    assert before == {"s": 1 << 26, "t": 1 << 30, "q": 1 << 30, "r": 1 << 24}
    with log.broker.settled() as memory:
        memory.broker.segment_bytes |= {names["r"]: 1 << 30, names["s"]: 1 << 21}
    assert fit_segments(log, log.state()) == {}
    assert sizes() == {**before, "s": 1 << 21}
    set_retain(log, log.state(), "t", 0)
    assert fit_segments(log, log.state()) == {}
    assert sizes()["t"] == 1 << 26


def test_what_the_log_leaves_as_it_is_is_told() -> None:
    log = UpLog()
    state = log.state()
    log.cut()
    refused = fit_segments(log, state)
    assert {topics.stream(NAME, "s"), topics.replica(NAME, "cut", 0)} < set(refused)
    assert all("no broker answered" in why for why in refused.values())


def test_an_unknown_stream_is_refused_with_the_nearest() -> None:
    log = UpLog()
    with pytest.raises(NoSuchApp, match="no source, node or query 'cuts'; did you mean 'cut'"):
        set_retain(log, log.state(), "cuts", 0)


def test_less_than_the_delay_threshold_is_refused() -> None:
    log = UpLog()
    with pytest.raises(SettingsError, match="q: retain='1s' is shorter than its delay threshold, 3s"):
        set_retain(log, log.state(), "q", 1_000_000)
    set_retain(log, log.state(), "s", 1_000_000)


def test_a_replica_is_given_up() -> None:
    log = UpLog()
    state = log.state()
    give_up_replica(log, state, "cut.r1")
    assert log.words() == [(ReplicaName("cut", 1), Forgotten(state.app_uid))]


def test_so_is_one_that_its_node_no_longer_has() -> None:
    log = UpLog()
    state, name = log.state(), ReplicaName("q", 7)
    with pytest.raises(NoSuchApp, match=r"no replica 'q\.r7'; did you mean .* it has cut\.r0, .*, q\.r2$"):
        give_up_replica(log, state, "q.r7")
    assert log.words() == []
    need = Need(inc=1, uid="u", number=1, bucket=Bucket(5), offsets={})
    for gone in (name, ReplicaName("of another life", 0)):
        log.put(ack_record(NAME, state.app_uid, gone, need))
    with pytest.raises(NoSuchApp, match=r"no replica 'q\.r8'; did you mean .* it has cut\.r0, .*, q\.r2, q\.r7$"):
        give_up_replica(log, state, "q.r8")
    give_up_replica(log, state, "q.r7")
    assert log.words()[-1] == (name, Forgotten(state.app_uid))


@pytest.mark.parametrize("name", ["nobody.r0", "q", "q.0", "q.r", "q.r-1", "q.r01", ""])
def test_what_is_no_replica_is_refused(name: str) -> None:
    log = UpLog()
    with pytest.raises(NoSuchApp, match=r"it has cut\.r0, cut\.r1"):
        give_up_replica(log, log.state(), name)
    assert log.words() == []


def test_one_that_runs_is_not_given_up() -> None:
    log = UpLog()
    log.say(node="q", replica=1, at_wall_us=time.time_ns() // 1000)
    with pytest.raises(SettingsError, match=r"replica q\.r1 runs"):
        give_up_replica(log, log.state(), "q.r1")
    log.say(node="q", replica=1, at_wall_us=time.time_ns() // 1000, event="STOPPED")
    give_up_replica(log, log.state(), "q.r1")
    assert len(log.words()) == 1


def test_a_log_without_the_topic_says_so() -> None:
    log = UpLog()
    state = log.state()
    log.delete_topics()
    with pytest.raises(LogError):
        give_up_replica(log, state, "q.r1")


def test_replicas_are_told_who_reads_what_and_what_is_kept() -> None:
    found = trimming_of(UpLog().state().runs)
    assert found.graph.nodes == {"cut": NodeReads(3, ("s",)), "q": NodeReads(3, ("t",), ("cut",))}
    assert found.retain["cut"] == Retain(2 * HOUR_US)
    assert found.retain["t"] == Retain(None)
    assert (found.trimmed_by("cut"), found.trimmed_by("q")) == (("s",), ("t",))
