"""What a status record looks like to a person."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from rich.console import Console

from borealis_py.app.replica_health import health_of
from borealis_py.app.replicas import ProcessName
from borealis_py.app.state import AppState, Statuses
from borealis_py.app.supervision import Fate
from borealis_py.cli.commands.status import checkpoint_places
from borealis_py.cli.shared.replica_table import COLUMNS, apart_lines, fate_lines, remarks, replica_table, row, too_late
from borealis_py.cli.shared.tables import KEPT
from borealis_py.log.acks import ack_record
from borealis_py.log.messages import Description, InputStatus, Status, TrimStatus
from borealis_py.observe.overview import overview, waiting_trims
from borealis_py.protocol.trimming import Need, ReplicaName
from borealis_py.query import App
from sunion.bucket import Buckets
from sunion.units import Bucket, Offset
from tests.harness.launching import described
from tests.support.app_log import AppLog
from tests.support.statuses import BUCKET_US, NOW, WALL_US, source, status


def shown(now_us: int = WALL_US, **changes: object) -> dict[str, str]:
    cells = row(health_of(status(**changes), BUCKET_US, now_us), now_us)
    return dict(zip(("name", *(c.rstrip(">") for c in COLUMNS)), map(str, cells), strict=True))


def printed(state: AppState, statuses: Statuses, width: int | None = None) -> str:
    console = Console(width=width or 250)
    with console.capture() as capture:
        console.print(replica_table(state, statuses, WALL_US))
    return capture.get()


def test_a_stable_replica() -> None:
    assert shown() == {
        "name": "q", "r": "0", "state": "STABLE", "inc": "1", "stable until": "22:13:20.0", "lag": "0.0 s",
        "live until": "", "live lag": "", "to correct": "", "X": "3s", "grant": "", "publishes": "yes", "stable": "5",
        "tentative": "7", "tentative buckets": "2", "checkpoint": "none", "tuples in": "9", "rejected": "0",
        "memory": "0 MB RSS", "inputs": "s:ok",
    }  # fmt: skip


def test_memory_is_pss_and_named_where_it_is_rss() -> None:
    assert shown(rss_kb=200_000, pss_kb=100_000)["memory"] == "102 MB"
    assert shown(rss_kb=200_000)["memory"] == "205 MB RSS"


def test_a_diverged_replica_shows_both_frontiers() -> None:
    row = shown(state="UPSTREAM_FAILURE", f_s=NOW - 35, asking=True, head=1)
    assert (row["stable until"], row["lag"]) == ("22:13:16.5", "3.5 s")
    assert (row["live until"], row["live lag"], row["to correct"]) == ("22:13:20.0", "0.0 s", "35")
    assert row["grant"] == "waits for 1"
    assert shown(state="STABILIZATION", asking=True, granted=True)["grant"] == "granted"


def test_one_that_is_silent_is_gone() -> None:
    assert shown(now_us=WALL_US + 4_000_000)["state"] == "STABLE"
    assert shown(now_us=WALL_US + 6_000_000)["state"] == "gone, was STABLE"
    assert shown(event="STOPPED")["state"] == "gone, was STABLE"


@pytest.mark.parametrize(
    ("changes", "now_us", "ready"),
    [
        ({}, WALL_US, True),
        ({"state": "UPSTREAM_FAILURE"}, WALL_US, True),
        ({"state": "STANDBY"}, WALL_US, True),
        ({"state": "RECOVERING"}, WALL_US, False),
        ({"event": "STOPPED"}, WALL_US, False),
        ({}, WALL_US + 6_000_000, False),
    ],
)
def test_who_is_ready(changes: dict[str, object], now_us: int, ready: bool) -> None:
    assert health_of(status(**changes), BUCKET_US, now_us).ready is ready


@pytest.mark.parametrize("way", ["passive-standby", "upstream-backup"])
def test_a_standby_that_reads_nothing_is_not_behind(way: str) -> None:
    row = shown(state="STANDBY", recovery=way, f_s=NOW - 900, f_l=NOW - 800)
    assert (row["state"], row["lag"], row["live lag"], row["inputs"]) == ("STANDBY", "", "", "not read")
    computes = shown(state="STANDBY", recovery="active-standby")
    assert (computes["lag"], computes["inputs"]) == ("0.0 s", "s:ok")
    runs = shown(recovery=way, f_s=NOW - 35, f_l=NOW - 35)
    assert (runs["lag"], runs["inputs"]) == ("3.5 s", "s:ok")


def test_history_shows_its_day() -> None:
    assert shown(f_s=NOW - 864_001, f_l=NOW - 864_001)["stable until"] == "2023-11-13T22:13:19.900000Z"


def test_the_end() -> None:
    last = Buckets(BUCKET_US).last
    row = shown(f_s=last, f_l=last)
    assert (row["stable until"], row["lag"]) == ("END", "")


def chain() -> tuple[AppState, Statuses]:
    app = App("chain", bucket="100ms")
    cut = app.source("s", schema={"x": "int"}).filter("x > 0").node("cut", replicas=1)
    app.query("p", cut.filter("x > 1"), replicas=1)
    app.query("q", cut, replicas=2)
    statuses = {("cut", 0): status(node="cut"), ("q", 1): status(node="q", replica=1)}
    return AppState("chain", app.describe(), Description("", "", 0, "", "a1")), statuses


def test_every_node_of_a_chain_is_there_with_its_queries() -> None:
    state, statuses = chain()
    found = [(r["node"], r["replica"], r["of_queries"]) for r in overview(state, statuses, WALL_US)["replicas"]]
    assert found == [("cut", 0, ["p", "q"]), ("p", 0, ["p"]), ("q", 0, ["q"]), ("q", 1, ["q"])]
    shown = printed(state, statuses)
    assert "of query" in shown
    assert "p, q" in shown


def test_ways_are_shown_where_a_node_is_not_active() -> None:
    state, statuses = chain()
    assert "recovery" not in printed(state, statuses)
    told = {**statuses, ("q", 1): status(node="q", replica=1, recovery="active")}
    assert "recovery" not in printed(state, told)
    told |= {("q", 0): status(node="q", state="STANDBY", recovery="passive-standby")}
    head, _, *lines = printed(state, told).splitlines()[2:]
    at = head.index("recovery")
    ways = [(line.split()[0], line[at:].split()[0]) for line in lines if "standby" in line]
    assert ways == [("q", "passive-standby")]
    assert overview(state, told, WALL_US)["replicas"][2]["recovery"] == "passive-standby"


def test_a_process_tells_of_its_own_replicas_only() -> None:
    state, statuses = chain()
    found = overview(state, statuses, WALL_US, [("q", 1)])
    assert [(r["node"], r["replica"]) for r in found["replicas"]] == [("q", 1)]
    assert list(found["thresholds_us"]) == list(found["policies"]) == ["q"]
    assert list(overview(state, statuses, WALL_US, [("cut", 0)])["thresholds_us"]) == ["p", "q"]


@pytest.mark.parametrize("width", [80, 110, 140])
def test_a_narrow_terminal_does_without_what_matters_least(width: int) -> None:
    shown = printed(*chain(), width)
    heads = shown.partition("─")[0]
    assert all(len(line) <= width for line in shown.splitlines())
    assert all(name in heads for name in ("node", "r", "state", "lag", "inputs"))
    assert "live until" not in heads
    assert ("memory" in heads, "memory" in printed(*chain())) == (False, True)
    assert "not running" in shown
    assert f"not shown, as the terminal has {width} columns: " in " ".join(shown.split())
    assert "not shown" not in printed(*chain())


def test_a_process_without_spark_says_why_once() -> None:
    app = App("a")
    s = app.source("s", schema={"x": "int"})
    for query in "pq":
        app.query(query, s, replicas=2)
    state = AppState("a", app.describe(), Description("", "", 0, "", "a1"))
    why = "Spark's JVM has ended or was killed; it is being started again"
    statuses = {(q, k): status(node=q, replica=k, why_inline=why if k else "") for q in "pq" for k in (0, 1)}
    assert remarks(state, statuses, WALL_US) == [f"redos run inline in replica 1: {why}"]
    assert remarks(state, statuses, WALL_US + 60_000_000) == []


@pytest.mark.parametrize("thresholds", [{}, {"q": 1}])
@pytest.mark.parametrize(
    ("other", "named"),
    [
        (source("far", tuples=1, lateness_us=60_000_000), True),
        (source("far", tuples=1, lateness_us=2_000_000), False),
        (source("far", tuples=1, lateness_us=60_000_000, ended=True), False),
        (source("elsewhere", tuples=1, lateness_us=60_000_000), False),
    ],
)
def test_sources_of_one_query_that_wait_so_differently_are_named_whatever_node_reads_them(
    other: InputStatus, named: bool, thresholds: dict[str, int]
) -> None:
    """Replicas ignore a threshold that is too small."""
    app = App("a")
    near, far, _ = (app.source(name, schema={"x": "int"}) for name in ("near", "far", "elsewhere"))
    app.query("q", app.union(near.filter("x > 0").node("cut"), far), delay_threshold="3s")
    state = AppState("a", app.describe(), Description("", "", 0, "", "a1"), thresholds)
    statuses = {
        ("cut", 0): status(node="cut", inputs=(source("near", tuples=5),)),
        ("q", 0): status(inputs=(source("cut", tuples=5), other)),
    }
    assert overview(state, statuses, WALL_US)["apart_sources"] == ({"q": ["near", "far"]} if named else {})
    assert remarks(state, statuses, WALL_US) == (
        [
            "q: the publisher of far waits 60 s for late rows, that of near 0 s: more than the threshold lies between, "
            "so buckets run without far"
        ]
        if named
        else []
    )


def test_replicas_that_do_not_run_say_why_once() -> None:
    app = App("a")
    app.query("q", app.source("s", schema={"x": "int"}), replicas=2)
    state = AppState("a", app.describe(), Description("", "", 0, "", "a1"))
    statuses = {("q", k): status(replica=k, event="STOPPED", detail="too few slots") for k in (0, 1)}
    assert remarks(state, statuses, WALL_US) == ["not running: q.r0, q.r1: too few slots"]
    assert remarks(state, {("q", 0): status(event="STOPPED")}, WALL_US) == []


def test_a_machine_whose_clock_differs_from_the_broker_s_is_named_once() -> None:
    app = App("a")
    app.query("q", app.source("s", schema={"x": "int"}), replicas=3)
    state = AppState("a", app.describe(), Description("", "", 0, "", "a1"))
    ahead = (3_700_010_000, 3_699_990_000, None)
    statuses = {("q", k): status(replica=k, host="box", clock_ahead_us=us) for k, us in enumerate(ahead)}
    (line,) = remarks(state, statuses, WALL_US)
    assert line.startswith("the clock of q.r0, q.r1 on box is 3700.0 s ahead of the broker's: results are right")
    assert remarks(state, {("q", 0): status(clock_ahead_us=-999_999)}, WALL_US) == []
    (line,) = remarks(state, {("q", 0): status(clock_ahead_us=-3_600_000_000)}, WALL_US)
    assert "is 3600.0 s behind the broker's" in line


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (source("s", closed=NOW - 100), "s:10.0 s behind"),
        (source("s", late=True), "s:late"),
        (source("s", reachable=False, late=True), "s:UNREACHABLE"),
        (source("s", ended=True), "s:ended"),
    ],
)
def test_inputs(one: InputStatus, said: str) -> None:
    assert shown(inputs=(one,))["inputs"].replace(KEPT, " ") == said


def test_a_source_whose_rows_come_late_is_told_with_what_its_publisher_waits() -> None:
    state, _ = chain()

    def told(late_us: tuple[int, int, int], tuples: int = 9) -> Statuses:
        one = msgspec.structs.replace(source("s"), lateness_us=2_000_000, late_us=late_us, tuples=tuples)
        return {("cut", 0): status(node="cut", inputs=(one,))}

    assert remarks(state, told((0, 0, 0)), WALL_US) == []
    line = "rows of s come late: 50% within 0.25 s, 99% within 1.5 s, all within {} s; its publisher waits 2 s"
    assert remarks(state, told((250_000, 1_500_000, 2_000_000)), WALL_US) == [line.format(2)]
    worse = {**told((250_000, 1_500_000, 3_000_000)), ("p", 0): told((1, 1, 1), tuples=8)["cut", 0]}
    assert remarks(state, worse, WALL_US) == [line.format(3) + ": later ones are dead letters"]


def test_the_ingress_of_a_topic_is_what_waits_for_its_late_rows() -> None:
    app = App("a")
    topic = app.topic("t", topic="prod.t", schema={"x": "int"}, lateness="60s", partitions=1)
    app.query("q", app.union(topic, app.source("s", schema={"x": "int"})), delay_threshold="3s")
    state = AppState("a", app.describe(), Description("", "", 0, "", "a1"))
    slow = msgspec.structs.replace(source("t.0"), lateness_us=60_000_000, late_us=(1_000_000,) * 3, tuples=9)
    said = remarks(state, {("q", 0): status(inputs=(slow, source("s", tuples=9)))}, WALL_US)
    assert [("its ingress waits 60 s" in said[0]), ("the ingress of t.0 waits 60 s" in said[1])] == [True, True]


def test_a_reader_is_told_of_rows_that_its_results_lack_and_what_lateness_they_need() -> None:
    app = App("a")
    topic = app.topic("t", topic="prod.t", schema={"x": "int"}, lateness="200ms", partitions=1)
    app.query("q", topic)
    app.query("other", app.source("s", schema={"x": "int"}))
    state = AppState("a", app.describe(), Description("", "", 0, "", "a1"))

    def said(query: str, name: str, most_us: int) -> list[str]:
        one = msgspec.structs.replace(source(name), lateness_us=200_000, late_us=(0, 0, most_us), tuples=9)
        return too_late(state, query, {(query, 0): status(inputs=(one,))})

    assert said("q", "t.0", 1_230_000) == [
        "rows of t.0 came too late and are dead letters, so results lack them: the latest by 1300ms, and its ingress "
        'waits 0.2 s. lateness="1300ms" would have been enough'
    ]
    assert "its publisher waits" in said("other", "s", 300_000)[0]
    assert said("q", "t.0", 200_000) == said("q", "s", 1_000_000) == said("q", "t.0", 400 * 86_400_000_000) == []


def test_rows_whose_times_must_be_read_wrong_are_told_with_the_unit_to_set() -> None:
    """`status` said that all came within 1.79e+09 s."""
    app = App("a")
    topic = app.topic("t", topic="prod.t", schema={"x": "int", "at": "int"}, stime="at", stime_unit="ms", partitions=1)
    app.query("q", app.union(topic, app.source("s", schema={"x": "int", "at": "int"})), delay_threshold="3s")
    state = AppState("a", app.describe(), Description("", "", 0, "", "a1"))

    def said(name: str, behind_us: int) -> str:
        one = msgspec.structs.replace(source(name), late_us=(0, 0, behind_us), tuples=9)
        (line,) = remarks(state, {("q", 0): status(inputs=(one,))}, WALL_US)
        return line

    seconds = WALL_US // 1_000_000
    assert said("t.0", WALL_US - seconds * 1_000) == (
        "rows of t.0 in topic prod.t have times of the year 1970, and are dead letters: one near "
        f'{seconds} looks like seconds and is read as milliseconds: set stime_unit="s"'
    )
    assert said("s", WALL_US - seconds) == (
        "rows of s have times of the year 1970, and are dead letters: one near "
        f"{seconds} looks like seconds and is read as microseconds: convert the column"
    )
    assert said("s", 20 * 31_556_952_000_000).endswith("are dead letters: check the column of their times and its unit")
    assert "all within 3.15e+07 s" in said("s", 31_500_000_000_000)


def fate(**changes: object) -> Fate:
    return replace(Fate(3, "killed by SIGKILL", WALL_US - 5_000_000, False), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "replica 1 was started again 3 times; the last one ended 5.0 s ago (killed by SIGKILL)"),
        ({"restarts": 1}, "replica 1 was started again once; the last one ended 5.0 s ago (killed by SIGKILL)"),
        (
            {"next_wall_us": WALL_US + 8_000_000},
            "replica 1 ended 5.0 s ago (killed by SIGKILL) and is started again in 8.0 s",
        ),
        ({"final": True}, "replica 1 ended 5.0 s ago (killed by SIGKILL) and is not started again"),
    ],
)
def test_how_a_process_ended_is_told(changes: dict[str, object], said: str) -> None:
    assert fate_lines({ProcessName(1): fate(**changes)}, WALL_US, supervised=True) == [said]


def test_a_process_whose_supervisor_is_gone_is_not_called_started_again() -> None:
    (said,) = fate_lines({ProcessName(1): fate(next_wall_us=WALL_US + 8_000_000)}, WALL_US, supervised=False)
    assert said == (
        "replica 1 ended 5.0 s ago (killed by SIGKILL), and the supervisor that would start it again is gone, too: run "
        "`borealis up`"
    )


def test_restarts_stand_in_the_table_once_there_are_any() -> None:
    state, statuses = chain()
    assert "restarts" not in printed(state, statuses)
    console = Console(width=300)
    with console.capture() as capture:
        console.print(replica_table(state, statuses, WALL_US, fates={ProcessName(0, "cut"): fate(restarts=73)}))
    _, head, *rows = (line for line in capture.get().splitlines() if line.strip())
    assert head.index("memory") < head.index("restarts") < head.index("inputs")
    assert [line.split()[:1] for line in rows if "73" in line] == [["cut"]]


def test_replicas_that_differ_come_first_with_what_to_do() -> None:
    app = App("a", bucket="100ms")
    app.query("q", app.source("s", schema={"x": "int"}).filter("x > 0"), "3s")
    state = AppState("a", app.describe(), Description("", "", 0, "", "a1"))
    line, *_ = remarks(state, {("q", 0): status(diverged="they differ")}, WALL_US)
    assert line.startswith("DIVERGED: nothing of q is published: they differ. `borealis audit q` recomputes it; then")
    assert remarks(replace(state, diverged={"q": "they differ"}), {}, WALL_US) == [line]
    assert remarks(state, {("q", 0): status()}, WALL_US) == []


def test_it_is_told_for_whom_trimming_waits_and_what_brokers_refuse() -> None:
    shop = App("shop")
    shop.query("q", shop.source("s", schema={"item": "string"}).filter("true"))
    spec = shop.describe()
    state = AppState("shop", spec, Description(spec.to_json(), spec.hash, NOW, "", "a1"))
    minute = 60_000_000
    waits = TrimStatus("shop.q.r0", None, ("q.r1 (has said nothing yet)",), "", WALL_US - minute)
    fresh = TrimStatus("shop.q.r1", None, ("q.r1 (has said nothing yet)",), "", WALL_US - minute + 1)
    refused = TrimStatus("s", 7, ("retain",), "the ACLs lack DELETE on topic shop.s")
    fine = TrimStatus("t", 7, ("q.r0",))
    told = remarks(state, {("q", 0): status(trims=(waits, fresh, refused, fine))}, WALL_US)
    assert [line for line in told if "trimmed" in line] == [
        "nothing of shop.q.r0 is trimmed: it waits for q.r1 (has said nothing yet): if q.r1 will not come back, "
        "`borealis retain --forget q.r1`",
        "nothing of s is trimmed: the ACLs lack DELETE on topic shop.s",
    ]
    stopped = status(trims=(waits, refused), event="STOPPED")
    assert not any("trimmed" in line for line in remarks(state, {("q", 0): stopped}, WALL_US))


def test_a_replica_that_is_gone_and_holds_topics_is_told() -> None:
    shop = App("shop")
    shop.query("q", shop.source("s", schema={"item": "string"}).filter("true"))
    spec = shop.describe()
    state = AppState("shop", spec, Description(spec.to_json(), spec.hash, NOW, "", "a1"))
    held = TrimStatus("s", 7, ("q.r1",))
    own = TrimStatus("shop.q.r0", 7, ("retain",))

    def told(*trims: TrimStatus, other: Status | None = None) -> list[str]:
        statuses = {("q", 0): status(trims=trims)} | ({} if other is None else {("q", 1): other})
        return [line for line in remarks(state, statuses, WALL_US) if "trimmed" in line]

    assert told(held, own) == [
        "s is trimmed only up to what q.r1 needs, which reports nothing: if q.r1 will not come back, "
        "`borealis retain --forget q.r1`"
    ]
    assert told(held, own, other=status(replica=1)) == []
    assert told(TrimStatus("s", 7, ("q.r1", "q.r0"))) == [], "what runs needs it, too"
    assert told(TrimStatus("s", 7, ("audit of q",))) == []
    assert told(TrimStatus("s", None, ("q.r1",), "", WALL_US)) == [], "it waits, which is told after a minute"


@pytest.mark.parametrize(
    ("who", "to_do"),
    [
        ("audit of q (none has ended with --advance yet)", ": `borealis audit q --advance` verifies more"),
        ("audit of q (says nothing of s)", ""),
        ("publisher of s", ""),
        ("progress of q", ""),
        ("q.0.r1 (unknown replica)", ": if q.0.r1 will not come back, `borealis retain --forget q.0.r1`"),
    ],
)
def test_what_ends_a_wait_of_trimming_is_told_where_something_does(who: str, to_do: str) -> None:
    trim = TrimStatus("s", None, (who,), "", WALL_US - 60_000_000)
    told = waiting_trims({("q", 0): status(trims=(trim,))}, WALL_US)
    assert told == {"s": f"it waits for {who}{to_do}"}


def test_a_standby_that_would_not_find_the_state_of_the_one_that_runs_is_told() -> None:
    """Passive standbys on two machines without a shared place: nothing said so before a crash."""
    log, app = AppLog(), App("a", bucket="100ms")
    app.query("q", app.source("s", schema={"x": "int64"}), recovery="passive-standby")
    state = described(log, app, now_us=WALL_US)

    def told(place: str, where: str = "two", way: str = "passive-standby", **changes: object) -> list[str]:
        need = Need(inc=1, uid="u", number=1, bucket=Bucket(NOW), offsets={"s": Offset(0)}, place=place)
        log.put(ack_record("a", state.app_uid, ReplicaName("q", 0), need))
        runs = status(host="one", recovery=way)
        stands_by = status(**{"replica": 1, "state": "STANDBY", "host": where, "recovery": way, **changes})
        statuses = {("q", 0): runs, ("q", 1): stands_by}
        return apart_lines(statuses, checkpoint_places(log, state, statuses), WALL_US)

    (line,) = told("one:/data/a")
    assert line.startswith(
        "q.r1 stands by, and the checkpoints of the replica that runs lie on another machine, one (q.r0)"
    )
    assert "`checkpoints: kafka`" in line
    assert told("one:/data/a", way="upstream-backup")
    assert told("one:/data/a", way="amnesia"), "it reads what came since its own last place, too"
    for place in ("kafka", "s3://bucket/a", "file:///mnt/a", ""):
        assert told(place) == []
    assert told("one:/data/a", where="one") == []
    assert told("one:/data/a", way="active-standby") == []
    assert told("one:/data/a", event="STOPPED") == []
    log.cut()
    assert told("one:/data/a") == [], "a log that does not answer tells nothing"
