"""Which replica is where: who begins to run stays until a slot is free, who stands by gives one back, nobody is in two
places for long or without one, and with time nobody moves any more."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from borealis_py.runtime.spark.seats import CALM_S, SETTLED_S, STARVED_S, Activity, Seat, Seats
from tests.examples import examples

IDLES, COMPUTES = Activity.IDLES, Activity.COMPUTES
OWN, SHARED = Seat.OWN, Seat.SHARED


class Host:
    """An application as `seating` runs it, in steps: whoever has a seat sits down, and the old incarnation ends."""

    def __init__(self, begins: Mapping[str, bool], given: int, redos: int = 1, shares: bool = True) -> None:
        self.seats = Seats(begins, shares, redos)
        self.given, self.redos, self.now_s, self.moves = given, redos, 0.0, 0
        self.does: dict[str, Activity | None] = dict.fromkeys(begins)
        self.movable = dict.fromkeys(begins, True)
        self.at: dict[str, list[Seat]] = {name: [] for name in begins}
        """Where it has incarnations, the newest last."""
        self.inc = dict.fromkeys(begins, 0)

    @property
    def taken(self) -> int:
        """Slots in which something runs."""
        return sum(OWN in at for at in self.at.values()) + any(SHARED in at for at in self.at.values())

    def sit(self, name: str) -> None:
        """Its next incarnation begins, if there is a slot for it."""
        seat, at = self.seats.seat(name), self.at[name]
        needs = seat is OWN or not any(SHARED in other for other in self.at.values())
        if seat in at or (needs and self.taken >= self.given):
            return
        assert self.seats.sat_down(name, seat) == bool(at)
        at.append(seat)
        self.inc[name] += 1

    def end_old(self, name: str) -> None:
        """The older of two incarnations reads that it is superseded."""
        if len(self.at[name]) == 2:
            old = self.at[name].pop(0)
            assert self.seats.superseded(name, old)
            self.seats.left(name, old)

    def die(self, name: str) -> None:
        """All its incarnations die."""
        for seat in self.at[name]:
            self.seats.left(name, seat)
        self.at[name] = []

    def tell(self) -> None:
        """Each reports what it does."""
        for name, activity in self.does.items():
            if self.at[name]:
                self.seats.told(self.now_s, name, self.inc[name], activity, self.movable[name])

    def decide(self) -> list[str]:
        moved = self.seats.decide(self.now_s, self.given)
        self.moves += len(moved)
        return moved

    def passes(self, seconds: float, step_s: float = 0.5) -> None:
        """Everything goes its way."""
        end_s = self.now_s + seconds
        while self.now_s < end_s:
            self.now_s += step_s
            for name in self.at:
                self.sit(name)
                self.end_old(name)
            self.tell()
            self.decide()

    def where(self) -> dict[str, list[Seat]]:
        return dict(self.at)


def test_who_begins_to_run_stays_until_it_has_caught_up_and_a_slot_is_free() -> None:
    host = Host({"a": True, "b": True, "c": True}, given=2)
    host.does = {"a": COMPUTES, "b": IDLES, "c": IDLES}
    host.passes(10)
    assert host.where() == {"a": [SHARED], "b": [SHARED], "c": [SHARED]}
    assert host.seats.waiting == ("a",)
    host.given = 3
    host.passes(1)
    assert host.where()["a"] == [OWN]
    assert host.seats.waiting == ()
    assert host.seats.sharing == ("b", "c")
    assert host.seats.taken == 2


def test_no_sooner_than_it_has_run_for_a_while() -> None:
    host = Host({"a": True, "b": True}, given=3)
    host.passes(5)
    host.does = {"a": COMPUTES, "b": IDLES}
    host.passes(SETTLED_S)
    assert host.where()["a"] == [SHARED]
    host.passes(SETTLED_S)
    assert host.where()["a"] == [OWN]


def test_the_last_one_that_runs_keeps_the_standby_task_for_itself() -> None:
    host = Host({"a": True, "b": True}, given=3)
    host.does = {"a": COMPUTES, "b": COMPUTES}
    host.passes(30)
    assert sorted(where[0].name for where in host.where().values()) == ["OWN", "SHARED"]
    assert host.moves == 1


def test_whose_start_would_lose_something_stays_where_it_runs() -> None:
    host = Host({"a": True, "b": True}, given=3)
    host.does, host.movable["a"] = {"a": COMPUTES, "b": IDLES}, False
    host.passes(30)
    assert host.where()["a"] == [SHARED]
    assert host.seats.waiting == ()


def test_standbys_give_their_slots_back_after_a_while_where_two_do() -> None:
    host = Host({"a": False, "b": False, "c": False}, given=4)
    host.does = {"a": IDLES, "b": COMPUTES, "c": COMPUTES}
    host.passes(3 * CALM_S)
    assert host.moves == 0, "alone it would only change its slot"
    host.does["c"] = IDLES
    host.passes(CALM_S)
    assert host.moves == 0
    host.passes(3)
    assert host.where() == {"a": [SHARED], "b": [OWN], "c": [SHARED]}


def test_the_task_that_they_share_may_begin_in_a_redo_s_slot_but_needs_one() -> None:
    for redos, moves in ((1, 2), (0, 0)):
        host = Host({"a": False, "b": False}, given=2 + redos, redos=redos)
        host.does = {"a": IDLES, "b": IDLES}
        host.passes(2 * CALM_S)
        assert host.moves == moves


def test_without_a_standby_task_nobody_moves() -> None:
    host = Host({"a": True, "b": True}, given=9, shares=False)
    host.does = {"a": IDLES, "b": COMPUTES}
    host.passes(60)
    assert host.where() == {"a": [OWN], "b": [OWN]}
    assert host.seats.starved(host.now_s, ["a"], ["a"]) == []


def test_what_an_older_incarnation_says_counts_no_more() -> None:
    seats = Seats({"a": True, "b": True}, True, 0)
    for name in "ab":
        seats.sat_down(name, SHARED)
    seats.told(0.0, "a", 2, IDLES, True)
    seats.told(0.0, "a", 1, COMPUTES, True)
    assert seats.decide(SETTLED_S, 9) == []


def test_who_finds_no_slot_shares_if_it_could_stand_by() -> None:
    host = Host({"a": False, "b": False}, given=1, redos=0)
    seats = host.seats
    assert seats.starved(0.0, ["a", "b"], ["a"]) == []
    assert seats.starved(STARVED_S / 2, ["b"], ["a"]) == []
    assert seats.starved(STARVED_S, ["a", "b"], ["a"]) == [], "it had one meanwhile"
    assert seats.starved(2 * STARVED_S, ["a", "b"], ["a"]) == ["a"]
    assert (seats.seat("a"), seats.seat("b")) == (SHARED, OWN)


def test_only_a_move_excuses_that_one_was_superseded() -> None:
    seats = Seats({"a": True}, True, 0)
    seats.sat_down("a", SHARED)
    assert not seats.superseded("a", SHARED)
    assert seats.sat_down("a", OWN)
    seats.left("a", OWN)  # it has ended since, and had ended the other one before
    assert seats.superseded("a", SHARED)
    seats.left("a", SHARED)
    assert not seats.sat_down("a", SHARED)
    assert not seats.superseded("a", SHARED)


def test_one_that_began_anew_where_it_was_excuses_the_one_that_was_to_take_its_place() -> None:
    """Its way of recovery changed while it moved: it took a number after that one, which ended the whole process."""
    seats = Seats({"a": True}, True, 0)
    seats.sat_down("a", SHARED)
    assert seats.sat_down("a", OWN)
    assert seats.superseded("a", OWN)
    seats.left("a", OWN)
    assert seats.seat("a") is SHARED, "it does not take the index back"
    assert not seats.superseded("a", SHARED), "it is alone: another process has its index"


class Lives(RuleBasedStateMachine):
    """Replicas that take over, step back and die while slots come and go."""

    @initialize(
        begins=st.lists(st.booleans(), min_size=1, max_size=5), given=st.integers(1, 8), redos=st.integers(0, 2)
    )
    def begin(self, begins: list[bool], given: int, redos: int) -> None:
        self.host = Host({f"q{k}": shared for k, shared in enumerate(begins)}, given, redos)

    def one(self, k: int) -> str:
        names = list(self.host.at)
        return names[k % len(names)]

    @rule(k=st.integers(0, 4), activity=st.sampled_from([None, *Activity]))
    def it_does(self, k: int, activity: Activity | None) -> None:
        self.host.does[self.one(k)] = activity

    @rule(k=st.integers(0, 4), movable=st.booleans())
    def may_move(self, k: int, movable: bool) -> None:
        self.host.movable[self.one(k)] = movable

    @rule(k=st.integers(0, 4))
    def it_dies(self, k: int) -> None:
        self.host.die(self.one(k))

    @rule(k=st.integers(0, 4))
    def it_sits_down(self, k: int) -> None:
        self.host.sit(self.one(k))

    @rule(k=st.integers(0, 4))
    def the_old_one_ends(self, k: int) -> None:
        self.host.end_old(self.one(k))

    @rule(seconds=st.sampled_from([0.1, SETTLED_S, CALM_S]))
    def time_passes(self, seconds: float) -> None:
        self.host.now_s += seconds
        self.host.tell()

    @rule(given=st.integers(0, 8))
    def slots_come_and_go(self, given: int) -> None:
        self.host.given = given

    @rule()
    def seats_change(self) -> None:
        before, free = self.host.seats.taken, self.host.given - self.host.redos
        for name in self.host.decide():
            assert len(self.host.at[name]) == 1, "it is between two seats already"
            if self.host.seats.seat(name) is OWN:
                assert self.host.seats.taken <= max(free, before), "there is a slot for whoever moves out"

    @invariant()
    def nobody_is_in_more_than_two_places(self) -> None:
        if hasattr(self, "host"):
            assert all(len(at) <= 2 and len(set(at)) == len(at) for at in self.host.at.values())

    def teardown(self) -> None:
        if not hasattr(self, "host"):
            return
        host = self.host
        host.given = max(host.given, len(host.at) + host.redos + 1)
        host.movable = dict.fromkeys(host.at, True)
        host.passes(2 * CALM_S)
        moves = host.moves
        host.passes(10 * CALM_S)
        assert host.moves == moves, "somebody moves for ever"
        assert all(at == [host.seats.seat(name)] for name, at in host.at.items()), "one without a place, or with two"
        idle = [name for name, activity in host.does.items() if activity is IDLES]
        shared = [name for name, at in host.at.items() if at == [SHARED]]
        if len(idle) >= 2:
            assert set(idle) <= set(shared)
        if len(shared) > 1:
            assert not [name for name in shared if host.does[name] is COMPUTES]


TestLives = Lives.TestCase
TestLives.settings = settings(max_examples=examples(100), stateful_step_count=30, deadline=None)


@pytest.mark.parametrize("count", [1, 3])
def test_who_is_gone_has_no_seat(count: int) -> None:
    seats = Seats({f"q{k}": True for k in range(count)}, True, 0)
    for k in range(count):
        seats.sat_down(f"q{k}", SHARED)
        seats.gone(f"q{k}")
    assert seats.taken == 0
    seats.told(0.0, "q0", 1, IDLES, True)
    assert seats.sharing == ()
