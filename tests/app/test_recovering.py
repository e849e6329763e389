"""What surviving a crash would cost: nodes tried on rows, and what their readers would see. No broker."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from borealis_py.app.explain import explain
from borealis_py.app.recovery_forecast import COMPUTING_CORES, HEARD_AGAIN, Forecast, forecasts
from borealis_py.app.recovery_trial import TriedNode, made_up_objects, try_nodes
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.trimming.plan import EVERY_US
from borealis_py.query import App
from borealis_py.query.partitions import physical
from borealis_py.query.recovery import RecoveryPlan, RecoveryWay
from borealis_py.types.spelling import WORDS

ACTIVE, STANDBY, PASSIVE, UPSTREAM, AMNESIA = RecoveryWay
TRIED = TriedNode(
    rows_per_s=1_000,
    row_us=10,
    window_s=60,
    state_bytes=60_000,
    keys=600,
    state_bytes_per_s=1e8,
    result_bytes_per_s=2_000,
)
RARELY = RecoveryPlan(PASSIVE, 10_000_000)
SALES = {"item": "string", "euros": "double"}


def sums(window: str = "2s", threshold: str = "3s", replicas: int = 2) -> App:
    app = App("x")
    a, b = (app.source(name, schema=SALES) for name in "ab")
    cut = app.union(a, b).filter("euros > 0").node("cut", replicas=replicas)
    result = cut.window(window).group_by("item").agg(n="count(*)")
    app.query("q", result, threshold, replicas=replicas)
    return app


def tried(app: App, **rates: float) -> dict[str, TriedNode]:
    found = try_nodes(physical(app.describe()), rates, {})
    return {name: one for name, one in found.items() if isinstance(one, TriedNode)}


def test_a_node_reads_what_those_before_it_give() -> None:
    found = tried(sums(), a=300, b=700)
    assert found["cut"].rows_per_s == 1_000
    assert found["q"].rows_per_s == pytest.approx(1_000, rel=0.01)  # made-up amounts are above 0
    assert (found["cut"].window_s, found["cut"].state_bytes >= 0, found["cut"].keys) == (0, True, 0)
    assert found["q"].window_s == pytest.approx(1.9)  # of the 20 buckets of a window the others lie before
    assert all(one.row_us > 0 and one.result_bytes_per_s > 0 for one in found.values())


def test_the_state_of_a_longer_window_than_is_tried_is_larger_in_proportion() -> None:
    short, long = (tried(sums(window), a=5_000, b=5_000)["q"] for window in ("2s", "200s"))
    assert 50 * short.state_bytes < long.state_bytes < 200 * short.state_bytes
    assert long.window_s == pytest.approx(199.9)


def test_rows_of_the_user_are_used() -> None:
    app = physical(sums().describe())
    none = b'{"item":"tea","euros":-1.0}'
    found = try_nodes(app, {"a": 100, "b": 100}, {"a": [none], "b": [b'{"item":"tea","euros":1.0}']})
    q = found["q"]
    assert isinstance(q, TriedNode)
    assert q.rows_per_s == pytest.approx(100, rel=0.01)  # those of a are filtered out


def test_rows_can_be_made_up_of_every_type() -> None:
    kinds = {
        f"c{i}": "decimal(9,2)" if kind == "decimal" else kind for i, kind in enumerate(dict.fromkeys(WORDS.values()))
    }
    app = App("x")
    app.query("q", app.source("s", schema=kinds).node("cut", replicas=1), "3s")
    spec = app.describe()
    assert len(made_up_objects(spec, "s")) > 10
    assert tried(app, s=100)["q"].rows_per_s == pytest.approx(100, rel=0.01)


def test_partitions_share_the_rows_of_their_node() -> None:
    app = App("x")
    cut = app.source("s", schema=SALES).node("cut", partitions=2, by="item")
    app.query("q", cut.window("1s").group_by("item").agg(n="count(*)"), "3s", partitions=2, by="item")
    found = tried(app, s=1_000)
    assert list(found) == ["cut.0", "cut.1", "q.0", "q.1"]
    assert found["cut.0"].rows_per_s == 1_000  # each reads all of the source, and takes its part
    assert found["q.0"].rows_per_s + found["q.1"].rows_per_s == pytest.approx(1_000, rel=0.01)


def test_what_remembers_for_ever_has_no_window() -> None:
    app = App("x")
    counted = app.source("s", schema=SALES).window(rows=7).group_by("item").agg(n="count(*)")
    app.query("q", counted, "3s")
    found = tried(app, s=1_000)["q"]
    assert found.window_s is None
    assert found.keys > 0


def test_functions_are_not_tried_nor_what_reads_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine_to_try.py").write_text("def twice(rows):\n    raise AssertionError('it was called')\n")
    monkeypatch.syspath_prepend(tmp_path)
    app = App("x", modules=[tmp_path / "mine_to_try.py"])
    from mine_to_try import twice  # type: ignore[import-not-found]

    applied = app.source("s", schema=SALES).apply(twice, columns={"more": "double"}).node("cut")
    app.query("q", applied.filter("more > 0"), "3s")
    found = try_nodes(physical(app.describe()), {"s": 10}, {})
    assert found == dict.fromkeys(("cut", "q"), "cut calls Python functions, which are not tried here")


def predicted(
    app: App, timing: Timing | None = None, plans: dict[str, RecoveryPlan] | None = None, kafka_keeps_state: bool = True
) -> dict[str, dict[RecoveryWay, Forecast]]:
    timing = timing or Timing()
    of = explain(app.describe(), timing)
    tried = dict.fromkeys((node.report.name for node in of.nodes), TRIED)
    found = forecasts(of, timing, tried, {"q": 500.0}, plans, kafka_keeps_state)
    return {name: {one.way: one for one in some} for name, some in found.items()}


def test_a_threshold_hides_what_is_shorter_than_its_wait() -> None:
    usual, tight = (predicted(sums(threshold=x))["q"] for x in ("3s", "600ms"))
    assert {one.seen for one in usual.values()} == {"nothing"}
    slow = tight[UPSTREAM]
    assert slow.predicted is not None
    assert slow.seen == "silence"  # nobody else speaks for the query
    assert slow.beyond_s == pytest.approx(slow.predicted.still_s - slow.wait_s)
    assert 0 < slow.wait_s < 0.6
    assert tight[ACTIVE].seen == "nothing"


def test_who_reads_something_else_too_goes_on_tentatively() -> None:
    app = App("x")
    a, b = (app.source(name, schema=SALES) for name in "ab")
    app.query("q", app.union(a.node("cut"), b), "500ms")
    found = predicted(app)["cut"]
    assert found[PASSIVE].seen == "tentative"
    assert found[AMNESIA].refused.endswith("and q would read the gap")


def test_detection_follows_the_heartbeats_and_measured_bytes_count() -> None:
    """Where a node has standbys, heartbeats come every 100 ms at least."""
    slower, faster = (replace(Timing(), heartbeat_us=us) for us in (200_000, 50_000))
    for timing, seconds in ((slower, 0.1), (faster, 0.05)):
        found = predicted(sums(), timing)["q"]
        standby, active = found[STANDBY].predicted, found[ACTIVE].predicted
        assert standby is not None
        assert active is not None
        assert standby.still_s == pytest.approx(HEARD_AGAIN * seconds)
        assert active.bytes_per_s == 500
        assert active.cores == pytest.approx(COMPUTING_CORES + TRIED.rows_per_s * TRIED.row_us / 1e6)


def test_only_active_is_in_force_and_only_with_a_second_replica() -> None:
    assert {w for w, one in predicted(sums())["q"].items() if one.in_force} == {ACTIVE}
    assert not any(one.in_force for one in predicted(sums(replicas=1))["q"].values())


def test_amnesia_of_a_single_replica_is_in_force_and_gaps_are_refused_where_check_refuses_them() -> None:
    app = App("x")
    source = app.source("s", schema=SALES)
    recent = source.window("1s").group_by("item").agg(n="count(*)")
    app.query("q", recent, "3s", replicas=1, recovery="amnesia", guarantee="gap")
    app.query("seven", source.window(rows=7).group_by("item").agg(n="count(*)"), "3s", guarantee="gap")
    found = predicted(app)
    assert [way for way, one in found["q"].items() if one.in_force] == [AMNESIA]
    assert found["q"][AMNESIA].refused == ""
    assert found["seven"][AMNESIA].refused.endswith("may stand on any earlier row")


def test_an_active_standby_writes_what_it_needs_as_seldom_as_topics_are_trimmed() -> None:
    found = predicted(sums())["q"]
    standby, upstream = found[STANDBY].predicted, found[UPSTREAM].predicted
    assert standby is not None
    assert upstream is not None
    assert standby.bytes_per_s * EVERY_US == pytest.approx(upstream.bytes_per_s * Timing().checkpoint_us)


def test_a_passive_standby_is_as_old_as_its_node_says_and_others_do_not_change() -> None:
    usual, rare = predicted(sums())["q"], predicted(sums(), plans=dict.fromkeys(("cut", "q"), RARELY))["q"]
    old, new = usual[PASSIVE].predicted, rare[PASSIVE].predicted
    assert old is not None
    assert new is not None
    assert (old.replayed_rows, new.replayed_rows) == (250, 5_000), "half an interval of rows"
    assert new.still_s > old.still_s
    assert new.bytes_per_s < old.bytes_per_s
    assert all(usual[way].predicted == rare[way].predicted for way in RecoveryWay if way is not PASSIVE)
    assert [way for way, one in rare.items() if one.in_force] == [PASSIVE], "what was set counts, not the file"
    assert {way: one.sync_us for way, one in rare.items() if one.sync_us} == {PASSIVE: RARELY.sync_us}


def test_an_upstream_backup_begins_at_a_checkpoint() -> None:
    rows = []
    for checkpoint_us in (1_000_000, 3_000_000):
        found = predicted(sums(), Timing(checkpoint_us=checkpoint_us))["q"][UPSTREAM].predicted
        assert found is not None
        rows.append(found.replayed_rows)
    assert rows[1] - rows[0] == pytest.approx(2 * TRIED.rows_per_s)


def test_a_state_that_lies_elsewhere_is_not_written_to_kafka() -> None:
    kafka, elsewhere = (predicted(sums(), kafka_keeps_state=keeps)["q"] for keeps in (True, False))
    here, there = kafka[PASSIVE].predicted, elsewhere[PASSIVE].predicted
    assert here is not None
    assert there is not None
    assert there == replace(here, bytes_per_s=there.bytes_per_s)
    assert here.bytes_per_s - there.bytes_per_s == pytest.approx(TRIED.state_bytes / 60)
    assert all(kafka[way] == elsewhere[way] for way in RecoveryWay if way is not PASSIVE)


def test_what_could_not_be_tried_is_not_predicted_but_still_refused() -> None:
    of = explain(sums().describe(), Timing())
    found = forecasts(of, Timing(), {"cut": "for a reason", "q": TRIED}, {})
    assert {(one.predicted, one.unknown) for one in found["cut"]} == {(None, "for a reason")}
    assert [one.way for one in found["cut"] if one.refused] == [AMNESIA]
    assert all(one.predicted is not None for one in found["q"])
