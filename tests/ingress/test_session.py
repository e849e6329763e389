"""An ingress on the simulated log: what it copies, what it promises, who takes over, and what can happen to a topic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import pytest
from structlog.testing import capture_logs

from borealis_py.ingress import catch_up
from borealis_py.ingress.session import IngressState
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.messages import PartitionSkip
from borealis_py.simulation.latency import Latencies, between
from borealis_py.simulation.log.network import CutDirection, cut_of
from tests.ingress.worlds import T0, TOPIC, TopicWorld, W


def test_rows_written_since_up_asked_for_the_ends_are_copied_however_late_the_first_ingress_starts() -> None:
    world = TopicWorld(partitions=2)
    before = [world.send(0), world.send(1), world.send(0)]
    world.plan = replace(world.plan, begin=(2,))  # a partition that was added since begins at its first record
    after = [world.send(0), world.send(1)]
    world.run(3)
    world.copying()
    later = world.send(0)
    world.run(0.5)
    assert sorted(world.numbers()) == [before[1], *after, later]
    assert [world.copied(i).at[i] for i in range(2)] == [4, 2]


def test_rows_are_copied_at_once_each_into_the_input_of_its_partition() -> None:
    world = TopicWorld(partitions=2)
    world.copying()
    world.send(0)
    world.send(1)
    world.run(0.01)
    assert [[row["n"] for row in world.copied(i).rows] for i in (0, 1)] == [[1], [2]]


def test_rows_of_a_busy_topic_share_records_and_none_waits_for_longer_than_100_ms_or_the_end_of_its_bucket() -> None:
    """Each record costs every replica a turn: at 450 rows a second they were 450 a second, then 50."""
    world = TopicWorld(partitions=1)
    world.copying()
    world.run(0.5 - (world.now - T0) % W / 1_000_000)
    world.send(0)
    world.run(0.015)
    assert world.numbers() == [1], "the first one goes at once"
    before = len(list(world.memory.committed(world.plan.targets[0].feed)))
    for _ in range(100):
        world.run(0.002)
        world.send(0)
        assert world.sent - len(world.numbers()) <= (100 + 20) // 2 + 2
        closed = [row for row in world.copied().rows if (row["bucket"] + 1) * W <= world.copied().boundary]
        assert [row["n"] for row in closed] == list(range(1, len(closed) + 1))
    world.run(0.1)
    assert world.numbers() == list(range(1, 102))
    assert world.copied().letters == []
    records = len(list(world.memory.committed(world.plan.targets[0].feed))) - before
    assert records <= 8, "10 a second, and the boundaries"


def test_an_idle_topic_is_promised_by_the_clock_at_each_buckets_end() -> None:
    world = TopicWorld(partitions=2)
    world.copying()
    world.run(2)
    assert all(world.now - world.copied(i).boundary <= W + 20_000 for i in (0, 1))


def test_the_boundary_lags_by_the_lateness_and_a_row_within_it_is_in_time() -> None:
    world = TopicWorld(partitions=1, lateness_us=500_000)
    world.copying()
    world.run(2)
    world.send(0, ago=400_000)
    world.run(0.1)
    assert 500_000 <= world.now - world.copied().boundary <= 500_000 + W + 20_000
    assert world.numbers() == [1]


def test_what_comes_later_is_a_dead_letter_that_says_how_late_it_was() -> None:
    world = TopicWorld(partitions=1)
    process = world.copying()
    world.run(1)
    world.send(0, ago=700_000)
    world.run(0.1)
    copied = world.copied()
    assert copied.rows == []
    assert copied.letters[0][0].startswith("late: stime")
    assert copied.late == 0  # its ingress refused it, not the fold
    assert process.session is not None
    assert process.session.counts.late == 1


def test_times_in_another_unit_are_dead_letters_that_say_so_and_so_does_the_owner() -> None:
    """They were late by 1.79e+09 s, and what to do about that was for people to find out."""
    world = TopicWorld(partitions=2)
    process = world.copying()
    seconds, told = T0 // 1_000_000, 'looks like seconds and is read as microseconds: set stime_unit="s"'
    with capture_logs() as logs:
        for _ in range(3):
            world.send(1, at=seconds)
            world.run(0.2)
    world.send(0, at=T0 * 1_000)
    world.send(0)
    world.run(0.2)
    assert [reason for reason, _ in world.copied(1).letters] == [f"{seconds} {told}"] * 3
    ((other, _),) = world.copied(0).letters
    assert other == f'{T0 * 1_000} looks like nanoseconds and is read as microseconds: set stime_unit="ns"'
    assert world.numbers() == [5]
    assert process.session is not None
    assert [one.misread[:10] for one in process.session.copied] == [str(T0 * 1_000)[:10], str(seconds)]
    assert [line["event"] for line in logs if "read wrong" in line["event"]] == [
        f"topic 'prod.orders': stimes seem to be read wrong: {seconds} {told}"
    ]


def test_a_row_over_a_minute_ahead_is_a_dead_letter_and_moves_nothing() -> None:
    world = TopicWorld(partitions=1)
    world.copying()
    world.send(0, ago=-61_000_000)
    world.run(0.2)
    world.send(0)
    world.run(0.2)
    assert world.copied().letters[0][0].startswith("future")
    assert world.numbers() == [2]


@pytest.mark.parametrize("boots", [False, True])
@pytest.mark.parametrize("back_s", [1, 3_600, 365 * 86_400])
def test_of_a_clock_that_is_set_back_rows_wait_and_none_is_in_the_future(back_s: int, boots: bool) -> None:
    world = TopicWorld(partitions=1)
    process = world.copying()
    process.set_clock(-back_s * 1_000_000)
    if boots:
        process.kill()
        process.start()
    for _ in range(20):
        world.send(0)
        world.run(5)
    assert boots or len(world.numbers()) < world.sent or back_s == 1
    process.set_clock(0)
    world.run(5)
    assert world.numbers() == list(range(1, world.sent + 1))
    assert world.copied().letters == []


def test_bad_values_are_dead_letters_with_what_they_were() -> None:
    world = TopicWorld(partitions=1)
    world.copying()
    world.write(0, b"garbage")
    world.send(0)
    world.write(0, None)
    world.write(0, b'{"n":1}')
    world.run(0.1)
    copied = world.copied()
    assert [reason.split(":")[0] for reason, _ in copied.letters] == ["malformed", "no value", "stime missing"]
    assert copied.letters[0][1] == b"garbage"
    assert world.numbers() == [1]


def test_a_standby_takes_over_a_second_after_the_owner_was_killed_and_goes_on_exactly_there() -> None:
    world = TopicWorld(partitions=2)
    first, second = world.copying("a"), world.ingress("b", 1)
    for n in range(200):
        world.send(n % 2)
        world.run(0.01)
        if n == 100:
            first.kill()
            killed = world.now
    while not second.owner:
        world.run(0.01)
        assert world.now - killed < 3_000_000
    assert world.now - killed > 1_000_000
    world.run(0.5)
    assert sorted(world.numbers()) == list(range(1, 201))
    assert [world.copied(i).letters for i in (0, 1)] == [[], []]


def test_a_standby_does_not_take_over_from_an_owner_that_lives() -> None:
    world = TopicWorld(partitions=2)
    world.copying("a")
    second = world.ingress("b", 1)
    world.run(20)
    assert not second.owner
    world.memory.depose_partition(Feed(TOPIC, 0))  # it can promise nothing for one input, and says that it lives
    world.run(20)
    assert not second.owner


def test_an_owner_that_wakes_up_after_its_successor_took_over_writes_nothing_that_counts_and_stands_by() -> None:
    world = TopicWorld(partitions=1)
    first, second = world.copying("a"), world.ingress("b", 1)
    first.pause()
    world.run(2)
    assert second.owner
    world.send(0)
    first.resume()
    world.run(0.5)
    assert second.owner
    assert not first.owner
    assert world.numbers() == [1]
    second.kill()
    world.run(3)
    assert first.owner
    world.send(0)
    world.run(0.2)
    assert world.numbers() == [1, 2]


def test_what_an_owner_wrote_just_before_the_claim_of_its_successor_is_not_copied_again() -> None:
    world = TopicWorld(partitions=2)
    first = world.copying("a")
    for p in (0, 1):
        world.send(p)
    world.run(0.5)
    second = world.ingress("b")
    world.run(0.2)
    first.pause()
    for p in (0, 1):
        world.send(p)
    world.memory.set_delays("b", Latencies(append=between(60_000, 61_000)))  # its claims are long on their way
    assert second.session is not None
    while second.session.state is IngressState.STANDBY:
        world.run(0.002)
    first.resume()
    world.run(1)
    for p in (0, 1):
        world.send(p)
    world.run(1)
    assert sorted(world.numbers()) == [1, 2, 3, 4, 5, 6]
    assert second.owner
    assert not first.owner


def test_an_owner_that_cannot_learn_the_ends_falls_silent_and_another_takes_over() -> None:
    world = TopicWorld(partitions=1)
    first, second = world.copying("a"), world.ingress("b", 1)
    world.memory.cut("a", [TOPIC])
    world.send(0)
    world.run(5)
    assert second.owner
    assert not first.owner
    assert world.numbers() == [1]


def test_nobody_takes_over_who_could_not_do_better() -> None:
    world = TopicWorld(partitions=1)
    first, second = world.copying("a"), world.ingress("b", 1)
    for name in "ab":
        world.memory.cut(name, [TOPIC])
    world.run(10)
    assert (first.owner, second.owner) == (True, False)
    boundary = world.copied().boundary
    for name in "ab":
        world.memory.heal(name)
    world.run(1)
    assert world.copied().boundary > boundary
    assert world.numbers() == []


@pytest.mark.parametrize("given_up", [False, True])
def test_an_owner_that_hears_nothing_of_its_own_falls_silent_whatever_its_clock_says(given_up: bool) -> None:
    world = TopicWorld(partitions=2)
    first = world.copying("a")
    if given_up:
        for p in (0, 1):
            world.set(f"skip/orders/{p}", PartitionSkip("a1", True))
    world.run(2)
    world.memory.add_cut("a", deaf := cut_of(None, CutDirection.IN))
    world.run(4)
    promised = [world.copied(p).boundary for p in (0, 1)]
    assert all(boundary < world.now - 1_500_000 for boundary in promised)
    assert first.session is not None
    world.run(2)
    assert [world.copied(p).boundary for p in (0, 1)] == promised
    if given_up:
        assert first.session.silent == "what it writes itself cannot be read back"
        world.set("skip/orders/0", PartitionSkip("a1", False))
    world.send(0)
    world.memory.heal("a", deaf)
    world.run(1)
    assert first.session.silent == ""
    assert world.now - world.copied(0).boundary < 3 * W
    assert world.numbers() == [1]


def test_the_successor_of_an_owner_that_hears_nothing_obeys_what_users_set_since() -> None:
    world = TopicWorld(partitions=1)
    world.copying("a")
    second = world.ingress("b", 1)
    world.set("skip/orders/0", PartitionSkip("a1", True))
    world.run(2)
    world.memory.add_cut("a", cut_of(None, CutDirection.IN))
    world.run(1)
    world.set("skip/orders/0", PartitionSkip("a1", False))
    world.run(4)
    assert second.owner
    assert second.session is not None
    assert not second.session.settings.skipped
    world.send(0)
    world.run(1)
    assert world.numbers() == [1]


def test_a_partition_without_leader_is_missing_and_what_it_brings_later_is_not_late() -> None:
    world = TopicWorld(partitions=2)
    process = world.copying()
    world.run(1)
    world.memory.depose_partition(Feed(TOPIC, 0))
    world.send(0)
    world.run(5)
    assert world.now - world.copied(0).boundary > 4_900_000
    assert world.now - world.copied(1).boundary < 3 * W
    assert process.session is not None
    assert process.session.missing == (0,)
    world.memory.elect_partition(Feed(TOPIC, 0))
    world.run(0.5)
    assert world.numbers() == [1]
    assert world.now - world.copied(0).boundary < 3 * W
    assert process.session.missing == ()


def test_an_open_transaction_holds_the_boundary_and_its_rows_are_not_late() -> None:
    world = TopicWorld(partitions=1)
    world.copying()
    world.run(1)
    broker = world.memory.broker
    epoch = broker.init_producer("t")
    row = b'{"n":7,"at":%d}' % world.now
    broker.write("t", epoch, [NewRecord(Feed(TOPIC), row)])
    world.run(3)
    assert world.now - world.copied().boundary > 2_900_000
    broker.commit("t", epoch)
    world.run(0.3)
    assert world.numbers() == [7]
    assert world.now - world.copied().boundary < 3 * W
    broker.write("t", epoch, [NewRecord(Feed(TOPIC), row)])
    broker.abort("t", epoch)
    world.run(0.3)
    assert world.numbers() == [7]
    assert world.now - world.copied().boundary < 3 * W


def test_rows_of_a_value_go_to_its_input_and_others_to_the_last() -> None:
    world = TopicWorld(partitions=2, by="shop", values=("berlin", "paris"), inputs=3)
    world.copying()
    for p in (0, 1):
        for shop in ("berlin", "paris", "rome", None):
            world.send(p, shop=shop)
        world.write(p, b"?")
    world.run(0.2)
    assert [sorted(row["n"] for row in world.copied(i).rows) for i in range(3)] == [[1, 5], [2, 6], [3, 4, 7, 8]]
    assert [len(world.copied(i).letters) for i in range(3)] == [0, 0, 2]
    assert all(world.copied(i).at == {0: 5, 1: 5} for i in range(3))


@pytest.mark.parametrize("seed", range(8))
def test_inputs_that_share_partitions_go_on_each_where_its_own_log_ends(seed: int) -> None:
    world = TopicWorld(partitions=2, seed=seed, by="shop", values=("berlin", "paris"), inputs=3)
    first = world.copying("a")
    for n in range(60):
        world.send(n % 2, shop=("berlin", "paris", "rome")[n % 3])
        world.run(0.0003)
    first.kill()  # a part of what is on its way arrives, of each input another one
    world.run(0.1)
    ends = [world.copied(i).at for i in range(3)]
    world.ingress("b")
    world.run(2)
    assert sorted(world.numbers()) == list(range(1, 61))
    assert [world.copied(i).at for i in range(3)] == [{0: 30, 1: 30}] * 3
    assert all(end != {0: 30, 1: 30} for end in ends)  # or nothing was left to do


def test_bad_records_of_partitions_that_are_copied_again_for_another_input_are_dead_letters_once() -> None:
    again = 0
    for seed in range(8):
        world = TopicWorld(partitions=1, seed=seed, by="shop", values=("berlin", "paris"), inputs=3)
        world.memory.set_delays("a", Latencies(append=between(1_000, 120_000)))
        first = world.copying("a")
        bad = [b"no row %d" % n for n in range(20)]
        for n, value in enumerate(bad):
            world.send(0, shop=("berlin", "paris", "rome")[n % 3])
            world.write(0, value)
            world.run(0.015)
        first.kill()
        world.run(0.2)
        ends = [world.copied(i).at[0] for i in range(3)]
        again += ends[2] > min(ends)
        world.ingress("b")
        world.run(2)
        assert sorted(world.numbers()) == list(range(1, 21))
        assert sorted(raw for _, raw in world.copied(2).letters) == sorted(bad), seed
    assert again, "nothing was copied again"


def test_silence_is_missing_where_something_is_expected_and_nothing_is_late_afterwards() -> None:
    world = TopicWorld(partitions=2, expect_us=1_000_000)
    world.copying()
    for _ in range(30):
        world.send(0)
        world.send(1)
        world.run(0.05)
    kept = world.now
    for _ in range(100):
        world.send(1)
        world.run(0.05)
    assert world.copied(0).boundary <= kept
    assert world.now - world.copied(1).boundary < 4 * W
    number = world.send(0, ago=world.now - kept)
    world.run(0.2)
    assert number in world.numbers()


def test_by_the_data_only_rows_move_the_boundary() -> None:
    world = TopicWorld(partitions=1, boundary="data")
    world.copying()
    world.run(1)
    world.send(0)
    world.run(0.2)
    boundary = world.copied().boundary
    assert world.now - 2 * W - 200_000 < boundary <= world.now - 200_000
    world.run(2)
    assert world.copied().boundary == boundary


@mock.patch.object(catch_up, "STEP_US", catch_up.AHEAD_US)  # however few rows there are
def test_a_backlog_of_uneven_partitions_is_copied_in_step() -> None:
    world = TopicWorld(partitions=3, start="earliest")
    for second in range(60):
        for p in range(3):
            for n in range((1, 5, 20)[p]):
                world.send(p, ago=-(second * 1_000_000 + n * 40_000))
    world.run(61)
    world.ingress()
    spread, began = [], world.now
    while len(world.numbers()) < world.sent:
        world.run(0.005)
        # Each step waits until what was written before comes back, and no longer.
        assert world.now - began < 1_000_000
        tops = [max((row["at"] for row in world.copied(i).rows), default=T0) for i in range(3)]
        spread.append(max(tops) - min(tops))
    assert max(spread) <= 3_000_000
    assert any(spread)
    assert sorted(world.numbers()) == list(range(1, world.sent + 1))
    assert all(world.copied(i).letters == [] for i in range(3))


@pytest.mark.parametrize("size", [300_000, 900_000])
def test_large_rows_are_split_over_records(size: int) -> None:
    world = TopicWorld(partitions=1)
    world.copying()
    for _ in range(5):
        world.send(0, shop="x" * size)
    world.run(0.5)
    assert world.numbers() == [1, 2, 3, 4, 5]
    assert world.copied().at == {0: 5}


@pytest.mark.parametrize("after_ms", range(54, 84))
def test_a_first_start_that_ends_in_the_middle_of_positioning_loses_and_doubles_nothing(after_ms: int) -> None:
    for seed in range(4):
        world = TopicWorld(partitions=3, seed=seed)
        sent = [[world.send(p)] for p in range(3)]
        process = world.ingress("a")
        for n in range(after_ms):
            world.run(0.001)
            sent[n % 3].append(world.send(n % 3))
        process.kill()
        world.run(0.1)
        world.ingress("b")
        world.run(1.5)
        for p in range(3):
            sent[p].append(world.send(p))
        world.run(1)
        for p in range(3):  # all from somewhere on, and not from the beginning
            numbers = [row["n"] for row in world.copied(p).rows]
            assert numbers == sent[p][-len(numbers) :]
            assert 0 < len(numbers) < len(sent[p])


def test_an_owner_of_wide_buckets_keeps_its_inputs() -> None:
    world = TopicWorld(partitions=1, width_us=10_000_000)
    first, second = world.copying("a"), world.ingress("b", 1)
    world.run(30)
    assert first.owner
    assert not second.owner


def test_no_record_holds_more_than_readers_take_where_rows_must_be_small() -> None:
    world = TopicWorld(partitions=1, row_max_bytes=200, start="earliest")
    for _ in range(1_000):
        world.send(0, shop="x" * 100)
    world.copying()
    assert world.copied().letters == []
    assert world.numbers() == list(range(1, 1_001))


def test_inputs_of_which_only_some_were_told_where_to_begin_all_begin_there() -> None:
    world = TopicWorld(partitions=1, by="shop", values=("berlin", "paris"), inputs=3)
    world.send(0)
    first = world.ingress("a")
    while first.session is None or first.session.state is not IngressState.POSITIONING:
        world.run(0.0005)
    world.memory.depose_partition(Feed("shop.orders", 1))
    world.run(0.3)
    assert [world.copied(i).at for i in range(3)] == [{}, {0: 1}, {0: 1}]
    first.kill()
    for shop in ("berlin", "paris", "rome"):
        world.send(0, shop=shop)
    world.memory.elect_partition(Feed("shop.orders", 1))
    world.ingress("b")
    world.run(3)
    assert sorted(row["n"] for i in range(3) for row in world.copied(i).rows) == [2, 3, 4]


BY_SHOP: dict[str, Any] = {"by": "shop", "values": ("berlin", "paris"), "inputs": 3, "expect_us": 1_000_000}


def behind_us(world: TopicWorld, index: int) -> int:
    return world.now - world.copied(index).boundary


def fed(world: TopicWorld, seconds: float, *shops: str) -> None:
    """A row of each shop every 100 ms."""
    for _ in range(round(seconds * 10)):
        for shop in shops:
            world.send(0, shop=shop)
        world.run(0.1)


def test_values_that_nobody_has_named_are_expected_only_once_one_has_come() -> None:
    """Else an app that lists all its devices would never have a corrected row."""
    world = TopicWorld(partitions=1, **BY_SHOP)
    world.copying()
    fed(world, 3, "berlin", "paris")
    assert [behind_us(world, i) < 400_000 for i in range(3)] == [True, True, True]
    fed(world, 3, "berlin", "paris", "rome")
    assert [behind_us(world, i) < 400_000 for i in range(3)] == [True, True, True]
    fed(world, 3, "berlin", "paris")
    assert [behind_us(world, i) < 400_000 for i in range(3)] == [True, True, False]


def test_a_successor_knows_that_a_value_that_nobody_has_named_has_come() -> None:
    for spoken in (False, True):
        world = TopicWorld(partitions=1, **BY_SHOP)
        first = world.copying()
        fed(world, 1, "berlin", "paris", *(["rome"] if spoken else []))
        first.kill()
        world.ingress("b")
        fed(world, 5, "berlin", "paris")
        assert [behind_us(world, i) < 400_000 for i in range(3)] == [True, True, not spoken]
        assert sorted(world.numbers()) == list(range(1, world.sent + 1))


def test_where_there_are_no_other_values_a_record_with_one_is_a_dead_letter() -> None:
    world = TopicWorld(partitions=1, **{**BY_SHOP, "inputs": 2, "other": False})
    world.copying()
    fed(world, 1, "berlin", "paris")
    world.send(0, shop="rome")
    world.send(0, shop=None)
    fed(world, 3, "berlin", "paris")
    assert [behind_us(world, i) < 400_000 for i in range(2)] == [True, True]
    assert [reason for reason, _ in world.copied(1).letters] == [
        f"malformed: column 'shop' is {value}, which values= does not name: add it, or leave other=False out"
        for value in ("'rome'", "null")
    ]
    assert len(world.numbers()) == world.sent - 2
