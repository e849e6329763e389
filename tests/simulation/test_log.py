"""The faults of the simulated log. What it shares with every log is in tests/contract."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from borealis_py.log.base import (
    Committed,
    Feed,
    Fenced,
    LogError,
    LogUnreachable,
    NewRecord,
    TookOver,
    TopicSpec,
    TransactorEvent,
    Unknown,
)
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.latency import Latencies, between
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.simulation.log.connection import Refusal
from borealis_py.simulation.log.network import CutDirection, cut_of
from borealis_py.simulation.log.outcomes import CommitOutcome
from borealis_py.simulation.log.transactor import MemoryTransactor
from tests.support.resume import last_number

START_US = 1_700_000_000_000_000
A, B, P = Feed("a"), Feed("b"), Feed("p")


def asleep() -> None:
    pass


def make(seed: int = 0, **options: object) -> tuple[Scheduler, MemoryLog]:
    scheduler = Scheduler(START_US)
    log = MemoryLog(scheduler, seed, **options)  # type: ignore[arg-type]
    log.client("admin").admin().create([TopicSpec(f.topic) for f in (A, B, P)])
    return scheduler, log


def after(scheduler: Scheduler, seconds: float) -> None:
    scheduler.run_until(scheduler.now_us + int(seconds * 1_000_000))


def committed(log: MemoryLog, feed: Feed) -> list[str]:
    return [(r.value or b"").decode() for r in log.committed(feed)]


def commit(scheduler: Scheduler, transactor: MemoryTransactor, attempt: int, values: list[str], seconds: float = 3.0):
    records = [NewRecord(A, v.encode()) for v in values] + [NewRecord(P, values[-1].encode())]
    transactor.commit(attempt, lambda: records)
    after(scheduler, seconds)
    return transactor.events()


def take_over(scheduler: Scheduler, transactor: MemoryTransactor, attempt: int):
    transactor.take_over(attempt)
    after(scheduler, 3.0)
    (answer,) = transactor.events()
    return answer


def test_appends_are_seen_and_acknowledged_after_their_delays() -> None:
    fixed: Callable[[int], object] = lambda us: between(us, us + 1)  # noqa: E731
    delays = Latencies(append=fixed(1_000), ack=fixed(500), fetch=fixed(3_000))
    scheduler, log = make(delays=delays)
    woken: list[int] = []
    reader = log.client("r").reader(lambda: woken.append(scheduler.now_us - START_US))
    reader.open(A, 0)
    appender = log.client("w").appender(asleep)
    appender.append(NewRecord(A, b"1"), token=1)
    scheduler.run_until(START_US + 1_499)
    assert not appender.deliveries()
    assert not appender.flush(1.0)
    scheduler.run_until(START_US + 1_500)
    assert [d.offset for d in appender.deliveries()] == [0]
    assert appender.flush(1.0)
    scheduler.run_until(START_US + 3_999)
    assert reader.poll() == []
    scheduler.run_until(START_US + 4_000)
    (got,) = reader.poll()
    assert got.timestamp_ms == (START_US + 1_000) // 1000
    assert woken == [4_000]


def test_order_per_feed_survives_random_delays_and_cuts() -> None:
    scheduler, log = make(seed=5)
    reader = log.client("r").reader(asleep)
    reader.open(A, 0)
    appender = log.client("w").appender(asleep)
    for i in range(300):
        appender.append(NewRecord(A, b"%d" % i), token=i)
        if i in (50, 200):
            log.cut("w")
        if i in (120, 250):
            log.heal("w")
        scheduler.run_until(scheduler.now_us + 137)
    after(scheduler, 1)
    assert [r.value for r in reader.poll()] == [b"%d" % i for i in range(300)]
    assert [d.token for d in appender.deliveries()] == list(range(300))


def test_a_cut_client_sees_and_appends_nothing_until_it_heals() -> None:
    scheduler, log = make()
    reader = log.client("r").reader(asleep)
    reader.open(A, 0)
    appender, lookup = log.client("r").appender(asleep), log.client("r").lookup()
    log.cut("r")
    log.client("w").appender(asleep).append(NewRecord(A, b"unseen"))
    appender.append(NewRecord(B, b"held"), token=1)
    query = lookup.ask_ends([A, B])
    after(scheduler, 1)
    assert reader.poll() == []
    assert appender.deliveries() == []
    assert committed(log, A) == ["unseen"]
    assert committed(log, B) == []
    assert query.poll() == {A: None, B: None}
    with pytest.raises(LogUnreachable, match="a"):
        lookup.bounds(A)
    log.heal("r")
    after(scheduler, 1)
    assert [r.value for r in reader.poll()] == [b"unseen"]
    assert [d.offset for d in appender.deliveries()] == [0]
    assert lookup.bounds(B) == (0, 1)


def test_a_cut_of_some_topics_leaves_the_others() -> None:
    scheduler, log = make()
    reader = log.client("r").reader(asleep)
    reader.open(A, 0)
    reader.open(B, 0)
    log.cut("r", topics={"a"})
    writer = log.client("w").appender(asleep)
    writer.append(NewRecord(A, b"1"))
    writer.append(NewRecord(B, b"2"))
    query = log.client("r").lookup().ask_ends([A, B])
    after(scheduler, 1)
    assert [r.feed for r in reader.poll()] == [B]
    assert query.poll() == {A: None, B: 1}


def test_an_append_that_waits_too_long_fails_and_never_lands_nor_does_any_after_it() -> None:
    """Or there would be a gap, which no reader could tell from a bucket that is still to come."""
    scheduler, log = make(append_timeout_us=2_000_000)
    appender = log.client("w").appender(asleep)
    log.cut("w")
    appender.append(NewRecord(A, b"1"), token=1)
    after(scheduler, 1.9)
    appender.append(NewRecord(A, b"2"), token=2)
    after(scheduler, 0.2)
    (failed,) = appender.deliveries()
    assert failed.token == 1
    assert "unreachable" in (failed.error or "")
    log.heal("w")
    after(scheduler, 1)
    assert committed(log, A) == []
    (failed,) = appender.deliveries()
    assert failed.token == 2
    assert "unreachable" in (failed.error or "")
    again = log.client("w").appender(asleep)
    again.append(NewRecord(A, b"3"))
    after(scheduler, 1)
    assert committed(log, A) == ["3"]


@pytest.mark.parametrize(("landed", "lies_there"), [(False, []), (True, ["1"])])
def test_a_refused_append_is_followed_by_no_other(landed: bool, lies_there: list[str]) -> None:
    scheduler, log = make()
    appender = log.client("w").appender(asleep)
    log.refuse("w", "a", Refusal("REQUEST_TIMED_OUT", landed))
    for i in (1, 2):
        appender.append(NewRecord(A, b"%d" % i), token=i)
    appender.append(NewRecord(B, b"other"), token=3)
    after(scheduler, 1)
    assert {d.token: d.error is None for d in appender.deliveries()} == {1: False, 2: False, 3: True}
    assert committed(log, A) == lies_there


def test_a_topic_without_a_leader_takes_and_gives_nothing_until_there_is_one() -> None:
    scheduler, log = make()
    reader, lookup = log.client("r").reader(asleep), log.client("r").lookup()
    reader.open(A, 0)
    log.depose(["a"])
    log.client("w").appender(asleep).append(NewRecord(A, b"1"))
    query = lookup.ask_ends([A, B])
    after(scheduler, 1)
    assert (reader.poll(), committed(log, A), query.poll()) == ([], [], {A: None, B: 0})
    log.elect(["a"])
    after(scheduler, 1)
    assert [r.value for r in reader.poll()] == [b"1"]


def test_what_the_followers_have_not_got_is_neither_read_nor_acknowledged_until_they_have() -> None:
    scheduler, log = make()
    reader, lookup, appender = (
        log.client("r").reader(asleep),
        log.client("r").lookup(),
        log.client("w").appender(asleep),
    )
    reader.open(A, 0)
    release = log.hold(["a"])
    appender.append(NewRecord(A, b"1"), "one")
    query = lookup.ask_ends([A])
    after(scheduler, 1)
    assert (reader.poll(), appender.deliveries(), query.poll()) == ([], [], {A: 0})
    assert (lookup.bounds(A), lookup.written(A), committed(log, A)) == ((0, 0), 0, [])
    release(False)
    after(scheduler, 1)
    assert [r.value for r in reader.poll()] == [b"1"]
    assert [(d.token, d.offset) for d in appender.deliveries()] == [("one", 0)]


def test_a_follower_that_becomes_leader_has_only_what_the_living_send_again() -> None:
    scheduler, log = make()
    dead, alive = log.client("dead").appender(asleep), log.client("alive").appender(asleep)
    alive.append(NewRecord(A, b"before"), "before")
    after(scheduler, 1)
    release = log.hold(["a"])
    dead.append(NewRecord(A, b"lost"), "lost")
    after(scheduler, 1)
    for i in range(3):
        alive.append(NewRecord(A, b"%d" % i), i)
    after(scheduler, 1)
    log.kill("dead")
    release(True)
    after(scheduler, 1)
    assert committed(log, A) == ["before", "0", "1", "2"]
    assert [(d.token, d.offset) for d in alive.deliveries()] == [("before", 0), (0, 1), (1, 2), (2, 3)]


def test_two_of_which_one_becomes_leader_hold_back_what_was_not_lost() -> None:
    scheduler, log = make()
    appender = log.client("w").appender(asleep)
    first = log.hold(["a"])
    appender.append(NewRecord(A, b"1"), 1)
    after(scheduler, 1)
    second = log.hold(["a"])
    first(True)
    after(scheduler, 1)
    assert (committed(log, A), appender.deliveries()) == ([], [])
    second(False)
    after(scheduler, 1)
    assert (committed(log, A), [d.offset for d in appender.deliveries()]) == (["1"], [0])


def test_a_one_way_cut_lets_one_direction_pass() -> None:
    scheduler, log = make()
    for name, way in (("deaf", CutDirection.IN), ("dumb", CutDirection.OUT)):
        log.add_cut(name, cut_of(None, way))
    readers = {}
    for name in ("deaf", "dumb"):
        readers[name] = log.client(name).reader(asleep)
        readers[name].open(A, 0)
        log.client(name).appender(asleep).append(NewRecord(A, name.encode()), token=name)
    after(scheduler, 1)
    assert committed(log, A) == ["deaf"]
    assert {name: len(reader.poll()) for name, reader in readers.items()} == {"deaf": 0, "dumb": 1}
    with pytest.raises(LogUnreachable):
        log.client("deaf").lookup().bounds(A)


def test_what_a_dead_client_had_sent_may_arrive_late() -> None:
    scheduler, log = make(seed=2)
    appender = log.client("w").appender(asleep)
    for i in range(5):
        appender.append(NewRecord(A, b"%d" % i))
    log.late("w", 2_000_000)
    log.kill("w")
    after(scheduler, 0.01)
    assert committed(log, A) == []
    after(scheduler, 2)
    landed = committed(log, A)
    assert landed
    assert landed == [str(i) for i in range(len(landed))]


def test_nothing_arrives_late_behind_a_record_that_was_refused() -> None:
    for seed in range(10):
        scheduler, log = make(seed, delays=Latencies(append=between(1_000, 100_000)))
        appender = log.client("w").appender(asleep)
        log.refuse("w", "a", Refusal("REQUEST_TIMED_OUT", landed=False))
        appender.append(NewRecord(A, b"0"))
        after(scheduler, 0.2)
        for i in range(1, 5):
            appender.append(NewRecord(A, b"%d" % i))
        log.late("w", 2_000_000)
        log.kill("w")
        after(scheduler, 3)
        assert committed(log, A) == []


def test_of_a_killed_clients_appends_a_prefix_lands_which_one_depends_on_the_seed() -> None:
    lengths = set()
    for seed in range(30):
        scheduler, log = make(seed)
        woken: list[int] = []
        appender = log.client("w").appender(lambda woken=woken: woken.append(1))
        for i in range(4):
            appender.append(NewRecord(A, b"%d" % i), token=i)
        log.kill("w")
        after(scheduler, 1)
        landed = committed(log, A)
        assert landed == ["0", "1", "2", "3"][: len(landed)]
        assert not woken
        with pytest.raises(LogError):
            appender.append(NewRecord(A, b"after"))
        lengths.add(len(landed))
        successor = log.client("w").appender(asleep)
        successor.append(NewRecord(A, b"new"))
        after(scheduler, 1)
        assert committed(log, A)[-1] == "new"
    assert lengths == {0, 1, 2, 3, 4}


def test_an_open_transaction_holds_back_what_came_after_it() -> None:
    scheduler, log = make(outcomes=lambda _rng, _name: CommitOutcome.LOST)
    reader = log.client("r").reader(asleep)
    reader.open(A, 0)
    transactor = log.client("w").transactor("t", P, asleep, last_number(P))
    take_over(scheduler, transactor, 1)
    (answer,) = commit(scheduler, transactor, 1, ["x"])
    assert isinstance(answer, Unknown)
    log.client("other").appender(asleep).append(NewRecord(A, b"plain"))
    after(scheduler, 1)
    assert reader.poll() == []
    assert log.client("r").lookup().bounds(A) == (0, 0)
    take_over(scheduler, log.client("w2").transactor("t", P, asleep, last_number(P)), 1)
    assert [(r.offset, r.value) for r in reader.poll()] == [(1, b"plain")]
    assert reader.position(A) == 3


def test_an_error_is_reported_although_the_record_is_truncated() -> None:
    """Seed 702532: its publisher waited for ever for the answer to a record that no leader had any longer."""
    scheduler, log = make()
    appender = log.client("w").appender(asleep)
    release = log.hold(["a"])
    log.refuse("w", "a", Refusal("REQUEST_TIMED_OUT", landed=True))
    appender.append(NewRecord(A, b"1"), token=1)
    after(scheduler, 1)
    release(True)
    after(scheduler, 1)
    assert [(d.token, d.error) for d in appender.deliveries()] == [(1, "REQUEST_TIMED_OUT")]
    assert committed(log, A) == []


def test_a_transaction_left_open_times_out() -> None:
    scheduler, log = make()
    transactor = log.client("w").transactor("t", P, asleep, last_number(P))
    take_over(scheduler, transactor, 1)
    log.outcomes = lambda _rng, _name: CommitOutcome.LOST
    commit(scheduler, transactor, 1, ["x"])
    log.client("other").appender(asleep).append(NewRecord(A, b"plain"))
    after(scheduler, 10)
    assert committed(log, A) == ["plain"]
    assert commit(scheduler, transactor, 1, ["y"]) == [Fenced(1)]


def test_a_transaction_waits_for_followers_and_for_its_coordinator() -> None:
    scheduler, log = make()
    transactor = log.client("w").transactor("t", P, asleep, last_number(P))
    take_over(scheduler, transactor, 1)
    release = log.hold(["a"])
    assert commit(scheduler, transactor, 1, ["1"]) == []
    release(False)
    after(scheduler, 1)
    assert (transactor.events(), committed(log, A)) == ([Committed(1)], ["1"])
    log.coordinators_away.append("t")
    assert commit(scheduler, transactor, 1, ["2"]) == []
    log.coordinators_away.remove("t")
    after(scheduler, 1)
    assert (transactor.events(), committed(log, A)) == ([Committed(1)], ["1", "2"])


def test_a_transaction_whose_coordinator_stays_away_is_given_up_and_times_out_once_it_is_back() -> None:
    scheduler, log = make()
    transactor = log.client("w").transactor("t", P, asleep, last_number(P))
    take_over(scheduler, transactor, 1)
    transactor.commit(1, lambda: [NewRecord(A, b"1")])
    while not log.broker.undecided(log.broker.partition(A)):
        scheduler.step()
    log.coordinators_away.append("t")
    after(scheduler, 20)
    (answer,) = transactor.events()
    assert isinstance(answer, Unknown)
    assert log.broker.undecided(log.broker.partition(A)) == {0}
    log.coordinators_away.remove("t")
    after(scheduler, 1)
    assert (log.broker.undecided(log.broker.partition(A)), committed(log, A)) == (set(), [])


def test_a_coordinator_that_moves_halfway_through_a_fence_leaves_the_transaction_open() -> None:
    scheduler, log = make()
    first, second = (log.client(name).transactor("t", P, asleep, last_number(P)) for name in ("w", "w2"))
    take_over(scheduler, first, 1)
    release = log.hold(["a"])
    first.commit(1, lambda: [NewRecord(A, b"1")])
    log.fences_unwritten.add("t")
    second.take_over(1)
    answers: list[TransactorEvent] = []
    while not answers:
        scheduler.step()
        answers = second.events()
    assert isinstance(answers[0], Unknown)
    release(False)
    after(scheduler, 1)
    assert first.events() == [Fenced(1)]
    assert log.broker.undecided(log.broker.partition(A)) == {0}
    take_over(scheduler, second, 2)
    assert (log.broker.undecided(log.broker.partition(A)), committed(log, A)) == (set(), [])


def test_who_takes_over_waits_until_the_markers_before_have_reached_the_followers() -> None:
    """Else it would not see how far was committed."""
    scheduler, log = make()
    first, second = (log.client(name).transactor("t", P, asleep, last_number(P)) for name in ("w", "w2"))
    take_over(scheduler, first, 1)
    first.commit(1, lambda: [NewRecord(A, b"1"), NewRecord(P, b"1")])
    while not log.broker.undecided(log.broker.partition(P)):
        scheduler.step()
    while log.broker.undecided(log.broker.partition(P)):
        release = log.hold(["p"])
        scheduler.step()
        if log.broker.undecided(log.broker.partition(P)):
            release(False)
    second.take_over(1)
    after(scheduler, 3)
    assert (second.events(), committed(log, P)) == ([], [])
    release(False)
    after(scheduler, 1)
    assert second.events() == [TookOver(1, 1)]


def test_an_expired_transactional_id_refuses_a_transaction_until_it_is_initialised_again() -> None:
    scheduler, log = make()
    transactor = log.client("w").transactor("t", P, asleep, last_number(P))
    take_over(scheduler, transactor, 1)
    log.broker.forget("t")
    (answer,) = commit(scheduler, transactor, 1, ["1"])
    assert isinstance(answer, Unknown)
    assert "INVALID_PRODUCER_ID_MAPPING" in answer.reason
    assert committed(log, A) == []
    assert take_over(scheduler, transactor, 2) == TookOver(2, None)
    assert commit(scheduler, transactor, 2, ["1"]) == [Committed(2)]


def test_an_unknown_outcome_may_have_been_a_commit() -> None:
    scheduler, log = make()
    transactor = log.client("w").transactor("t", P, asleep, last_number(P))
    take_over(scheduler, transactor, 1)
    log.outcomes = lambda _rng, _name: CommitOutcome.UNTOLD
    (answer,) = commit(scheduler, transactor, 1, ["1"])
    assert isinstance(answer, Unknown)
    assert committed(log, A) == ["1"]
    assert take_over(scheduler, transactor, 2) == TookOver(2, 1)


def test_a_commit_of_unknown_outcome_is_settled_by_fencing_before_reading_the_progress() -> None:
    """Protocol B7: whichever way it went, what the take-over reads is what lies there for good."""
    seen = set()
    for seed in range(40):
        scheduler, log = make(seed)
        log.set_delays("w", Latencies(fence=between(1_000, 400_000)))
        transactor = log.client("w").transactor("t", P, asleep, last_number(P))
        take_over(scheduler, transactor, 1)
        log.outcomes = lambda _rng, _name: CommitOutcome.LATER
        records = [NewRecord(A, b"x"), NewRecord(P, b"1")]
        transactor.commit(1, lambda records=records: records)
        while not (events := transactor.events()):
            scheduler.step()
        assert isinstance(events[0], Unknown)
        answer = take_over(scheduler, transactor, 2)
        found = [] if answer.progress is None else ["x"]
        after(scheduler, 15)
        assert committed(log, A) == found
        assert len(committed(log, P)) == len(found)
        seen.add(bool(found))
    assert seen == {True, False}


def test_a_cut_writer_does_not_learn_what_became_of_its_commit() -> None:
    scheduler, log = make()
    transactor = log.client("w").transactor("t", P, asleep, last_number(P))
    take_over(scheduler, transactor, 1)
    log.cut("w")
    (answer,) = commit(scheduler, transactor, 1, ["x"])
    assert isinstance(answer, Unknown)
    transactor.take_over(2)
    after(scheduler, 3)
    assert isinstance(transactor.events()[0], Unknown)
    log.heal("w")
    assert take_over(scheduler, transactor, 3) == TookOver(3, None)
    assert commit(scheduler, transactor, 3, ["y"]) == [Committed(3)]
    assert committed(log, A) == ["y"]


def test_commit_needs_a_take_over() -> None:
    scheduler, log = make()
    transactor = log.client("w").transactor("t", P, asleep, last_number(P))
    with pytest.raises(LogError, match="without a take-over"):
        transactor.commit(1, list)
    take_over(scheduler, transactor, 1)
    transactor.drop()
    with pytest.raises(LogError, match="without a take-over"):
        transactor.commit(1, list)


def test_what_nobody_created_is_named() -> None:
    _, log = make()
    with pytest.raises(LogError, match=r"nowhere\[0\]: no such topic"):
        log.client("r").lookup().bounds(Feed("nowhere"))


def test_the_log_cleaner_leaves_the_last_record_of_each_key_and_holes_that_no_reader_minds() -> None:
    scheduler, log = make()
    reader = log.client("r").reader(asleep)
    reader.open(A, 1)
    for key, value in ((b"x", b"1"), (b"y", b"2"), (b"x", b"3"), (b"x", b"4"), (b"y", b"5"), (b"x", b"6")):
        log.broker.append(NewRecord(A, value, key))
    log.broker.partition(A).compact(below=4)
    after(scheduler, 1)
    assert [(r.offset, r.value) for r in reader.poll()] == [(4, b"5"), (5, b"6")]
    assert reader.position(A) == 6
    assert [r.offset for r in log.client("r").lookup().read(A, 0, 6)] == [4, 5]
    log.broker.append(NewRecord(A, b"7", b"y"))
    log.broker.partition(A).compact(below=4)
    assert committed(log, A) == ["5", "6", "7"]  # what is too young stays, superseded or not


def trace(seed: int) -> list[object]:
    """Everything two readers and a writer see in a world with faults, with the times."""
    scheduler, log = make(seed, outcomes=lambda rng, _name: rng.choice(list(CommitOutcome)))
    seen: list[object] = []
    for name in ("r0", "r1"):
        reader = log.client(name).reader(lambda: None)
        for feed in (A, B):
            reader.open(feed, 0)
        scheduler.at(START_US, lambda r=reader, n=name: poll(r, n))

    def poll(reader, name: str) -> None:
        seen.extend((scheduler.now_us, name, r.feed, r.offset, r.value) for r in reader.poll())
        scheduler.after(700, lambda: poll(reader, name))

    appender = log.client("w").appender(asleep)
    transactor = log.client("w").transactor("t", P, asleep, last_number(P))
    transactor.take_over(1)
    for i in range(40):
        appender.append(NewRecord((A, B)[i % 2], b"%d" % i), token=i)
        {10: lambda: log.cut("r0"), 20: lambda: log.heal("r0"), 30: lambda: log.kill("w")}.get(i, asleep)()
        appender = log.client("w").appender(asleep)
        after(scheduler, 0.004)
        seen.extend((scheduler.now_us, d) for d in appender.deliveries())
        seen.extend((scheduler.now_us, e) for e in transactor.events())
    return seen


def test_the_same_seed_gives_the_same_world() -> None:
    assert trace(3) == trace(3)
    assert trace(3) != trace(4)
