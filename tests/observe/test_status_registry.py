"""What a process knows of the loops it runs: fed by hand, on a clock made by hand."""

from __future__ import annotations

import threading

from borealis_py.log.messages import Policy, RedoStatus
from borealis_py.observe.status_registry import HUNG_S, StatusRegistry
from borealis_py.protocol.settings import DelayPolicy, Delays
from tests.observe.states import Q0, Now, app_state, both
from tests.support.statuses import WALL_US, snapshot


def test_ready_when_every_replica_is_past_recovering(board: StatusRegistry) -> None:
    assert board.unready() == ["q.r0 is starting", "cut.r1 is starting"]
    both(board, state="RECOVERING")
    assert board.unready() == ["q.r0 is RECOVERING", "cut.r1 is RECOVERING"]
    board.tell(snapshot())
    assert board.unready() == ["cut.r1 is RECOVERING"]
    board.tell(snapshot(node="cut", replica=1, state="UPSTREAM_FAILURE"))
    assert board.unready() == []


def test_a_standby_is_ready_and_hangs_like_any_other(board: StatusRegistry, now: Now) -> None:
    both(board, state="STANDBY", recovery="passive-standby")
    assert (board.unready(), board.hung()) == ([], [])
    now.s += HUNG_S + 1
    assert len(board.hung()) == 2


def test_a_replica_that_stopped_is_not_ready_and_does_not_hang(board: StatusRegistry, now: Now) -> None:
    both(board)
    board.tell(snapshot(event="STOPPED", detail="bucket 7 is gone"))
    now.s += HUNG_S + 1
    board.tell(snapshot(node="cut", replica=1))
    assert board.unready() == ["q.r0 has stopped: bucket 7 is gone"]
    assert board.hung() == []


def test_a_loop_that_no_longer_turns_hangs(board: StatusRegistry, now: Now) -> None:
    assert board.hung() == []  # one that starts does not
    both(board)
    now.s += HUNG_S
    assert (board.hung(), board.unready()) == ([], [])
    now.s += 2
    board.tell(snapshot())
    assert board.hung() == board.unready() == ["cut.r1 has said nothing for 12 s"]
    board.tell(snapshot(node="cut", replica=1))
    assert board.hung() == []


def test_replicas_that_differ_are_told_and_do_not_hang(board: StatusRegistry) -> None:
    both(board)
    assert board.diverged() == []
    board.tell(snapshot(diverged="they differ"))
    assert board.diverged() == ["DIVERGED: q.r0 publishes nothing: they differ"]
    assert board.hung() == board.unready() == []


def test_what_runs_elsewhere_may_be_unready_but_does_not_hang(now: Now) -> None:
    board = StatusRegistry(app_state(), [Q0], afar=True, clock=now)
    board.tell(snapshot())
    now.s += HUNG_S + 1
    assert (board.hung(), board.unready()) == ([], ["q.r0 has said nothing for 11 s"])


def test_who_is_replaced_and_does_not_know_it_yet_is_not_shown(board: StatusRegistry) -> None:
    for inc, uid in ((1, "a"), (2, "b"), (1, "a"), (2, "b"), (1, "a")):
        board.tell(snapshot(inc=inc, uid=uid, event="STABLE"))
    (entry,) = board.entries.values()
    assert entry.snapshot.status.uid == "b"
    assert (entry.starts, entry.events["STABLE"]) == (2, 3)


def test_counts_go_on_over_incarnations(board: StatusRegistry) -> None:
    for inc, uid, event in ((1, "a", "READY"), (1, "a", ""), (1, "a", "STOPPED"), (2, "b", "READY")):
        board.tell(snapshot(inc=inc, uid=uid, event=event))
    for engine, seconds in (("spark", 1.5), ("inline", 0.25), ("spark", 0.5)):
        board.tell(snapshot(inc=2, uid="b", event="REDO", redo=RedoStatus(0, 5, 9, engine, seconds, WALL_US)))
    entry = board.entries[Q0]
    assert entry.starts == 2
    assert entry.events == {"READY": 2, "STOPPED": 1, "REDO": 3}
    assert entry.redos == {"spark": (2, 2.0), "inline": (1, 0.25)}


def test_the_settings_are_those_that_the_replicas_obey(board: StatusRegistry) -> None:
    assert (board.state.threshold_us("q"), board.state.policies) == (3_000_000, {})
    board.tell(snapshot(Delays(900_000, DelayPolicy.DELAY, DelayPolicy.PROCESS), {"s": WALL_US + 5}))
    assert (board.state.threshold_us("q"), board.state.threshold_us("p")) == (900_000, 2_000_000)
    assert board.state.policies == {"q": Policy("delay", "process")}
    found = board.overview(WALL_US)
    assert found["thresholds_us"] == {"q": 900_000, "p": 2_000_000}
    assert found["failed_sources_until_wall_us"] == {"s": WALL_US + 5}
    assert [(r["node"], r["replica"], r["running"]) for r in found["replicas"]] == [("q", 0, True), ("cut", 1, False)]


def test_what_does_not_run_here_is_not_on_the_board(board: StatusRegistry) -> None:
    board.tell(snapshot(node="q", replica=7))
    board.tell(snapshot(node="other"))
    assert board.entries == {}


def test_readers_never_see_half_of_anything(board: StatusRegistry) -> None:
    """A loop writes as fast as it can while others read: no error, and events and starts of one entry agree."""
    done = threading.Event()

    def loop() -> None:
        for i in range(4_000):
            board.tell(snapshot(uid=str(i), inc=i, event="READY"))
        done.set()

    thread = threading.Thread(target=loop)
    thread.start()
    while not done.is_set():
        board.overview(WALL_US)
        for entry in board.entries.values():
            assert entry.starts == entry.events["READY"] == entry.snapshot.status.inc + 1
    thread.join()
    assert board.entries[Q0].starts == 4_000
