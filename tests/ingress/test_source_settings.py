"""What users set of a source while its app runs: partitions given up, silence expected, END; whoever copies obeys."""

from __future__ import annotations

import pytest

from borealis_py.ingress.source_settings import SourceSettings
from borealis_py.log.base import Feed, Record
from borealis_py.log.messages import EndOfSource, ExpectedSilence, PartitionSkip, encode
from borealis_py.simulation.log.network import cut_of
from sunion.model import FOREVER
from tests.ingress.worlds import TOPIC, TopicWorld, W

SOON_US = W + 30_000
"""How far an input that nothing holds up may lie behind the clock: a bucket, and the way to the log."""


def skip(world: TopicWorld, partition: int, skipped: bool = True) -> None:
    world.set(f"skip/orders/{partition}", PartitionSkip("a1", skipped))


def behind_us(world: TopicWorld, index: int) -> int:
    return world.now - world.copied(index).boundary


def after(found: SourceSettings, key: str, value: object) -> SourceSettings:
    raw = value if isinstance(value, bytes) else encode(value)  # type: ignore[type-var]
    return found.after("orders", "a1", Record(Feed("shop.settings"), 0, 0, key.encode(), raw))


def test_the_last_record_of_each_setting_counts() -> None:
    found = SourceSettings(2_000_000)
    found = after(found, "skip/orders/3", PartitionSkip("a1", True))
    found = after(found, "skip/orders/1", PartitionSkip("a1", True))
    found = after(found, "skip/orders/3", PartitionSkip("a1", False))
    found = after(found, "expect/orders", ExpectedSilence("a1", 500_000))
    assert found == SourceSettings(500_000, frozenset({1}), False)
    found = after(found, "expect/orders", ExpectedSilence("a1", None))
    assert after(found, "end/orders", EndOfSource("a1")) == SourceSettings(None, frozenset({1}), True)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("skip/orders2/1", PartitionSkip("a1", True)),  # another source
        ("skip/orders/1", PartitionSkip("a0", True)),  # another life
        ("end/orders", EndOfSource("a0")),
        ("expect/orders", ExpectedSilence("a0", 1)),
        ("end/orders/1", EndOfSource("a1")),  # no such settings
        ("threshold/orders", EndOfSource("a1")),
        ("skip/orders", PartitionSkip("a1", True)),
        ("skip/orders/-1", PartitionSkip("a1", True)),
        ("skip/orders/" + "9" * 5_000, PartitionSkip("a1", True)),
        ("expect/orders", b'{"app_uid":"a1","expect_us":0}'),
        ("expect/orders", b'{"app_uid":"a1"}'),
        ("end/orders", b"garbage"),
        ("end/orders", b""),
    ],
)
def test_what_is_no_setting_of_the_source_in_this_life_changes_nothing(key: str, value: object) -> None:
    before = SourceSettings(2_000_000, frozenset({7}))
    assert after(before, key, value) == before


def test_nothing_waits_for_a_partition_that_was_given_up_until_it_is_kept_again() -> None:
    world = TopicWorld(partitions=2)
    world.copying()
    world.memory.depose_partition(Feed(TOPIC, 0))
    world.run(2)
    assert behind_us(world, 0) > 1_900_000
    skip(world, 0)
    world.run(0.3)
    assert behind_us(world, 0) < SOON_US
    held = world.send(0)  # nobody can read it yet
    world.run(1)
    world.memory.elect_partition(Feed(TOPIC, 0))
    world.run(1)
    assert [reason.split(":")[0] for reason, _ in world.copied(0).letters] == ["late"]
    skip(world, 0, skipped=False)
    world.run(0.3)
    kept = world.send(0)
    world.run(0.3)
    assert [row["n"] for row in world.copied(0).rows] == [kept]
    assert kept != held
    world.memory.depose_partition(Feed(TOPIC, 0))
    world.run(2)
    assert behind_us(world, 0) > 1_900_000  # it is waited for again


def test_partitions_that_were_not_given_up_lose_nothing() -> None:
    world = TopicWorld(partitions=3, inputs=1, lateness_us=300_000)
    world.copying()
    world.memory.depose_partition(Feed(TOPIC, 0))
    skip(world, 0)
    world.memory.depose_partition(Feed(TOPIC, 1))
    world.run(1)
    held = [world.send(1, ago=250_000) for _ in range(3)]
    live = [world.send(2, ago=250_000) for _ in range(3)]
    world.run(2)
    world.memory.elect_partition(Feed(TOPIC, 1))
    world.run(1)
    assert sorted(world.numbers()) == sorted(held + live)
    assert world.copied().letters == []


def test_whoever_takes_over_and_whoever_starts_again_obeys_what_was_set() -> None:
    world = TopicWorld(partitions=2)
    first = world.copying("a")
    second = world.ingress("b", 1)
    world.memory.depose_partition(Feed(TOPIC, 0))
    skip(world, 0)
    world.run(1)
    first.kill()
    world.run(3)
    assert second.owner
    assert behind_us(world, 0) < SOON_US
    second.kill()
    world.run(1)
    first.start()
    world.run(3)
    assert first.owner
    assert behind_us(world, 0) < SOON_US


def test_what_was_promised_holds_although_a_successor_has_not_read_the_setting() -> None:
    """It waits for the partition until it has, and never takes a promise back."""
    world = TopicWorld(partitions=2)
    first, second = world.copying("a"), world.ingress("b", 1)
    world.run(0.5)
    cut = cut_of(["shop.settings"])
    world.memory.add_cut("b", cut)
    world.memory.depose_partition(Feed(TOPIC, 0))
    skip(world, 0)
    world.run(1.03)  # not at a bucket's end: whether that was promised yet would be chance
    first.kill()
    world.run(0.05)  # what it had sent has arrived
    promised = world.copied(0).boundary
    assert world.now - promised < SOON_US
    world.run(3)
    assert second.owner
    assert world.copied(0).boundary == promised
    world.memory.elect_partition(Feed(TOPIC, 0))
    world.run(0.3)
    live = world.send(0)
    world.run(0.2)
    assert [row["n"] for row in world.copied(0).rows] == [live]
    world.memory.depose_partition(Feed(TOPIC, 0))
    world.memory.heal("b", cut)
    world.run(3)
    assert behind_us(world, 0) < SOON_US


def test_a_topic_whose_partitions_were_all_given_up_is_not_waited_for_although_its_cluster_is_gone() -> None:
    world = TopicWorld(partitions=2)
    first, second = world.copying("a"), world.ingress("b", 1)
    world.run(0.5)
    for name in ("a", "b"):
        world.memory.add_cut(name, cut_of([TOPIC]))
    world.run(6)
    assert behind_us(world, 0) > 5_000_000
    skip(world, 0)
    world.run(2)
    assert behind_us(world, 1) > 5_000_000
    skip(world, 1)
    world.run(3)
    assert [behind_us(world, i) < SOON_US for i in (0, 1)] == [True, True]
    next(one for one in (first, second) if one.owner).kill()
    world.run(3)
    assert [behind_us(world, i) < SOON_US for i in (0, 1)] == [True, True]


def test_by_the_data_an_input_that_was_given_up_goes_with_the_others() -> None:
    world = TopicWorld(partitions=2, boundary="data", lateness_us=100_000)
    world.copying()
    world.send(0)
    world.send(1)
    world.run(1)
    world.send(1)
    world.run(0.2)
    before = world.copied(0).boundary
    assert world.copied(1).boundary > before
    skip(world, 0)
    world.run(0.7)
    assert world.copied(0).boundary == world.copied(1).boundary


@pytest.mark.parametrize("given_up", [True, False])
def test_a_backlog_of_a_partition_that_was_given_up_holds_up_no_other(given_up: bool) -> None:
    """Its old rows are late anyway; others with a backlog need not go in step with them."""
    world = TopicWorld(partitions=1)
    world.copying()
    if given_up:
        skip(world, 0)
    world.memory.depose_partition(Feed(TOPIC, 0))
    world.run(5)
    for n in range(10):
        world.send(0, ago=4_000_000 - n)
    fronts: list[int | None] = []
    world.catch_up.note = lambda key, front: fronts.append(front)  # type: ignore[method-assign]
    world.memory.elect_partition(Feed(TOPIC, 0))
    world.run(0.2)
    assert (len(world.copied().letters), len(world.copied().rows)) == ((10, 0) if given_up else (0, 10))
    assert any(front is not None for front in fronts) is not given_up


def test_silence_is_missing_once_it_is_expected_and_means_nothing_once_it_is_not() -> None:
    world = TopicWorld(partitions=1, lateness_us=100_000)
    world.copying()
    world.send(0)
    world.run(3)
    assert behind_us(world, 0) < SOON_US + 100_000
    world.set("expect/orders", ExpectedSilence("a1", 1_000_000))
    world.run(3)
    assert behind_us(world, 0) > 2_500_000
    late = world.send(0, ago=50_000)
    world.run(0.3)
    assert world.numbers()[-1] == late
    world.set("expect/orders", ExpectedSilence("a1", None))
    world.run(0.5)
    assert behind_us(world, 0) < SOON_US + 100_000


def ended(world: TopicWorld) -> list[bool]:
    return [world.copied(i).boundary == FOREVER for i in range(len(world.plan.targets))]


def test_a_source_that_ends_has_all_that_its_topic_held_and_nothing_after() -> None:
    world = TopicWorld(partitions=2)
    process, standby = world.copying("a"), world.ingress("b", 1)
    numbers = [world.send(p) for p in (0, 1) for _ in range(5)]
    world.set("end/orders", EndOfSource("a1"))
    world.run(1)
    assert ended(world) == [True, True]
    world.send(0)
    world.run(3)
    assert sorted(world.numbers()) == numbers
    assert (process.ended, standby.ended) == (True, True)
    assert "source 'orders' has ended" in process.errors[-1]
    again = world.ingress("c")
    world.run(3)
    assert again.ended
    assert sorted(world.numbers()) == numbers


def test_END_waits_for_what_cannot_be_read_until_that_is_given_up() -> None:
    world = TopicWorld(partitions=3)
    process = world.copying()
    world.memory.depose_partition(Feed(TOPIC, 1))
    world.memory.depose_partition(Feed(TOPIC, 2))
    world.run(0.5)
    held = world.send(1)
    world.set("end/orders", EndOfSource("a1"))
    world.run(3)
    assert ended(world) == [True, False, False]
    world.memory.elect_partition(Feed(TOPIC, 1))
    world.run(1)
    assert ended(world) == [True, True, False]
    assert [row["n"] for row in world.copied(1).rows] == [held]
    assert not process.ended
    skip(world, 2)
    world.run(1)
    assert ended(world) == [True, True, True]
    assert process.ended


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("by_value", [True, False])
def test_a_successor_ends_what_its_predecessor_began_to_end(by_value: bool, known: bool) -> None:
    """END in one input's log is enough, even where the setting cannot be read."""
    more = {"by": "shop", "values": ("berlin",), "inputs": 2} if by_value else {}
    world = TopicWorld(partitions=2, **more)
    first, second = world.copying("a"), world.ingress("b", 1)
    world.run(0.5)
    if not known:
        world.memory.add_cut("b", cut_of(["shop.settings"]))
    numbers = [world.send(p, shop=shop) for p in (0, 1) for shop in ("berlin", "rome")]
    world.run(0.5)
    assert first.session is not None
    inputs, second_input = first.session._inputs, world.plan.targets[1].feed
    append = inputs.append
    inputs.append = lambda record: None if record.feed == second_input else append(record)  # type: ignore[method-assign]
    numbers += [world.send(p, shop=shop) for p in (0, 1) for shop in ("berlin", "rome")]
    world.set("end/orders", EndOfSource("a1"))
    world.run(0.5)
    assert ended(world) == [True, False]
    first.kill()
    world.run(5)
    assert ended(world) == [True, True]
    assert sorted(world.numbers()) == numbers
    assert second.ended
