"""What must hold of foreign topics before an app starts: they are there, and what they say about waiting fits."""

from __future__ import annotations

import re
import sys
from typing import Any, cast

import pytest

from borealis_py.app.beginning import earliest_foreign_us
from borealis_py.app.errors import LaunchError
from borealis_py.app.foreign import ask_inputs, check_foreign, with_inputs
from borealis_py.app.waits import remarks, silence_remarks
from borealis_py.log.base import Feed, Log, LogUnreachable, Record
from borealis_py.protocol.settings import Timing
from borealis_py.query import App, AppSpec, Avro, QueryError

SCHEMA = {"id": "int64", "kind": "string", "euros": "double"}


class Cluster:
    """A log with nothing but the numbers of partitions of its topics; None: it does not answer."""

    def __init__(self, topics: dict[str, int] | None) -> None:
        self.counts = topics

    def admin(self) -> Cluster:
        return self

    def close(self) -> None:
        pass

    def partitions(self, topic: str) -> int:
        if self.counts is None:
            raise LogUnreachable("no Kafka broker answers at localhost:1")
        return self.counts.get(topic, 0)

    def topics(self) -> list[str]:
        return list(self.counts or ())


def on(own: dict[str, int] | None, eu: dict[str, int] | None = None) -> Any:
    return lambda name: cast(Log, Cluster(own if name is None else eu))


class Records(Cluster):
    """A topic of one partition with these times of rows, in the column `at`."""

    def __init__(self, *times: int) -> None:
        super().__init__({"prod.t0": 1})
        self.values = [b'{"at": %d}' % at for at in times]

    def lookup(self) -> Records:
        return self

    def bounds(self, feed: Feed) -> tuple[int, int]:
        return 0, len(self.values)

    def read(self, feed: Feed, first: int, end: int) -> list[Record]:
        return [Record(feed, i, 0, None, value) for i, value in enumerate(self.values)][first:end]


def at_once(seconds: float) -> None:
    """A pause of no time."""


def described(*topics: dict[str, Any], threshold: str = "3s", source: bool = False) -> AppSpec:
    """A query over topics t0, t1, ..., and over a source of our own."""
    app = App("shop")
    given = [{"topic": f"prod.t{i}", "schema": SCHEMA} | t for i, t in enumerate(topics)]
    read = [app.topic(f"t{i}", **arguments) for i, arguments in enumerate(given)]
    if source:
        read.append(app.source("own", schema=SCHEMA))
    app.query("q", app.union(*read), delay_threshold=threshold)
    return app.describe()


ORDER = {"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}


def test_a_schema_by_which_no_record_can_be_read_is_refused() -> None:
    pytest.importorskip("fastavro", reason="fastavro is not installed: pip install 'borealis-py[avro]'")
    check_foreign(described({"format": Avro(ORDER)}), Timing())
    again = {"type": "record", "name": "R", "fields": [{"name": "next", "type": ["null", "R"]}]}
    with pytest.raises(
        QueryError, match=r"topic 't0': records cannot be read by Avro\(writer_schema=...\): it refers to itself"
    ):
        check_foreign(described({"format": Avro(again)}), Timing())


def test_a_package_that_is_not_installed_is_named_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(QueryError, match=r"format='avro' needs fastavro.*pip install 'borealis-py\[avro\]'"):
        check_foreign(described({"format": Avro(ORDER)}), Timing())


def test_a_new_app_asks_each_topic_in_its_cluster() -> None:
    spec = described({}, {"cluster": "eu"}, {"by": "kind", "values": ["a"]}, {"partitions": 2})
    found, told = with_inputs(spec, on({"prod.t0": 3, "prod.t2": 9, "prod.t3": 2}, {"prod.t1": 200}), None)
    assert found.source_partitions == {"t0": 3, "t1": 64, "t2": 2, "t3": 2}
    assert told == []


def test_a_topic_that_does_not_exist_is_named() -> None:
    for spec in (described({}), described({"partitions": 3}), described({"by": "kind", "values": ["a"]})):
        with pytest.raises(LaunchError, match=r"source 't0' reads topic 'prod\.t0', which does not exist in the app's"):
            with_inputs(spec, on({}), None, at_once)
    with pytest.raises(LaunchError, match="does not exist in cluster eu"):
        with_inputs(described({"cluster": "eu"}), on({"prod.t0": 1}, {}), None, at_once)


def test_a_topic_that_shows_only_after_a_while_is_there() -> None:
    own: dict[str, int] = {}
    pauses: list[float] = []

    def created(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 5:
            own["prod.t0"] = 3

    found, told = with_inputs(described({}), on(own), None, created)
    assert (found.source_partitions, told) == ({"t0": 3}, [])
    assert sum(pauses) < 2
    own.clear()
    pauses.clear()
    assert ask_inputs(described({}), on(own), created).source_partitions == {"t0": 3}


def test_another_number_than_the_file_says_is_refused() -> None:
    with pytest.raises(LaunchError, match=r"has 4 partitions, the app's file says partitions=3"):
        with_inputs(described({"partitions": 3}), on({"prod.t0": 4}), None)


def test_a_described_app_keeps_its_inputs_when_the_topic_grows() -> None:
    before = described({"partitions": 3})
    for spec in (described({}), before):
        found, told = with_inputs(spec, on({"prod.t0": 7}), before)
        assert found.hash == before.hash
        assert told == []


def test_it_goes_on_without_a_topic_that_is_gone_or_cannot_be_asked() -> None:
    before = described({"partitions": 3})
    for own, said in (({}, "does not exist"), (None, "cannot be read now")):
        found, told = with_inputs(described({}), on(own), before, at_once)
        assert found.hash == before.hash
        assert said in told[0]


def test_a_new_app_needs_an_answer() -> None:
    with pytest.raises(LogUnreachable):
        with_inputs(described({"partitions": 3}), on(None), None)


def test_another_topic_is_asked_although_the_app_is_described() -> None:
    found, _ = with_inputs(described({"topic": "prod.new"}), on({"prod.new": 2}), described({"partitions": 3}))
    assert found.source_partitions == {"t0": 2}


def test_check_asks_a_broker_only_for_what_the_file_does_not_say() -> None:
    assert ask_inputs(described({"partitions": 3}), on(None)).source_partitions == {"t0": 3}
    assert ask_inputs(described({}), on({"prod.t0": 5})).source_partitions == {"t0": 5}
    with pytest.raises(LaunchError, match=r"'t0' makes depends on .* say it: partitions=3"):
        ask_inputs(described({}), on(None))
    with pytest.raises(LaunchError, match=r"topic 'prod\.t0' of source 't0' does not exist"):
        ask_inputs(described({}), on({}), at_once)


def test_silence_must_show_before_results_are_due() -> None:
    check_foreign(described({"expect": "2.7s"}), Timing())
    with pytest.raises(QueryError, match=r"'t0' has expect 2750ms, but the query waits 2750ms"):
        check_foreign(described({"expect": "2750ms"}), Timing())


def test_of_a_topic_that_does_not_exist_the_nearest_of_its_cluster_are_named() -> None:
    spec = described({"cluster": "eu"})
    for there, said in (
        ({"prod.t00": 1, "else": 2}, "does not exist in cluster eu; did you mean 'prod.t00'? Create it, or"),
        (dict.fromkeys("gfedcba", 1), "in cluster eu; topics there: a, b, c, d, e and 2 more. Create it, or"),
        ({}, "does not exist in cluster eu. Create it, or"),
    ):
        with pytest.raises(LaunchError, match=re.escape(said)):
            with_inputs(spec, on({"prod.t": 1}, there), None, at_once)
    with pytest.raises(LaunchError, match=re.escape("'t0' does not exist; did you mean 'prod.t1'?")):
        ask_inputs(spec, on({}, {"prod.t1": 1}), at_once)


def test_latenesses_that_are_too_far_apart_are_refused_with_both_numbers() -> None:
    check_foreign(described({"lateness": "3s"}, {"lateness": "250ms"}), Timing())
    with pytest.raises(QueryError, match=r"'t0' has lateness 4s, source 't1' 1s, and the query waits 2750ms"):
        check_foreign(described({"lateness": "4s"}, {"lateness": "1s"}), Timing())
    check_foreign(described({"lateness": "4s"}, {"lateness": "1s"}, threshold="4s"), Timing())


def test_the_apps_own_topics_are_not_foreign() -> None:
    for topic in ("shop.t0", "shop.q", "shop.q.r0", "shop_deadletter"):
        with pytest.raises(QueryError, match="one of the app's own topics"):
            check_foreign(described({"topic": topic}), Timing())
    check_foreign(described({"topic": "shop.t0", "cluster": "eu"}), Timing())


def test_a_heartbeat_is_a_condition_over_the_columns() -> None:
    check_foreign(described({"heartbeat": "kind = 'ping' AND euros IS NULL"}), Timing())
    with pytest.raises(QueryError, match="unknown column 'knd' in heartbeat of topic 't0'; did you mean 'kind'"):
        check_foreign(described({"heartbeat": "knd = 'ping'"}), Timing())
    with pytest.raises(QueryError, match="heartbeat of topic 't0': it must be true or false, this is BIGINT"):
        check_foreign(described({"heartbeat": "id + 1"}), Timing())


def test_it_is_told_what_lateness_publishers_need_beside_a_topic_that_is_late() -> None:
    (told,) = remarks(described({"lateness": "10s", "expect": "1s"}, source=True), Timing())
    assert told.startswith("query 'q': source 't0' has lateness 10s, and the query waits 2750ms for an input: unless ")
    assert "publishers of 'own' have a lateness of 7250ms at least" in told
    assert remarks(described({"lateness": "2s", "expect": "1s"}, source=True), Timing()) == []


def test_it_is_told_when_silence_would_go_unnoticed() -> None:
    (told,) = silence_remarks(described({}, {}), Timing())
    assert "query 'q'" in told
    assert "silence of 't0', 't1' means that nothing happened" in told
    assert "write expect='1375ms' in app.topic('t0', ...)" in told
    assert "`borealis inspect prod.t0` shows and less than 2750ms" in told
    assert silence_remarks(described({"expect": "1s"}, {}), Timing()) == []
    assert silence_remarks(described({"boundary": "data"}, {}), Timing()) == []
    assert silence_remarks(described({}, source=True), Timing()) == []
    assert remarks(described({}, {}), Timing()) == [], "told at check only"


def test_queries_that_read_the_same_silent_topics_are_told_of_in_one_line() -> None:
    app = App("shop")
    orders = app.topic("orders", topic="prod.orders", schema={"x": "int"}, partitions=1)
    app.query("a", orders.filter("x > 1"), "3s")
    app.query("b", orders.filter("x > 2"), "2s")
    (told,) = silence_remarks(app.describe(), Timing())
    assert told.startswith("queries 'a', 'b': no input can be missing")
    assert "less than 1750ms" in told, "the lower threshold's wait"


@pytest.mark.parametrize(
    ("left", "right", "through_node", "warned"),
    [
        ("latest", "earliest", False, True),
        ("earliest", "latest", False, True),
        ("latest", "earliest", True, True),
        ("latest", "latest", False, False),
        ("earliest", "earliest", True, False),
    ],
)
def test_it_is_told_when_the_sides_of_a_join_begin_apart(
    left: Any, right: Any, through_node: bool, warned: bool
) -> None:
    app = App("test")
    sides = [
        app.topic(name, f"prod.{name}", {"id": "int64", name: "double"}, start=start, partitions=1, expect="1s")
        for name, start in (("orders", left), ("paid", right))
    ]
    first = sides[0].filter("orders > 0")
    if through_node:
        first = first.node("kept")
    app.query("q", first.join(sides[1].map(id="id", paid="paid"), on="id", within=("0s", "1m"), how="left"))
    told = [one for one in remarks(app.describe(), Timing()) if "a join reads" in one]
    early, late = ("orders", "paid") if left == "earliest" else ("paid", "orders")
    assert [f"topic '{early}' from its first record and '{late}' from" in one for one in told] == [True] * warned


def test_a_table_that_is_read_from_its_beginning_is_no_side_of_a_join() -> None:
    app = App("test")
    orders = app.topic("orders", "prod.orders", {"id": "int64"}, partitions=1, expect="1s")
    prices = app.table("prices", "id", {"id": "int64", "price": "double"}, topic="prod.prices", partitions=1)
    app.query("q", orders.lookup(prices, on="id"))
    assert not [one for one in remarks(app.describe(), Timing()) if "a join reads" in one]


def test_an_app_does_not_begin_in_1970_because_the_times_of_a_topic_are_in_another_unit() -> None:
    spec = described({"schema": {"at": "int64"}, "stime": "at", "start": "earliest"})
    at = 1_700_000_000_000_000

    def first(*times: int) -> int | None:
        return earliest_foreign_us(spec, lambda _: cast(Log, Records(*times)), Timing(), lambda _: None)  # type: ignore[arg-type, return-value]

    assert first() is None
    assert first(at + 5, 1_700_000_000, at) == at
    assert first(5, at) == 5
    with pytest.raises(LaunchError) as told:
        first(1_700_000_000, 1_700_000_001)
    assert str(told.value) == (
        "app 'shop': source 't0': topic prod.t0: its first times seem to be read wrong: 1700000000 looks like seconds "
        "and is read as microseconds: set stime_unit=\"s\", or begin at start='latest'"
    )
