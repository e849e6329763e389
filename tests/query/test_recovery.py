"""How nodes recover, as users say it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from borealis_py.query import App
from borealis_py.query.errors import QueryError
from borealis_py.query.partitions import physical
from borealis_py.query.recovery import ACTIVE, SYNC_US, WAYS, Guarantee, RecoveryPlan, RecoveryWay, parse_recovery
from borealis_py.query.spec import AppSpec

SCHEMA = {"n": "int64", "k": "string"}
PASSIVE, UPSTREAM = RecoveryWay.PASSIVE_STANDBY, RecoveryWay.UPSTREAM_BACKUP


def an_app(cut: dict[str, Any] | None = None, other: dict[str, Any] | None = None, **query: Any) -> AppSpec:
    """s -> cut -> q, r. `cut`, `other` (of r), `query` (of q): what they say."""
    it = App("shop")
    rows = it.source("s", SCHEMA).node("cut", **(cut or {}))
    it.query("q", rows, **query)
    it.query("r", rows.filter("n > 0"), **(query if other is None else other))
    return it.describe()


def test_every_way_can_be_said() -> None:
    assert set(WAYS) == {way.value for way in RecoveryWay}
    for word in WAYS:
        spec = an_app(recovery=word)
        assert {spec.node(name).recovery for name in ("q", "r")} == {RecoveryPlan(RecoveryWay(word))}
        assert spec.node("cut").recovery == (ACTIVE if word == "amnesia" else RecoveryPlan(RecoveryWay(word)))


def test_who_begins_with_nothing_needs_no_other_replica() -> None:
    spec = an_app(recovery="amnesia", guarantee="gap", replicas=1)
    assert spec.node("q").recovery == RecoveryPlan(RecoveryWay.AMNESIA)
    assert (spec.readers_of("cut"), spec.readers_of("q")) == (("q", "r"), ())


def test_an_app_that_says_nothing_is_active_and_precise() -> None:
    spec = an_app()
    assert {(node.recovery, node.guarantee) for node in spec.all_nodes.values()} == {(ACTIVE, Guarantee.PRECISE)}
    assert "recovery" not in spec.to_json()
    assert "guarantee" not in spec.to_json()


def test_a_description_has_it_and_one_without_is_active() -> None:
    spec = an_app(recovery="passive-standby", sync="1s", guarantee="rollback")
    assert AppSpec.from_json(spec.to_json()) == spec
    told = json.loads(spec.to_json())
    for node in (told["nodes"]["cut"], told["queries"]["q"]):
        assert node.pop("recovery") == {"way": "passive-standby", "sync_us": 1_000_000}
        assert node.pop("guarantee") == "rollback"
    without = AppSpec.from_json(json.dumps(told))
    assert (without.node("cut").recovery, without.node("q").recovery) == (ACTIVE, ACTIVE)
    assert without.node("r") == spec.node("r")


def test_it_changes_no_result_so_an_app_may_change_it() -> None:
    one, other = an_app(), an_app(recovery="passive-standby", sync="200ms", guarantee="gap")
    assert one.hash == other.hash
    assert [one.query_hash(name) for name in one.all_nodes] == [other.query_hash(name) for name in other.all_nodes]


def test_an_interval_is_that_of_a_passive_standby() -> None:
    assert parse_recovery("passive-standby", None, "x") == RecoveryPlan(PASSIVE, SYNC_US)
    assert an_app(recovery="passive-standby", sync="2s").node("q").recovery == RecoveryPlan(PASSIVE, 2_000_000)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"recovery": "pasive-standby"}, r"query 'q': recovery='pasive-standby'; did you mean 'passive-standby'"),
        (
            {"recovery": "hot"},
            r"recovery='hot'; choose active, active-standby, passive-standby, upstream-backup or amnesia",
        ),
        ({"recovery": 3}, r"recovery=3; choose"),
        ({"recovery": ["active"]}, r"recovery=\['active'\]; did you mean 'active'"),
        ({"guarantee": "precice"}, r"query 'q': guarantee='precice'; did you mean 'precise'"),
        ({"guarantee": "none at all"}, r"choose precise, rollback or gap"),
        ({"sync": "1s"}, r"query 'q': sync='1s' goes with recovery=\"passive-standby\": say both"),
        (
            {"recovery": "active-standby", "sync": "1s"},
            r"query 'q': sync='1s' .* active-standby has none: leave it out",
        ),
        ({"recovery": "passive-standby", "sync": "1"}, r"sync of query 'q': '1' has no unit"),
        ({"recovery": "passive-standby", "sync": 1}, r"sync of query 'q': 1 is not a duration"),
        (
            {"recovery": "passive-standby", "sync": "99ms"},
            r"query 'q': sync='99ms' is shorter than a bucket of the app, 100ms, .* choose 100ms or",
        ),
        (
            {"recovery": "passive-standby", "sync": "2h"},
            r"query 'q': sync='2h' is longer than 1h, .* choose 1h or less",
        ),
        ({"recovery": "passive-standby", "replicas": 1}, r"query 'q': with passive-standby .* set replicas=2, or rec"),
        ({"recovery": "active-standby", "replicas": 1}, r"query 'q': with active-standby one replica runs"),
        ({"recovery": "upstream-backup", "replicas": 1}, r"query 'q': with upstream-backup one replica runs"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(said: dict[str, Any], message: str) -> None:
    it = App("shop")
    with pytest.raises(QueryError, match=message):
        it.query("q", it.source("s", SCHEMA), **said)


def test_a_node_s_words_are_refused_by_its_name() -> None:
    rows = App("shop").source("s", SCHEMA)
    with pytest.raises(QueryError, match="node 'cut': recovery='activ'; did you mean 'active'"):
        rows.node("cut", recovery="activ")
    with pytest.raises(QueryError, match="node 'cut': with active-standby one replica runs and another one takes over"):
        an_app({"recovery": "active-standby", "replicas": 1})


def test_one_replica_may_be_active_and_ten_ms_a_bucket() -> None:
    it = App("shop", bucket="10ms")
    it.query("q", it.source("s", SCHEMA), replicas=1, recovery="active")
    it.query("r", it.source("t", SCHEMA), recovery="passive-standby", sync="10ms")
    assert it.describe().node("r").recovery.sync_us == 10_000


@pytest.mark.parametrize(
    ("query", "other", "way", "sync_us"),
    [
        ({"recovery": "upstream-backup"}, {"recovery": "upstream-backup"}, UPSTREAM, SYNC_US),
        ({"recovery": "upstream-backup"}, {}, RecoveryWay.ACTIVE, SYNC_US),
        ({"recovery": "upstream-backup"}, {"recovery": "passive-standby"}, RecoveryWay.ACTIVE, SYNC_US),
        ({"recovery": "passive-standby", "sync": "2s"}, {"recovery": "passive-standby", "sync": "1s"}, PASSIVE, 10**6),
    ],
)
def test_a_node_that_says_nothing_recovers_as_its_queries_do_if_they_agree(
    query: dict[str, Any], other: dict[str, Any], way: RecoveryWay, sync_us: int
) -> None:
    assert an_app({}, other, **query).node("cut").recovery == RecoveryPlan(way, sync_us)


def test_what_a_node_says_holds_for_it() -> None:
    spec = an_app({"recovery": "active-standby", "guarantee": "rollback"}, recovery="passive-standby")
    assert spec.node("cut").recovery == RecoveryPlan(RecoveryWay.ACTIVE_STANDBY)
    assert spec.node("cut").guarantee is Guarantee.ROLLBACK
    assert spec.node("q").recovery == RecoveryPlan(PASSIVE)


def test_queries_behind_other_nodes_count_and_the_strongest_guarantee_holds() -> None:
    it = App("shop")
    first = it.source("s", SCHEMA).node("first")
    it.query("q", first.node("second"), recovery="passive-standby", guarantee="gap")
    it.query("r", first, recovery="passive-standby", guarantee="rollback")
    spec = it.describe()
    assert spec.node("first").recovery.way is spec.node("second").recovery.way is PASSIVE
    assert (spec.node("first").guarantee, spec.node("second").guarantee) == (Guarantee.ROLLBACK, Guarantee.GAP)


def test_a_way_that_a_node_takes_over_is_checked_with_its_own_replicas() -> None:
    with pytest.raises(QueryError, match=r'node \'cut\': with passive-standby .* or recovery="active"'):
        an_app({"replicas": 1}, recovery="passive-standby")
    assert an_app({"replicas": 1, "recovery": "active"}, recovery="passive-standby").node("cut").recovery == ACTIVE


def test_partitions_recover_as_what_they_are_partitions_of() -> None:
    spec = an_app({"partitions": 2, "by": "k"}, recovery="upstream-backup", guarantee="rollback")
    runs = physical(spec)
    assert {runs.node(name).recovery for name in ("cut.0", "cut.1", "q")} == {RecoveryPlan(UPSTREAM)}
    assert runs.node("cut.1").guarantee is Guarantee.ROLLBACK
    assert AppSpec.from_json(runs.to_json()) == runs


def test_an_audit_s_app_has_no_replicas_to_recover() -> None:
    spec = an_app(recovery="upstream-backup", guarantee="gap")
    assert spec.flattened("q") == an_app().flattened("q")


@pytest.mark.parametrize(
    ("way", "sync_us", "replicas", "message"),
    [
        ("passive-standby", 5, 2, "is shorter than a bucket of the app, 100ms"),
        ("active-standby", SYNC_US, 1, "it has only one"),
        ("hot", SYNC_US, 2, "not an app's description"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(way: str, sync_us: int, replicas: int, message: str) -> None:
    told = json.loads(an_app().to_json())
    told["queries"]["q"] |= {"recovery": {"way": way, "sync_us": sync_us}, "replicas": replicas}
    with pytest.raises(QueryError, match=message):
        AppSpec.from_json(json.dumps(told))
