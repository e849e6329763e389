"""Settings as a replica reads them: a bad one is named and changes nothing; a node obeys all queries that read it."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from borealis_py.log.base import Feed, Record
from borealis_py.log.description import Life
from borealis_py.log.messages import (
    DisagreementSetting,
    Incarnation,
    Policy,
    RetainSetting,
    SourceFailure,
    Threshold,
    encode,
)
from borealis_py.node.delays import as_configured, as_enforced, declared
from borealis_py.node.dynamic_settings import ALL, DynamicSettings
from borealis_py.protocol.incarnation import Disagreement
from borealis_py.protocol.settings import DelayPolicy, Delays, NodeDelays, SettingsError, Timing
from borealis_py.protocol.trimming import Retain
from borealis_py.query import App
from borealis_py.query.spec import Serves

TIMING = Timing()
PROCESS, DELAY, SUSPEND = DelayPolicy.PROCESS, DelayPolicy.DELAY, DelayPolicy.SUSPEND
MS = 1_000
NEEDED = Retain(0)


def settings() -> DynamicSettings:
    return DynamicSettings(Life("a1"), "q", 1, (Serves(query="q"),), {"q": Delays(3_000_000)}, TIMING)


def record(key: str, value: bytes | None) -> Record:
    return Record(Feed("app.settings"), 0, 0, key.encode(), value)


def threshold(query: str, ms: int) -> Record:
    return record(f"threshold/{query}", encode(Threshold(ms * MS)))


def policy(query: str, failure: DelayPolicy, stabilization: DelayPolicy) -> Record:
    return record(f"policy/{query}", encode(Policy(failure.value, stabilization.value)))


def wait_ms(it: DynamicSettings) -> float:
    """D of the node."""
    return it.delays.wait_us / MS


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        (RetainSetting.of("a1", None), ALL),
        (RetainSetting.of("a1", "audited"), Retain(0, audited=True)),
        (RetainSetting.of("another", None), NEEDED),
        (RetainSetting.of("another", "audited"), NEEDED),
        (RetainSetting(None), ALL),  # of an earlier version, which named no life
    ],
)
def test_what_is_kept_is_said_in_the_life_it_was_said_for(value: RetainSetting, kept: Retain) -> None:
    """Else a command that was on its way during a reset would delete what the new life is to keep."""
    it = DynamicSettings(Life("a1"), "q", 1, (), {}, TIMING, {"s": NEEDED})
    it.read(record("retain/s", encode(value)))
    assert it.retain("s") == kept


def test_what_the_apps_file_declares_is_in_force_at_first() -> None:
    app = App("app")
    rows = app.source("s", schema={"x": "int64"}).filter("x > 0")
    app.query("q", rows, delay_threshold="7s", on_failure="delay", on_stabilization="suspend")
    assert declared(app.describe().query("q")) == Delays(7_000_000, DELAY, SUSPEND)


def test_a_threshold_of_this_query_is_in_force_at_once() -> None:
    it = settings()
    it.read(threshold("q", 500))
    it.read(threshold("other", 900))
    assert wait_ms(it) == 500 - TIMING.slack_us / MS
    assert it.queries["q"] == Delays(500_000)


@pytest.mark.parametrize(("app_uid", "counts"), [("a1", True), ("", True), ("b2", False)])
def test_what_was_set_counts_in_its_life_only(app_uid: str, counts: bool) -> None:
    """Else what was under way during a reset would be set in the new life. Without a life: of an earlier version."""
    it = settings()
    it.read(record("threshold/q", encode(Threshold(500_000, app_uid))))
    it.read(record("policy/q", encode(Policy(DELAY.value, SUSPEND.value, app_uid))))
    it.read(record("fail/lga", encode(SourceFailure(77, app_uid))))
    assert it.queries["q"] == (Delays(500_000, DELAY, SUSPEND) if counts else Delays(3_000_000))
    assert it.failed_until == ({"lga": 77} if counts else {})


def test_policies_and_failures_and_incarnations() -> None:
    it = settings()
    it.read(policy("q", DELAY, SUSPEND))
    it.read(policy("other", SUSPEND, SUSPEND))
    it.read(record("fail/lga", encode(SourceFailure(77))))
    it.read(record("incarnation/q/1", encode(Incarnation("a1", 4, "u"))))
    it.read(record("incarnation/q/0", encode(Incarnation("a1", 9, "u"))))
    it.read(record("incarnation/q/1", encode(Incarnation("a1", 3, "u"))))
    it.read(record("incarnation/q/1", encode(Incarnation("b2", 99, "u"))))  # of another life
    assert (it.delays.failure, it.delays.stabilization) == (DELAY, SUSPEND)
    assert it.failed_until == {"lga": 77}
    assert it.inc == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("threshold/q", encode(Threshold(0))),
        ("threshold/q", encode(Threshold(-5))),
        ("threshold/q", encode(Threshold(100_000))),
        ("threshold/q", b"{"),
        ("threshold/q", None),
        ("policy/q", encode(Policy("never", "process"))),
        ("fail/lga", b'{"until_wall_us": "soon"}'),
        ("fail/lga", b'{"until_wall_us": 1000000000000000000000000000000}'),
        ("fail/lga", b"[" * 100_000),
        ("fail/lga", b'{"until_wall_us": "\xff\xfe"}'),
    ],
)
def test_a_bad_setting_is_named_and_changes_nothing(key: str, value: bytes | None) -> None:
    it = settings()
    with capture_logs() as lines:
        it.read(record(key, value))
    assert it.delays == NodeDelays(3_000_000 - TIMING.slack_us)
    assert it.failed_until == {}
    assert [line["key"] for line in lines] == [key]


# Chains ---------------------------------------------------------------------------------------------------------------

SHARED = (Serves(query="near", hops=1, depth=2), Serves(query="far", hops=2, depth=3))
"""A cut node that two queries read, the second through another node."""


def shared() -> DynamicSettings:
    initial = {"near": Delays(3_000_000), "far": Delays(3_000_000), "else": Delays(400_000)}
    return DynamicSettings(Life("a1"), "cleaned", 0, SHARED, initial, TIMING)


def test_a_cut_node_waits_as_the_most_hurried_of_its_queries_allows() -> None:
    it = shared()
    # near: slack max(250, 125 + 100 + 50) = 275, one hop of 100; far: slack 375, two hops
    assert wait_ms(it) == 3_000 - 375 - 200
    it.read(threshold("near", 1_000))
    assert wait_ms(it) == 1_000 - 275 - 100
    it.read(threshold("near", 2_900))
    assert wait_ms(it) == 3_000 - 375 - 200
    it.read(threshold("else", 500))
    assert wait_ms(it) == 3_000 - 375 - 200


def test_status_states_a_querys_own_delays_and_of_a_cut_node_the_strictest() -> None:
    near, far = Delays(3_000_000, DELAY, SUSPEND), Delays(900_000, SUSPEND, PROCESS)
    delays = {"near": near, "far": far}
    assert (as_configured("near", delays), as_configured("far", delays)) == (near, far)
    assert as_configured("cleaned", delays) == Delays(900_000, DELAY, PROCESS)


def test_a_cut_node_holds_back_only_what_none_of_its_queries_wants() -> None:
    it = shared()
    it.read(policy("near", SUSPEND, DELAY))
    assert (it.delays.failure, it.delays.stabilization) == (PROCESS, PROCESS)
    it.read(policy("far", DELAY, SUSPEND))
    assert (it.delays.failure, it.delays.stabilization) == (DELAY, DELAY)
    it.read(policy("near", SUSPEND, SUSPEND))
    assert (it.delays.failure, it.delays.stabilization) == (DELAY, SUSPEND)


def test_the_last_node_of_a_chain_has_its_querys_slack() -> None:
    it = DynamicSettings(Life("a1"), "near", 0, (Serves(query="near", depth=2),), {"near": Delays(1_000_000)}, TIMING)
    assert wait_ms(it) == 1_000 - 275


@pytest.mark.parametrize("hops", [0, 1, 2])
def test_all_nodes_of_a_chain_refuse_the_same_thresholds(hops: int) -> None:
    """Else some would wait as told and others as before."""
    serves = (Serves(query="far", hops=hops, depth=3),)
    it = DynamicSettings(Life("a1"), "some", 0, serves, {"far": Delays(3_000_000)}, TIMING)
    before = it.delays
    least_ms = 125 + 375 + 200
    with capture_logs() as lines:
        it.read(threshold("far", least_ms - 1))
    assert it.delays == before
    assert f"at least {least_ms} ms" in lines[0]["why"]
    it.read(threshold("far", least_ms))
    assert it.delays != before


def test_a_file_with_a_threshold_that_cannot_hold_is_no_start_unless_a_setting_mends_it() -> None:
    it = DynamicSettings(Life("a1"), "cleaned", 0, SHARED, {"near": Delays(3_000_000), "far": Delays(699 * MS)}, TIMING)
    with pytest.raises(SettingsError, match="at least 700 ms"):
        _ = it.delays
    it.read(threshold("far", 700))
    assert wait_ms(it) == 700 - 375 - 200


@given(
    st.lists(st.tuples(st.integers(700, 9_000), *[st.sampled_from(list(DelayPolicy))] * 2), min_size=2, max_size=2),
    st.integers(0, 2),
)
def test_the_order_in_which_settings_arrive_does_not_matter(
    values: list[tuple[int, DelayPolicy, DelayPolicy]], replica: int
) -> None:
    """Of different keys, that is: nodes and replicas start and read at different times, and must end up alike."""
    records = []
    for query, (ms, failure, stabilization) in zip(("near", "far"), values, strict=True):
        records += [threshold(query, ms), policy(query, failure, stabilization)]
    wanted = as_enforced(
        SHARED, {q: Delays(v[0] * MS, *v[1:]) for q, v in zip(("near", "far"), values, strict=True)}, TIMING
    )
    for order in permutations(records):
        it = DynamicSettings(
            Life("a1"), "cleaned", replica, SHARED, {"near": Delays(3_000_000), "far": Delays(3_000_000)}, TIMING
        )
        for one in order:
            it.read(one)
        assert it.delays == wanted


def test_replicas_that_differ_are_handed_over_once_in_order_and_of_this_life_and_node_only() -> None:
    it = settings()
    found = Disagreement(7, 0, "aa", 1, "bb", "q")
    for name, app_uid, said in (("q", "a1", found), ("other", "a1", found), ("q", "b2", found), ("q", "a1", None)):
        it.read(record(f"diverged/{name}", encode(DisagreementSetting(app_uid, said))))
    assert it.take_disagreements() == [found, None]
    assert it.take_disagreements() == []


def test_the_names_of_which_it_was_said_that_replicas_differ_are_those_of_the_node_and_of_its_queries() -> None:
    serves = (Serves(query="one"), Serves(query="two"))
    delays = {"one": Delays(3_000_000), "two": Delays(3_000_000)}
    it = DynamicSettings(Life("a1"), "cut.0", 1, serves, delays, TIMING)
    found = Disagreement(7, 0, "aa", 1, "bb", "cut.0")
    for name, app_uid, said in (
        ("one", "a1", found),
        ("three", "a1", found),
        ("two", "b2", found),
        ("cut", "a1", None),
    ):
        it.read(record(f"diverged/{name}", encode(DisagreementSetting(app_uid, said))))
    assert it.take_differing() == {"one", "cut"}
    assert it.take_differing() == set()
    assert it.take_disagreements() == [None]
