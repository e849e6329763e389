"""What is drawn, when the bound holds, and what is told: without any process."""

from __future__ import annotations

import datetime as dt
from collections import deque
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from borealis_py.verify import AnomalyKind, Subject
from borealis_py.verify.anomalies import Delay, Verdict
from borealis_py.verify.evidence import Blackout
from tests.chaos.__main__ import plan_of
from tests.chaos.arena import ELSEWHERE, Arena, Steps, groups_of, link_names
from tests.chaos.faults import (
    AROUND,
    CUT_FROM,
    GAP_S,
    JUMPS_S,
    KINDS,
    POISONED,
    SOURCES,
    TIMEOUTS_S,
    CameToNothing,
    Fault,
    draw,
    kinds_of,
)
from tests.chaos.impaired import Group, Impaired
from tests.chaos.report import Run, append, late_told, ledger_line, result, timeline
from tests.chaos.run import DOING, Done, _Active, _next
from tests.harness.links import WAYS
from tests.harness.machine import Sample
from tests.harness.plan import Member, Plan
from tests.harness.poison import WHATS

S = 1_000_000


def test_a_seed_draws_the_same_faults_and_another_one_others() -> None:
    kinds = kinds_of("spark")
    assert draw(3, 50, kinds) == draw(3, 50, kinds)
    assert draw(3, 50, kinds) != draw(4, 50, kinds)
    assert draw(3, 50, kinds)[:20] == draw(3, 20, kinds)


@pytest.mark.parametrize("brokers", [1, 3])
@pytest.mark.parametrize("host", ["spark", "process"])
def test_every_kind_comes_once_in_each_round(host: str, brokers: int) -> None:
    kinds = kinds_of(host, brokers)
    drawn = draw(1, 2 * len(kinds), kinds)
    for round_ in (drawn[: len(kinds)], drawn[len(kinds) :]):
        assert sorted(f.kind for f in round_) == sorted(kinds)
    assert all(GAP_S[0] <= f.gap_s <= GAP_S[1] for f in drawn)


def test_all_that_can_be_drawn_can_be_done() -> None:
    assert set(DOING) == set(KINDS)
    assert {"spark", "process"} == {host for kind in KINDS.values() for host in kind.hosts}


def test_with_three_brokers_it_is_one_of_them_that_breaks() -> None:
    one, three = (set(kinds_of("process", brokers)) for brokers in (1, 3))
    assert {"broker killed", "broker restarted", "broker paused"} == one - three
    drawn = draw(1, 20 * len(three - one), sorted(three - one))
    assert all("broker" in fault.takes for fault in drawn), "two at once are too many, but where that is the point"
    for kind in ("one broker killed", "too few in sync"):
        assert {f.on for f in drawn if f.kind == kind} == {"broker-1", "broker-2", "broker-3"}
    assert {f.more for f in drawn if f.kind == "one broker cut off"} == set(CUT_FROM)
    assert {f.more for f in drawn if f.kind == "one broker's clock moved"} == set(JUMPS_S)
    cut = [f for f in drawn if f.kind == "cut from one broker"]
    assert {f.more for f in cut} == {f"{way}, broker-{n}" for way in WAYS for n in (1, 2, 3)}
    assert all(f.member.node in f.takes for f in cut)


def test_pauses_are_shorter_and_longer_than_each_timeout() -> None:
    lengths = {f.s for f in draw(1, 400, ["replica paused"])}
    assert lengths == {round(t * around, 2) for t in TIMEOUTS_S for around in AROUND}
    assert max(f.s for f in draw(1, 400, kinds_of("process"), longest_s=1.5)) == 1.5


def test_each_kind_of_poison_is_drawn() -> None:
    drawn = draw(1, 60, ["poison rows"])
    counts, whats = zip(*(f.more.split(" rows from ") for f in drawn), strict=True)
    assert (set(whats), {f.on for f in drawn}) == (set(WHATS), set(SOURCES))
    assert all(POISONED[0] <= int(count) <= POISONED[1] for count in counts)


def test_an_app_is_begun_anew_beside_one_that_is_paused_or_cut_off() -> None:
    assert {f.more for f in draw(1, 60, ["reset elsewhere"])} == {"paused", "cut off"}
    assert ELSEWHERE in link_names(plan_of("process", 4_000))


def test_what_was_found_in_an_app_beside_counts() -> None:
    beside = Verdict(undecided=["sums.r0: tentative bucket 7"])
    beside.say(AnomalyKind.DUPLICATE, "corrected sums", "one", Subject.CORRECTED)
    beside.looked_at["corrected rows"] = 3
    whole = _run().verdict.and_beside([beside, beside])
    assert (len(whole.of(AnomalyKind.DUPLICATE)), len(whole.undecided), whole.looked_at["corrected rows"]) == (2, 2, 83)


def test_a_fault_says_what_it_is_and_whose() -> None:
    fault = Fault("link cut", 3.0, frozenset(("sums",)), "sums.r1", 4.2, "both")
    assert str(fault) == "link cut sums.r1 both 4.2 s"
    assert fault.member == Member("sums", 1)
    assert Fault("worker killed", 3.0, frozenset(), "cleaned.0.r1").member == Member("cleaned.0", 1)


def test_what_strikes_a_process_strikes_all_that_it_runs() -> None:
    apart, whole = plan_of("process", 4_000), plan_of("spark", 4_000)
    assert apart.process(Member("cleaned.0", 1)) == Member("cleaned", 1)
    assert whole.process(Member("cleaned.0", 1)) == Member("replica", 1) == whole.process(Member("replica", 1))
    assert [str(p) for p in whole.processes] == ["replica.r0", "replica.r1"]
    (fault,) = draw(1, 1, ["driver killed"], apart=False)
    assert (fault.on.partition(".")[0], fault.takes) == ("replica", {"cleaned", "sums"})
    (fault,) = draw(1, 1, ["worker killed"], apart=False)
    assert fault.on.partition(".")[0] in fault.takes


def test_the_bound_is_not_promised_while_all_of_a_group_are_impaired() -> None:
    it = Impaired()
    a = it.begin("a", 10)
    b = it.begin("b", 20)
    again = it.begin("b", 25)
    it.end("a", a, 40)
    it.end("b", b, 30)
    it.end("b", again, 35)
    c = it.begin("c", 50)
    assert it.now("c")
    assert not it.now("a")
    no_c = Group("no c", ("c",), 1)
    groups = [Group("no ab", ("a", "b")), no_c, Group("no d", ("d",)), Group("no a or d", ("a", "d"))]
    assert it.blackouts(groups, 60) == [Blackout(20, 35, "no ab"), Blackout(50, 60, "no c", 1)]
    it.end("c", c, 55)
    assert it.blackouts([no_c], 60) == [Blackout(50, 55, "no c", 1)]


def test_a_partition_without_replicas_excuses_no_other_partition_of_the_query() -> None:
    groups = {group.why: (group.members, group.partition) for group in groups_of(plan_of("process", 4_000))}
    assert groups["no replica of sums.1"] == (("sums.1.r0", "sums.1.r1"), 1)
    assert groups["no replica of cleaned.1"] == (("cleaned.1.r0", "cleaned.1.r1"), None)
    assert {part for _, part in groups.values()} == {None, 0, 1}
    assert len(groups) == 2 * 2 + 2
    whole = groups_of(Plan("drill", True))
    assert [g.partition for g in whole] == [None] * 4
    assert [g.why for g in groups_of(Plan("drill", True), "no leader")][-2:] == ["no leader", "no subscriber"]


def _run() -> Run:
    verdict = Verdict()
    verdict.say(AnomalyKind.LOST_WRITE, "sums", "one", Subject.CORRECTED)
    verdict.say(AnomalyKind.UNSEEN, "watcher", "two", Subject.SUBSCRIBER)
    verdict.say(AnomalyKind.STABLE_CHANGED, "sums", "three", Subject.STABLE)
    verdict.looked_at.update({"corrected rows": 77, "dead letters": 5, "refused by kernels": 2})
    verdict.delays += [
        Delay(1, 0, 10 * S, 12 * S, 1900.0, promised=True),
        Delay(2, 1, 13 * S, 22 * S, 8000.0, promised=False, late=True),
        Delay(3, 1, 13 * S, 22 * S, 7900.0, promised=False, late=True),
        Delay(9, 1, 25 * S, 32 * S, 6000.0, promised=True, late=True),
        Delay(3, 0, 30 * S, 30 * S + 1, 5.0, promised=True),
    ]
    kill = Done(Fault("driver killed", 3.0, frozenset(), "sums.r0", 2.0), 11 * S, 20 * S)
    lost = Done(Fault("source lost", 3.0, frozenset(), "b", 1.0), 25 * S, 28 * S)
    return Run(5, "spark", "abc", dt.datetime(2026, 1, 2, 3, 4), [kill, lost], verdict, 3 * S)


def test_the_worst_delay_has_its_cause() -> None:
    run = _run()
    assert run.worst is not None
    assert run.worst.bucket == 9
    run.verdict.delays.remove(run.worst)
    assert run.worst == run.verdict.delays[0]
    assert run.worst_told == "1.90 s of 3 s (driver killed sums.r0 2.0 s)"
    assert run.causes(run.verdict.delays[-1]) == []
    assert result(run).startswith(
        "2 faults, 77 rows: 2 lost, 0 duplicated, 1 different, 0 unlabelled, 0 undecided, bound broken 0;"
    )


def test_what_came_too_late_is_told_with_its_cause_and_the_load() -> None:
    run = replace(_run(), samples=[Sample(n * S, 0.9 * n, 1.2 * n, 1.9 * n) for n in range(31)])
    busy = "CPU pressure 90%, 1.2 cores ours, 0.7 others'"
    assert late_told(run).splitlines() == [
        f"late: partition 1, 2 buckets from 2, at worst 8.00 s, after a blackout (driver killed sums.r0 2.0 s; {busy})",
        f"late: partition 1, 1 buckets from 9, at worst 6.00 s, promised (source lost b 1.0 s; {busy})",
    ]
    assert late_told(replace(run, verdict=Verdict())) == ""
    assert busy in run.worst_told


def test_what_could_not_be_decided_is_not_good() -> None:
    run = replace(_run(), verdict=Verdict(undecided=["sums.r0: tentative bucket 7"]))
    assert not run.good
    assert "0 unlabelled, 1 undecided, bound" in result(run)
    assert ledger_line(run).split("|")[8:13] == [" 0 ", " 0 ", " 0 ", " 1 ", " 0 "]


def test_a_process_that_crashed_by_itself_is_told() -> None:
    run = replace(_run(), verdict=Verdict())
    assert run.good
    crashed = replace(run, crashed=("sums.r0-2.log, signal 6",))
    assert not crashed.good
    assert "crashed: sums.r0-2.log, signal 6" in result(crashed)
    assert "crashed: sums.r0-2.log, signal 6" in ledger_line(crashed)


def test_the_ledger_gets_one_line_a_run(tmp_path: Path) -> None:
    ledger = tmp_path / "chaos.md"
    for _ in range(2):
        append(ledger, _run())
    lines = ledger.read_text().splitlines()
    assert lines[-1] == lines[-2] == ledger_line(_run()).strip()
    head = next(line for line in lines if line.startswith("| date"))
    assert head.count("|") == lines[-1].count("|")
    assert "| 2026-01-02 03:04 | abc | spark | 5 | 2 | 77 | 2 | 0 | 1 | 0 | 0 | 0 | 6.00 s" in lines[-1]
    assert "| driver killed 1, source lost 1; never: " in lines[-1]
    assert lines[-1].endswith("; dead letters 7 (2 of kernels) |")
    mixed = ledger_line(replace(_run(), recovery=("active", "passive-standby")))
    assert mixed.endswith("of kernels); recovery active, passive-standby |\n")
    assert ledger_line(replace(_run(), gap_s=(3.0, 8.5))).endswith('of kernels); GAP="3 8.5" |\n')
    three = ledger_line(replace(_run(), brokers=3))
    assert three.endswith("of kernels); BROKERS=3 |\n")
    assert "too few in sync" in three
    assert "broker paused, broker" not in three


def test_the_ledger_names_the_kinds_that_were_never_made() -> None:
    made = [Done(Fault(kind, 3.0, frozenset()), 1, 2) for kind in kinds_of("process")]
    assert "never" not in ledger_line(replace(_run(), host="process", faults=made))
    made[3] = replace(made[3], nothing="nobody noticed")
    missed = replace(_run(), host="process", faults=made[:-1]).not_made
    assert missed == sorted((made[3].fault.kind, made[-1].fault.kind))


def test_a_fault_that_broke_nothing_is_told_as_one() -> None:
    zombie = Done(Fault("zombie publisher", 3.0, frozenset(), "sums.0"), 1, 2, "nobody took over")
    other = replace(zombie, nothing="")
    run = replace(_run(), faults=[zombie, other], again=2)
    assert str(zombie).endswith("healed after 0.0 s, nobody took over")
    assert "; 1 faults came to nothing; 2 processes could not start and were started again" in result(run)
    assert "| zombie publisher 2 (1 came to nothing); never: " in ledger_line(run)
    assert "nothing" not in result(_run()) + ledger_line(_run())


def test_what_a_fault_did_not_bring_about_ends_it_and_not_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def does_nothing(arena: object, fault: Fault) -> Steps:
        yield lambda: True
        raise CameToNothing("nobody published")

    monkeypatch.setitem(DOING, "zombie publisher", does_nothing)
    done = Done(Fault("zombie publisher", 1.0, frozenset()), 1)
    active = _Active(cast(Arena, None), done)
    assert active.step()
    assert (done.nothing, done.end_us is not None) == ("nobody published", True)


def test_the_timeline_has_a_line_a_fault() -> None:
    assert timeline(_run().faults, 11 * S).splitlines() == [
        "   1  +    0.0 s  driver killed sums.r0 2.0 s, healed after 9.0 s",
        "   2  +   14.0 s  source lost b 1.0 s, healed after 3.0 s",
    ]
    assert str(Done(Fault("broker paused", 1.0, frozenset()), 1)) == "broker paused, not healed"


def test_a_fault_waits_while_another_has_what_it_takes() -> None:
    def fault(kind: str, *takes: str) -> Fault:
        return Fault(kind, 1.0, frozenset(takes))

    class Held(_Active):
        def __init__(self, of: Fault) -> None:
            self.done = Done(of, 0)

    queue = deque([fault("one", "sums"), fault("two", "sums", "sources"), fault("three", "cleaned")])
    active = [Held(fault("zero", "sums"))]
    assert _next(queue, active) == fault("three", "cleaned")
    assert _next(queue, active) is None
    assert _next(queue, []) == fault("one", "sums")
    assert _next(queue, [Held(fault(str(n), str(n))) for n in range(3)]) is None, "three at a time"
    assert list(queue) == [fault("two", "sums", "sources")]
