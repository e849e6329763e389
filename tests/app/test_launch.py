"""Describing an app on a broker, step by step and again; reading its state back."""

from __future__ import annotations

import time
import uuid
from contextlib import closing
from dataclasses import replace

import pytest

from borealis_py.api import publisher
from borealis_py.app import launch
from borealis_py.app.errors import LaunchError
from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ProcessName
from borealis_py.app.state import (
    AppState,
    NoSuchApp,
    StatusReader,
    find_app,
    put_settings,
    read_app,
    read_settings,
    read_statuses,
)
from borealis_py.app.topics import create_topics, topics_of
from borealis_py.config.address import AddressError
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.ingress_status import status_key
from borealis_py.log.messages import Description, Policy, SourceFailure, Threshold, encode
from borealis_py.protocol.settings import SettingsError, Timing
from borealis_py.query import App, AppSpec
from borealis_py.runtime.specs import replica_spec
from tests.harness.waiting import PATIENCE_S, until
from tests.support.ingress_statuses import ingress_status

T2013 = 1_356_998_400_000_000


def spec_of(
    name: str, predicate: str = "a > 1", threshold: str = "1s", policy: str = "process", replicas: int = 1
) -> AppSpec:
    app = App(name, bucket="100ms")
    source = app.source("src", schema={"a": "int64"})
    policies = {"on_failure": policy, "on_stabilization": "process"}
    app.query("q", source.filter(predicate), delay_threshold=threshold, replicas=replicas, **policies)  # type: ignore[arg-type]
    return app.describe()


def chain_of(name: str, predicate: str = "a > 1", replicas: int = 2) -> AppSpec:
    """src -> cut -> q; other -> p."""
    app = App(name, bucket="100ms")
    source, other = (app.source(s, schema={"a": "int64"}) for s in ("src", "other"))
    app.query("q", source.filter(predicate).node("cut", replicas=replicas), delay_threshold="1s", replicas=1)
    app.query("p", other, delay_threshold="2s", replicas=1)
    return app.describe()


@pytest.fixture
def log(bootstrap: str) -> KafkaLog:
    return KafkaLog(bootstrap)


@pytest.fixture
def name() -> str:
    return f"launch-{uuid.uuid4().hex[:8]}"


def describe(log: KafkaLog, spec: AppSpec, origin: str = "earliest") -> launch.AppState:
    return launch.describe(log, spec, launch.check(spec, Timing()), origin, time.time_ns() // 1000, Timing())


def test_described_once_and_found(log: KafkaLog, name: str) -> None:
    before = time.time_ns() // 100_000_000
    state = describe(log, spec_of(name))
    assert before <= state.origin <= time.time_ns() // 100_000_000
    assert read_app(log, name) == state
    assert (state.thresholds, state.policies) == ({"q": 1_000_000}, {"q": Policy("process", "process")})
    with closing(log.lookup()) as lookup:
        written = lookup.bounds(Feed(topics.settings(name)))
        assert describe(log, spec_of(name)) == state
        assert lookup.bounds(Feed(topics.settings(name))) == written


def test_what_the_file_changed_is_written_and_nothing_else(log: KafkaLog, name: str) -> None:
    describe(log, spec_of(name))
    put_settings(log, name, {"threshold/q": Threshold(777_000)})
    state = describe(log, spec_of(name, policy="delay", replicas=2))
    assert state.threshold_us("q") == 777_000
    assert state.policies["q"] == Policy("delay", "process")
    assert state.replicas() == [("q", 0), ("q", 1)]
    assert topics.replica(name, "q", 1) in log.admin().topics()
    assert describe(log, spec_of(name, threshold="2s")).threshold_us("q") == 2_000_000


def test_another_query_is_refused(log: KafkaLog, name: str) -> None:
    state = describe(log, spec_of(name))
    changed = spec_of(name, predicate="a > 2")
    with pytest.raises(LaunchError) as refused:
        describe(log, changed)
    for part in (state.hash, changed.hash, changed.query_hash("q"), "--reset"):
        assert part in str(refused.value)
    assert read_app(log, name) == state


def test_another_kernel_is_refused(log: KafkaLog, name: str) -> None:
    state = describe(log, spec_of(name))
    reports = [replace(r, fingerprints=("other",)) for r in launch.check(spec_of(name), Timing())]
    with pytest.raises(LaunchError, match=f"kernel {state.description.fingerprint}, this machine's is other"):
        launch.describe(log, spec_of(name), reports, "earliest", 1, Timing())
    assert read_app(log, name) == state


@pytest.mark.parametrize("origin", ["2013-01-01", str(T2013 + 99_999)])
def test_origin_by_time(log: KafkaLog, name: str, origin: str) -> None:
    assert describe(log, spec_of(name), origin).origin == T2013 // 100_000
    with pytest.raises(LaunchError, match="already has an origin, 2013-01-01T00:00:00Z"):
        describe(log, spec_of(name), "2014-01-01")


def test_origin_of_the_earliest_tuple(log: KafkaLog, name: str) -> None:
    """Sources outlive a description that was lost (they are created by `up` only, so there was one)."""
    state = describe(log, spec_of(name))
    with publisher("src", "0s", app=name, bootstrap=log.bootstrap) as sender:
        stime = time.time_ns() // 1000 + 30_000_000
        assert sender.send({"a": 1}, stime=stime)
    log.admin().delete([topics.settings(name)])
    again = describe(log, spec_of(name))
    assert again.origin == stime // 100_000
    assert again.origin > state.origin


def test_a_threshold_that_cannot_hold_names_query_and_least() -> None:
    with pytest.raises(SettingsError, match=r"query 'q': delay threshold 100 ms is too small: at least 375 ms"):
        launch.check(spec_of("x", threshold="100ms"), Timing())


def test_a_chain_has_topics_and_control_partitions_for_its_nodes(log: KafkaLog, name: str) -> None:
    state = describe(log, chain_of(name))
    found = {t.removeprefix(f"{name}.") for t in log.admin().topics() if t.startswith(f"{name}.")}
    assert found == {
        "src", "other", "cut.r0", "cut.r1", "cut.progress", "q", "q.r0", "q.progress", "p", "p.r0", "p.progress",
        "control", "settings", "status", "deadletter", "acks",
    }  # fmt: skip
    with closing(log.lookup()) as lookup:
        assert [lookup.bounds(Feed(topics.control(name), partition)) for partition in range(3)] == [(0, 0)] * 3
    assert state.replicas() == [("cut", 0), ("cut", 1), ("q", 0), ("p", 0)]


def test_a_node_that_got_more_replicas_is_named(log: KafkaLog, name: str) -> None:
    assert launch.described(log, name) is None
    before = describe(log, chain_of(name))
    after = describe(log, chain_of(name, replicas=3))
    assert launch.resized(before, after) == {"cut": (2, 3)}
    assert launch.resized(after, after) == {}
    assert launch.described(log, name) == after


def test_a_node_keeps_its_place_when_the_file_is_reordered(log: KafkaLog, name: str) -> None:
    """Its place is its partition of the control log, where its incarnations are."""
    before = describe(log, chain_of(name))
    other = chain_of(name)
    other = other.model_copy(update={"queries": {n: other.queries[n] for n in ("p", "q")}})
    assert list(other.all_nodes) != list(before.spec.all_nodes)
    assert list(describe(log, other).spec.all_nodes) == list(before.spec.all_nodes)


def test_a_changed_node_is_named(log: KafkaLog, name: str) -> None:
    before = describe(log, chain_of(name))
    with pytest.raises(LaunchError) as refused:
        describe(log, chain_of(name, predicate="a > 2"))
    told = str(refused.value)
    assert f"node 'cut': {before.spec.query_hash('cut')} on the broker" in told
    assert "query 'q'" in told
    assert "query 'p'" not in told


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_the_least_threshold_grows_with_the_chain(depth: int) -> None:
    def chain(threshold_ms: int) -> AppSpec:
        app = App("x")
        stream = app.source("s", schema={"a": "int64"})
        for i in range(1, depth):
            stream = stream.filter("a > 0").node(f"n{i}")
        app.query("q", stream, delay_threshold=f"{threshold_ms}ms")
        return app.describe()

    timing = Timing()
    least_ms = timing.least_threshold_us(depth) // 1000
    with pytest.raises(SettingsError, match=rf"query 'q': .* at least {least_ms} ms"):
        launch.check(chain(least_ms - 1), timing)
    waits = [r.delays.wait_us for r in launch.check(chain(least_ms), timing)]
    assert waits == [timing.delta_us + i * timing.hop_us for i in range(depth)]


def test_a_node_waits_as_long_as_its_most_hurried_query_allows() -> None:
    reports = {r.name: r for r in launch.check(chain_of("x"), Timing())}
    slack = Timing().slack_of(2)
    assert reports["cut"].delays.wait_us == 1_000_000 - slack - Timing().hop_us
    assert (reports["q"].delays.wait_us, reports["p"].delays.wait_us) == (
        1_000_000 - slack,
        2_000_000 - Timing().slack_of(1),
    )
    assert (reports["cut"].serves, reports["cut"].position, reports["q"].position) == (("q",), 1, 2)


def test_apps_that_cannot_be_read(log: KafkaLog, name: str) -> None:
    with pytest.raises(NoSuchApp, match="no app"):
        find_app(log, name)
    create_topics(log, topics_of(spec_of(name)))
    with pytest.raises(NoSuchApp, match="interrupted"):
        read_app(log, name)
    append(log, topics.settings(name), b"app", b"{}")
    with pytest.raises(NoSuchApp, match="cannot be read"):
        read_app(log, name)


def test_settings_that_nobody_understands_change_nothing(log: KafkaLog, name: str) -> None:
    state = describe(log, spec_of(name))
    append(log, topics.settings(name), b"threshold/q", b"soon")
    append(log, topics.settings(name), b"new/thing", b"1")
    put_settings(log, name, {"fail/src": SourceFailure(5)})
    found = read_settings(log, name)
    assert found is not None
    assert (found.description, found.failed_until) == (state.description, {"src": 5})
    assert found.threshold_us("q") == 1_000_000
    with pytest.raises(NoSuchApp, match="did you mean 'src'"):
        found.schema("srk")


def test_statuses_of_others_are_passed_over(log: KafkaLog, name: str) -> None:
    state = describe(log, spec_of(name))
    append(log, topics.status(name), b"q/0", b'{"node": "q"}')
    assert read_statuses(log, state, time.time_ns() // 1_000_000) == {}
    with closing(StatusReader(log, name)) as reader:
        assert reader.poll() == []


def test_the_times_of_statuses_are_the_brokers_where_their_machine_s_clock_differs(log: KafkaLog, name: str) -> None:
    describe(log, spec_of(name))
    for index, ahead_us in enumerate((None, 999_999, 3_600_000_000, -3_600_000_000)):
        status = ingress_status(ingress=index, at_wall_us=5_000_000_000, clock_ahead_us=ahead_us)
        append(log, topics.status(name), status_key("orders", index), encode(status))
    with closing(StatusReader(log, name)) as reader:
        until(lambda: reader.poll() == [] and len(reader.ingresses) == 4, "all have come")
        assert [reader.ingresses["orders", index].at_wall_us // 1_000_000 for index in range(4)] == [
            5_000,
            5_000,
            1_400,
            8_600,
        ]


def test_each_process_answers_http_at_a_port_of_its_own(tmp_path: launch.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = ProcessSpec("host:1", tmp_path, http="127.0.0.1:9400")
    state = AppState("a", chain_of("a"), Description("", "", 0, "", "a1"))
    processes = launch.ReplicaProcesses(tmp_path, "a")
    started: dict[ProcessName, str | None] = {}
    monkeypatch.setattr(
        processes, "start_process", lambda name, told, take_over: started.update({name: told.http}) or 1
    )
    launch.start_processes(state, processes, spec)
    assert [started[name] for name in launch.process_names(state.spec)] == [f"127.0.0.1:{9400 + i}" for i in range(2)]
    started.clear()
    with pytest.raises(AddressError, match="1 more port "):
        launch.start_processes(state, processes, ProcessSpec("host:1", tmp_path, http="127.0.0.1:65535"))
    assert not started


def append(log: KafkaLog, topic: str, key: bytes, value: bytes) -> None:
    with closing(log.appender(lambda: None)) as appender:
        appender.append(NewRecord(Feed(topic), value, key), 1)
        assert appender.flush(PATIENCE_S)


def test_an_app_that_begins_anew_knows_its_old_checkpoints_from_its_own(log: KafkaLog, name: str, tmp_path) -> None:  # type: ignore[no-untyped-def]
    spec, processes = spec_of(name), launch.ReplicaProcesses(tmp_path, name)
    first = describe(log, spec, "2013-01-01")
    assert describe(log, spec).app_uid == first.app_uid != ""
    launch.reset(log, spec, processes)
    again = describe(log, spec, "2013-01-01")
    told = [replica_spec(s, "q", 0, log, tmp_path).query_hash for s in (first, again)]
    assert told[0] != told[1]
    assert [t.partition("@")[0] for t in told] == [spec.query_hash("q")] * 2
