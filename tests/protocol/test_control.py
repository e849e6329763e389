"""The fold of the control log, and whose turn it is to reconcile."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.protocol.control import ControlFold
from borealis_py.protocol.incarnation import Heartbeat
from borealis_py.protocol.settings import Timing
from borealis_py.protocol.stagger import Stagger
from tests.support.heartbeats import heartbeat

MS = 1000
TIMING = Timing()


def beat(
    offset: int, replica: int, inc: int = 1, uid: str = "", asking: bool = False, **more: object
) -> tuple[int, Heartbeat]:
    return offset, heartbeat(replica, inc, uid=uid or f"u{replica}.{inc}", asking=asking, **more)


def fold(*beats: tuple[int, Heartbeat], replica: int = 0, uid: str = "", limit: int = 3) -> ControlFold:
    made = ControlFold(replica, 1, uid or f"u{replica}.1", limit)
    for one in beats:
        made.read(*one)
    return made


def test_the_one_who_asked_first_in_the_log_is_head() -> None:
    control = fold(beat(0, 1), beat(1, 1, asking=True), beat(2, 0, asking=True), beat(3, 1, asking=True))
    assert control.head == 1
    assert (control.peers[1].ask, control.own_ask) == (1, 2)


def test_who_stops_asking_leaves_the_queue_and_comes_back_at_its_end() -> None:
    control = fold(beat(0, 1, asking=True), beat(1, 0, asking=True), beat(2, 1), beat(3, 1, asking=True))
    assert control.head == 0
    assert control.peers[1].ask == 3


def test_a_late_starter_folds_the_same_queue_from_the_offsets_in_the_heartbeats() -> None:
    seen = [beat(0, 1, asking=True), beat(1, 0, asking=True), beat(2, 1, asking=True, ask_offset=0)]
    assert fold(*seen).head == fold(*seen[1:]).head == 1


def test_who_has_not_read_its_own_first_ask_is_believed_where_it_stands() -> None:
    """Retention deleted it when its peer had read it already: each would wait for the other, for ever."""
    asked, again = beat(1, 1, asking=True), beat(3, 1, asking=True)
    others, said = beat(2, 0, asking=True), beat(4, 1, asking=True, ask_offset=3)
    of_peer, own = fold(asked, others, again), fold(others, again, replica=1)
    assert (of_peer.head, own.head) == (1, 0)
    for each in (of_peer, own):
        each.read(*said)
        assert (each.head, each.peers[1].ask) == (0, 3)


def test_a_newer_incarnation_clears_the_older_ones_ask() -> None:
    control = fold(beat(0, 1, asking=True), beat(1, 0, asking=True), beat(2, 1, inc=2))
    assert (control.head, control.peers[1].ask, control.peers[1].inc) == (0, None, 2)


@pytest.mark.parametrize("stale", [beat(9, 1, inc=1, asking=True), beat(9, 1, inc=2, uid="other", asking=True)])
def test_an_older_incarnation_or_another_uid_of_the_same_is_ignored(stale: tuple[int, Heartbeat]) -> None:
    control = fold(beat(0, 1, inc=2), stale)
    assert control.peers[1].ask is None
    assert not control.peers[1].beat.asking


def test_a_replica_whose_index_was_taken_knows_it() -> None:
    assert fold(beat(0, 0), beat(1, 0, inc=2)).superseded is not None
    assert fold(beat(0, 0, uid="other")).superseded is not None
    assert fold(beat(0, 0), beat(1, 1, inc=7)).superseded is None


def test_of_two_with_the_same_number_the_first_in_the_log_stays() -> None:
    log = [beat(0, 0, uid="a"), beat(1, 0, uid="b")]
    assert fold(*log, uid="a").superseded is None
    assert fold(*log, uid="b").superseded is not None


def test_of_two_that_both_own_one_number_one_starts_again() -> None:
    """The log had deleted the first heartbeats before the other one read them."""
    mine, other = beat(8, 0, uid="b"), beat(9, 0, uid="a")
    later = fold(mine, other, uid="b")
    assert later.superseded is None
    assert later.number_shared == "replica 0: a has incarnation 1, too"
    earlier = fold(beat(7, 0, uid="a"), mine, uid="a")
    assert (earlier.superseded, earlier.number_shared) == (None, None), "the other one's new number ends it"


def test_who_has_not_read_its_own_heartbeat_leaves_and_is_no_reason_to_start_again() -> None:
    starting = beat(9, 0, uid="a", state="RECOVERING")
    assert fold(beat(8, 0, uid="b"), starting, uid="b").number_shared is None
    assert fold(beat(8, 0, uid="b"), beat(9, 1, uid="a"), uid="b").number_shared is None


def test_liveness_is_counted_in_own_heartbeats() -> None:
    control = fold(beat(0, 1), beat(1, 0), beat(2, 0))
    assert control.live(1)
    control.read(*beat(3, 0))
    assert not control.live(1)
    assert (control.live_peers(), control.lowest_live, control.live(0)) == ([], 0, True)
    control.read(*beat(4, 1))
    assert control.live(1)
    assert not control.live(5)


def test_a_replica_that_is_cut_off_suspects_nobody() -> None:
    control = fold(beat(0, 1, asking=True), beat(1, 0))
    assert control.live(1)
    assert control.head == 1


def test_a_dead_head_is_passed_over() -> None:
    control = fold(beat(0, 1, asking=True), beat(1, 0, asking=True))
    assert control.head == 1
    for offset in (2, 3):
        control.read(*beat(offset, 0, asking=True))
    assert control.head == 0


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), st.sampled_from("ab"), st.booleans()), max_size=30))
def test_all_replicas_fold_the_same_queue(log: list[tuple[int, int, str, bool]]) -> None:
    beats = [beat(i, k, inc, uid, asking) for i, (k, inc, uid, asking) in enumerate(log)]
    folds = [fold(*beats, replica=k, limit=10**6) for k in range(3)]
    queues = [{k: (p.inc, p.uid, p.ask) for k, p in f.peers.items()} for f in folds]
    assert queues[0] == queues[1] == queues[2]
    assert len({f.head for f in folds}) == 1


# Staggering -----------------------------------------------------------------------------------------------------------


def test_nobody_asks_without_divergence() -> None:
    stagger = Stagger(TIMING)
    stagger.turn(0, diverged=False, complete=True, gap=False, control=fold())
    assert (stagger.asking, stagger.granted, stagger.wakeup()) == (False, False, None)


def test_the_grant_comes_with_the_own_ask_at_the_head_of_the_log() -> None:
    stagger, control = Stagger(TIMING), fold(beat(0, 0))
    stagger.turn(0, True, True, False, control)
    assert (stagger.asking, stagger.granted) == (True, False)
    control.read(*beat(1, 0, asking=True))
    stagger.turn(1, True, True, False, control)
    assert stagger.granted


def test_an_ask_of_an_earlier_incarnation_grants_nothing() -> None:
    stagger, control = Stagger(TIMING), ControlFold(0, 2, "u0.2", 10)
    control.read(*beat(0, 0, inc=1, asking=True))
    stagger.turn(0, True, True, False, control)
    assert (control.head, stagger.granted) == (0, False)


def waiting(now: int = 0) -> tuple[Stagger, ControlFold]:
    """Behind replica 1."""
    stagger, control = Stagger(TIMING), fold(beat(0, 1, asking=True), beat(1, 0, asking=True), limit=10**6)
    stagger.turn(now, True, True, False, control)
    assert not stagger.granted
    return stagger, control


def test_behind_a_head_that_stands_still_it_goes_on_after_t() -> None:
    stagger, control = waiting()
    assert stagger.wakeup() == TIMING.stagger_us
    stagger.turn(TIMING.stagger_us - 1, True, True, False, control)
    assert not stagger.granted
    stagger.turn(TIMING.stagger_us, True, True, False, control)
    assert stagger.granted


@pytest.mark.parametrize("sign", ["progress", "incarnation", "head", "gap"])
def test_any_sign_of_life_of_the_head_or_an_own_gap_starts_t_again(sign: str) -> None:
    stagger, control = waiting()
    if sign == "progress":
        control.read(*beat(2, 1, asking=True, ack_s=7))
    elif sign == "incarnation":
        control.read(*beat(2, 1, inc=2))
        control.read(*beat(3, 1, inc=2, asking=True, ask_offset=0))
    elif sign == "head":
        control.read(*beat(2, 2, asking=True, ask_offset=-1))
    stagger.turn(2_000 * MS, True, True, sign == "gap", control)
    stagger.turn(TIMING.stagger_us + 1_000 * MS, True, True, False, control)
    assert not stagger.granted
    stagger.turn(TIMING.stagger_us + 2_000 * MS, True, True, False, control)
    assert stagger.granted


def test_once_passed_it_holds_until_asking_ends() -> None:
    stagger, control = waiting()
    stagger.turn(TIMING.stagger_us, True, True, False, control)
    control.read(*beat(2, 1, asking=True, ack_s=9))
    stagger.turn(TIMING.stagger_us + 1, True, True, True, control)
    assert stagger.granted
    stagger.turn(TIMING.stagger_us + 2, False, True, False, control)
    stagger.turn(TIMING.stagger_us + 3, True, True, False, control)
    assert not stagger.granted


def test_an_incomplete_bucket_releases_the_grant_after_a_while() -> None:
    stagger, control = Stagger(TIMING), fold(beat(0, 0, asking=True))
    stagger.turn(0, True, True, False, control)
    assert stagger.granted
    stagger.turn(10, True, False, False, control)
    assert (stagger.granted, stagger.wakeup()) == (True, 10 + TIMING.release_us)
    stagger.turn(20, True, True, False, control)  # complete again: the count starts anew
    stagger.turn(30, True, False, False, control)
    stagger.turn(29 + TIMING.release_us, True, False, False, control)
    assert stagger.asking
    stagger.turn(30 + TIMING.release_us, True, False, False, control)
    assert (stagger.asking, stagger.granted) == (False, False)


def test_an_incomplete_bucket_never_starts_an_ask() -> None:
    stagger = Stagger(TIMING)
    stagger.turn(0, True, False, False, fold())
    assert not stagger.asking
