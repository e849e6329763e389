"""What may be set of a source that an ingress writes, and how it is written and waited for. No broker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from borealis_py.app import source_settings as settings
from borealis_py.app.launch import _changed_settings, waits_changed
from borealis_py.app.settings import checked
from borealis_py.app.source_settings import (
    change_source,
    check_expect,
    check_skip,
    copied_partitions,
    refuse_other,
)
from borealis_py.app.state import AppState, NoSuchApp, read_settings
from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.log.ingress_status import IngressRole, status_key
from borealis_py.log.messages import Description, EndOfSource, ExpectedSilence, PartitionSkip, encode
from borealis_py.log.records import ClaimHeader, pack
from borealis_py.protocol.settings import SettingsError
from borealis_py.query import App, QueryError
from tests.support.copied_source import copy, described, described_log, put, tell
from tests.support.ingress_statuses import ingress_input, ingress_status
from tests.support.instant_log import InstantLog


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> InstantLog:
    monkeypatch.setattr(settings, "GONE_S", 600.0)  # on a machine that is slow, too
    return described_log()


def test_a_topic_stands_for_all_its_inputs_where_something_is_done_to_a_source() -> None:
    state = described()
    assert state.inputs_of("orders") == ("orders.0", "orders.1")
    assert state.inputs_of("orders.1") == ("orders.1",)
    with pytest.raises(NoSuchApp, match=r"no source 'ordres'; did you mean"):
        state.inputs_of("ordres")


def test_an_input_by_value_is_found_by_its_value_and_by_no_number_that_is_not_one() -> None:
    spec = App("shop")
    schema = {"device": "int64", "hall": "string", "at": "int64"}
    more: dict[str, Any] = {"stime": "at"}
    devices = spec.topic("devices", "prod.devices", schema, by="device", values=[1, 0, 7], **more)
    halls = spec.topic("halls", "prod.halls", schema, by="hall", values=["d2", "d 3"], **more)
    spec.query("q", spec.union(devices, halls).filter("at > 0"))
    app = spec.describe()
    state = AppState("shop", app, Description(app.to_json(), app.hash, 1, "", "a1"))
    found = {
        "devices.1": "devices.0", "devices.0": "devices.1", "devices.7": "devices.2", "devices.other": "devices.3",
        "halls.d2": "halls.0", "halls.d 3": "halls.1", "halls.d%203": "halls.1",
    }  # fmt: skip
    assert {name: state.inputs_of(name) for name in found} == {name: (of,) for name, of in found.items()}
    assert len(state.inputs_of("halls")) == 3
    for name, told in (
        ("devices.2", "input 'devices.2' goes by its value: name 'devices.7'"),
        ("halls.1", "input 'halls.1' goes by its value: name 'halls.d%203'"),
        ("halls.d1", "no input 'halls.d1'; did you mean 'halls.d2'"),
        ("hals", "did you mean 'halls"),
    ):
        with pytest.raises(NoSuchApp, match=told):
            state.inputs_of(name)


def test_what_is_no_source_of_an_ingress_is_refused_with_what_exists() -> None:
    refuse_other(described(), "orders")
    for name, told in (
        ("ordres", "did you mean 'orders'"),
        ("orders.1", "Name 'orders'"),
        ("own", "has publishers, and reads no topic of other programs; sources that do: orders"),
        ("q", "'q' is a query, not a source; sources that read topics of others: orders"),
    ):
        with pytest.raises(NoSuchApp, match=told):
            refuse_other(described(), name)


def test_the_partitions_are_those_that_the_inputs_logs_name_last(log: InstantLog) -> None:
    assert copied_partitions(log, described(), "orders") == frozenset()
    copy(log, 0, 0)
    copy(log, 0, 0, 2)
    copy(log, 1, 1)
    copy(log, 1, 1, 3, 5, app_uid="a0")  # another life's
    for n in range(200):
        put(log, "shop.orders", b"", pack(ClaimHeader("a1", n + 2, "u", 0)), 1)
    put(log, "shop.orders", b"", b"garbage", 1)
    assert copied_partitions(log, described(), "orders") == {0, 1, 2}


def test_a_partition_that_does_not_exist_is_refused_with_those_that_do(log: InstantLog) -> None:
    with pytest.raises(NoSuchApp, match="none yet: its ingress has not begun"):
        check_skip(log, described(), "orders", 0)
    copy(log, 0, 0, 2)
    with pytest.raises(NoSuchApp, match=r"'prod.orders' has no partition 1 that was ever copied. Partitions: 0, 2"):
        check_skip(log, described(), "orders", 1)


def test_only_what_is_waited_for_in_vain_can_be_given_up(log: InstantLog) -> None:
    copy(log, 0, 0, 2)
    copy(log, 1, 1)
    state = described()
    check_skip(log, state, "orders", 0)  # no ingress tells that it can be read
    tell(log, ingress_status())
    with pytest.raises(SettingsError, match=r"partition 0 of topic .prod\.orders. can be read, and nothing waits"):
        check_skip(log, state, "orders", 0)
    unreadable = ingress_input(0, missing="partition 2 cannot be read", unreadable=(2,))
    tell(log, ingress_status(inputs=(unreadable, ingress_input(1))))
    check_skip(log, state, "orders", 2)
    with pytest.raises(SettingsError, match="partition 0"):
        check_skip(log, state, "orders", 0)
    tell(log, ingress_status(inputs=(ingress_input(0, missing="silent"), ingress_input(1))))
    check_skip(log, state, "orders", 0)
    tell(log, ingress_status(), role=IngressRole.STANDBY, inputs=())
    check_skip(log, state, "orders", 0)


def test_by_the_data_the_last_partition_cannot_be_given_up(log: InstantLog) -> None:
    copy(log, 0, 0)
    copy(log, 1, 1)
    state = described(boundary="data")
    check_skip(log, state, "orders", 0)
    state = replace(state, set_of_sources={"orders": SourceSettings(None, frozenset({1}))})
    with pytest.raises(SettingsError, match="partition 0 is the last that it goes by"):
        check_skip(log, state, "orders", 0)


def test_a_silence_must_be_shorter_than_queries_wait_and_a_threshold_no_shorter_than_that() -> None:
    state = described()
    check_expect(state, "orders", 2_749_999)
    check_expect(state, "orders", None)
    with pytest.raises(QueryError, match="has expect 2750ms, but the query waits 2750ms"):
        check_expect(state, "orders", 2_750_000)
    with pytest.raises(SettingsError, match="goes by the data"):
        check_expect(described(boundary="data"), "orders", 1_000)
    lowered = replace(state, thresholds={"q": 1_000_000})
    with pytest.raises(QueryError, match="has expect 1s, but the query waits 750ms"):
        check_expect(lowered, "orders", 1_000_000)
    checked(state, "q", 1_000_000)
    with pytest.raises(QueryError, match="has expect 1s, but the query waits 750ms"):
        checked(replace(state, set_of_sources={"orders": SourceSettings(1_000_000)}), "q", 1_000_000)


def skipped(partition: int) -> Any:
    return lambda settings: partition in settings.skipped


def test_a_setting_is_written_once_and_in_force_when_all_ingresses_say_so(log: InstantLog) -> None:
    tell(log, ingress_status())
    tell(log, ingress_status(ingress=1, role=IngressRole.STANDBY, inputs=()), skipped=(3,))
    state, values = described(), {"skip/orders/3": PartitionSkip("a1", True)}
    found = change_source(log, state, "orders", values, skipped(3), 0.3)
    assert (found.written, [one.index for one in found.pending]) == (True, [0])
    assert found.owner is not None

    def obeying(_: object) -> bool:
        tell(log, ingress_status(), skipped=(1, 3))
        return False

    found = change_source(log, state, "orders", values, skipped(3), 0.5, obeying)
    assert [(one.running, one.pending) for one in found.ingresses] == [(True, False), (True, False)]
    now = read_settings(log, "shop")
    assert now is not None
    assert now.source_settings("orders") == SourceSettings(None, frozenset({3}))
    assert change_source(log, now, "orders", values, skipped(3), 0.3).written is False


def test_one_that_has_ended_obeys_and_one_that_says_nothing_does_not_run(log: InstantLog) -> None:
    put(log, "shop.status", status_key("orders", 0), encode(ingress_status()))  # of long ago
    values = {"end/orders": EndOfSource("a1")}
    found = change_source(log, described(), "orders", values, lambda settings: settings.ending, 0.2)
    assert [one.running for one in found.ingresses] == [False, False]
    assert (found.pending, found.ended, found.owner) == ((), False, None)
    tell(log, ingress_status(ingress=1, role=IngressRole.ENDED, inputs=()))
    found = change_source(log, described(), "orders", values, lambda settings: settings.ending, 0.2)
    assert ([one.pending for one in found.ingresses], found.ended) == ([False, False], True)


def test_what_the_file_says_anew_replaces_what_was_set(log: InstantLog) -> None:
    before = described(expect="1s")
    assert _changed_settings(before, described(expect="1s").spec, "a1") == {}
    values = _changed_settings(before, described(expect="2s").spec, "a1")
    assert values == {"expect/orders": ExpectedSilence("a1", 2_000_000)}
    assert waits_changed(before, described(expect="2s")) == []
    assert waits_changed(before, described(lateness="1s")) == ["orders"]


def test_settings_of_another_life_are_not_read(log: InstantLog) -> None:
    put(log, "shop.settings", "end/orders", encode(EndOfSource("a0")))
    put(log, "shop.settings", "expect/orders", encode(ExpectedSilence("a1", 5)))
    found = read_settings(log, "shop")
    assert found is not None
    assert found.set_of_sources == {"orders": SourceSettings(5)}
    assert found.in_force().ingresses["orders"].expect_us == 5
