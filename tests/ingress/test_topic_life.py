"""What happens to a topic, and what its ingress makes of that: where copying begins, what is lost, what is new."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, cast

import pytest

from borealis_py.ingress.foreign_topic import ForeignTopic
from borealis_py.log.base import Feed, TopicSpec, Wake
from borealis_py.log.foreign import ForeignLog, Told, TopicFound
from borealis_py.simulation.latency import Latencies, between
from tests.ingress.worlds import TOPIC, TopicWorld, W


def test_what_retention_took_unread_is_named() -> None:
    world = TopicWorld(partitions=2)
    process = world.copying()
    world.memory.cut("a", [TOPIC])
    for _ in range(5):
        world.send(0)
    world.memory.delete_before(Feed(TOPIC), 3)
    world.memory.heal("a")
    world.run(1)
    assert world.numbers() == [4, 5]
    assert [reason for reason, _ in world.copied(0).letters] == [
        f"lost: {TOPIC}[0], offsets 0 to 2: retention deleted them unread"
    ]
    assert process.session is not None
    assert process.session.counts.lost == 3


def test_a_topic_made_again_is_named_and_copied_from_its_beginning() -> None:
    world = TopicWorld(partitions=1)
    world.copying()
    world.run(0.5)
    for _ in range(3):
        world.send(0)
    world.run(0.5)
    world.admin.delete([TOPIC])
    world.run(3)
    world.admin.create([TopicSpec(TOPIC, 1)])
    world.send(0)
    world.run(2)
    assert world.numbers() == [1, 2, 3, 4]
    (reason,) = [reason for reason, _ in world.copied().letters]
    assert reason.startswith("made again: prod.orders[0] has another id in Kafka, offset 3 was next")
    assert world.copied().at == {0: 1}


def test_partitions_that_a_topic_gets_later_join_the_inputs_from_their_beginning() -> None:
    world = TopicWorld(partitions=2)
    world.copying()
    world.memory.broker.grow(TOPIC, 3)
    world.send(2)
    world.run(6)
    world.send(2)
    world.run(0.2)
    assert [[row["n"] for row in world.copied(i).rows] for i in (0, 1)] == [[1, 2], []]
    assert world.copied(0).at == {0: 0, 2: 2}
    assert world.copied(1).at == {1: 0}


def test_a_topic_that_does_not_exist_yet_is_copied_from_its_beginning_once_it_does() -> None:
    world = TopicWorld(partitions=0)
    world.ingress()
    world.run(3)
    world.admin.create([TopicSpec(TOPIC, 1)])
    world.send(0)
    world.run(2)
    assert world.numbers() == [1]
    assert world.now - world.copied().boundary < 3 * W


@pytest.mark.parametrize("after_ms", range(0, 100, 15))
def test_a_row_in_a_partition_that_nobody_knows_of_yet_is_not_late(after_ms: int) -> None:
    world = TopicWorld(partitions=1, lateness_us=200_000)
    world.memory.set_delays("a", Latencies(ends=between(60_000, 61_000)))
    world.copying()
    world.run(0.3 + after_ms / 1_000)
    world.memory.broker.grow(TOPIC, 2)
    world.send(1, ago=200_000)
    for _ in range(150):
        world.send(0)
        world.run(0.002)
    world.run(0.5)
    assert world.copied().letters == []
    assert sorted(world.numbers()) == list(range(1, world.sent + 1))


def test_a_new_app_starts_at_the_end_or_at_the_beginning() -> None:
    for start, expected in (("latest", [3]), ("earliest", [1, 2, 3])):
        world = TopicWorld(partitions=1, start=start)
        world.send(0)
        world.send(0)
        world.memory.delete_before(Feed(TOPIC), 0)
        world.copying()
        world.send(0)
        world.run(0.1)
        assert world.numbers() == expected
        assert world.copied().letters == []


def test_the_beginning_is_what_retention_has_left_and_that_is_no_loss() -> None:
    world = TopicWorld(partitions=1, start="earliest")
    world.send(0)
    world.send(0)
    world.memory.delete_before(Feed(TOPIC), 1)
    world.copying()
    assert world.numbers() == [2]
    assert world.copied().letters == []


def test_a_gap_of_an_hour_in_the_data_is_no_future() -> None:
    world = TopicWorld(partitions=1, start="earliest")
    world.send(0)
    world.send(0, ago=-3_600_000_000)
    world.run(3_601)
    world.copying()
    world.run(0.2)
    assert world.numbers() == [1, 2]
    assert world.copied().letters == []


@pytest.mark.parametrize("seed", range(6))
def test_an_owner_that_ends_soon_after_a_topic_has_grown_leaves_nothing_out(seed: int) -> None:
    for after_ms in range(0, 200, 3):
        world = TopicWorld(partitions=1, seed=seed, by="shop", values=("berlin", "paris"), inputs=3)
        first = world.copying("a")
        world.memory.broker.grow(TOPIC, 2)
        for n in range(30):
            world.send(1, shop=("berlin", "paris", "rome")[n % 3])
        world.run(after_ms / 1_000)
        first.kill()  # perhaps only some inputs' logs know of the new partition
        world.run(0.1)
        world.ingress("b")
        world.run(2)
        assert sorted(world.numbers()) == list(range(1, 31)), after_ms


@pytest.mark.parametrize("seed", range(4))
def test_an_owner_that_ends_soon_after_a_topic_was_made_again_leaves_nothing_out_of_inputs_that_share_it(
    seed: int,
) -> None:
    for after_ms in range(0, 120, 2):
        world = TopicWorld(partitions=1, seed=seed, by="shop", values=("berlin", "paris"), inputs=3)
        first = world.copying("a")
        old = [world.send(0, shop=("berlin", "paris", "rome")[n % 3]) for n in range(60)]
        world.run(1)
        world.admin.delete([TOPIC])
        world.admin.create([TopicSpec(TOPIC, 1)])
        new = [world.send(0, shop=("berlin", "paris", "rome")[n % 3]) for n in range(30)]
        world.run(after_ms / 1_000)
        first.kill()  # perhaps only some inputs' logs tell that it begins anew
        world.run(0.1)
        world.ingress("b")
        world.run(2)
        assert sorted(world.numbers()) == old + new, after_ms
        letters = [reason for i in range(3) for reason, _ in world.copied(i).letters]
        assert [reason.split(":")[0] for reason in letters] == ["made again"], after_ms
        assert all(world.copied(i).at == {0: 30} for i in range(3))


def test_an_owner_keeps_its_inputs_while_the_topic_is_gone_unless_another_can_see_it_and_it_cannot() -> None:
    for partitions in (0, 1):
        world = TopicWorld(partitions=partitions)
        first, second = world.copying("a"), world.ingress("b", 1)
        if partitions:
            world.admin.delete([TOPIC])
        world.run(10)
        assert (first.owner, second.owner) == (True, False)
        world.memory.cut("a", [TOPIC])
        world.run(5)
        world.memory.heal("a")
        world.run(5)
        assert (first.owner, second.owner) == (False, True)
        world.admin.create([TopicSpec(TOPIC, 1)])
        world.send(0)
        world.run(2)
        assert world.numbers() == [1]


def test_an_owner_that_cannot_find_out_where_to_begin_makes_way_for_one_that_can() -> None:
    world = TopicWorld(partitions=2)
    world.memory.depose_partition(Feed(TOPIC))
    first = world.ingress("a")
    world.run(1)
    assert first.owner
    second = world.ingress("b", 1)
    world.memory.cut("a", [TOPIC])
    world.memory.elect_partition(Feed(TOPIC))
    world.run(5)
    world.send(0)
    world.run(0.2)
    assert (first.owner, second.owner) == (False, True)
    assert world.numbers() == [1]


@pytest.mark.parametrize("more", [{"inputs": 1}, {"inputs": 2}, {"by": "shop", "values": ("berlin",), "inputs": 2}])
def test_a_topic_that_came_while_nobody_copied_is_copied_from_its_beginning_if_it_was_absent(
    more: dict[str, object],
) -> None:
    world = TopicWorld(partitions=0, **more)
    first = world.copying("a")
    first.kill()
    world.admin.create([TopicSpec(TOPIC, 2)])
    for n in range(8):
        world.send(n % 2, shop=("berlin", "rome")[n // 2 % 2])
    world.ingress("b")
    world.run(3)
    assert sorted(world.numbers()) == list(range(1, 9))
    for i in range(len(world.plan.targets)):
        assert world.copied(i).letters == []
        assert world.now - world.copied(i).boundary < 3 * W


@pytest.mark.parametrize("more", [{"by": "shop", "values": ("berlin",), "inputs": 2}, {"inputs": 2}])
def test_a_topic_made_again_with_fewer_partitions_holds_up_no_input(more: dict[str, object]) -> None:
    world = TopicWorld(partitions=3, **more)
    world.copying()
    for p in range(3):
        world.send(p)
        world.send(p)
    world.run(1)
    world.admin.delete([TOPIC])
    world.admin.create([TopicSpec(TOPIC, 1)])
    world.send(0)
    world.run(9)
    assert world.now - world.copied(1).boundary > 8_000_000  # a broker may not know of all partitions yet
    world.run(9)
    for i in range(2):
        assert world.now - world.copied(i).boundary < 3 * W
    world.memory.broker.grow(TOPIC, 3)
    world.send(2)
    world.run(8)
    world.send(1)
    world.send(2)
    world.run(1)
    assert sorted(world.numbers()) == list(range(1, 11))
    letters = [reason for i in range(2) for reason, _ in world.copied(i).letters]
    assert [reason.split(":")[0] for reason in letters] == ["made again"] * 3


def sold(world: TopicWorld, count: int, partitions: int) -> None:
    """So many rows, from partition to partition, of both inputs that a topic by shop has."""
    for n in range(count):
        world.send(n % partitions, shop="berlin" if n // partitions % 2 else "paris")


def made_again(world: TopicWorld, partitions: int) -> None:
    world.admin.delete([TOPIC])
    world.admin.create([TopicSpec(TOPIC, partitions)])


def refilled_while_down(world: TopicWorld, partitions: int, sent: int) -> None:
    """After six rows were copied the ingress is killed, and the topic made again with so many rows."""
    process = world.copying()
    sold(world, 6, partitions)
    world.run(1)
    process.kill()
    made_again(world, partitions)
    sold(world, sent, partitions)


@pytest.mark.parametrize("more", [{}, {"by": "shop", "values": ("berlin",), "inputs": 2}])
@pytest.mark.parametrize("sent", [2, 3, 8])
def test_a_topic_made_again_and_refilled_while_nobody_reads_it_is_copied_from_its_beginning(
    sent: int, more: dict[str, Any]
) -> None:
    """By its end it cannot be told from the topic that was read: its id in Kafka is another one."""
    world = TopicWorld(partitions=2, **more)
    refilled_while_down(world, 2, 2 * sent)
    world.ingress("b")
    world.run(4)
    assert sorted(world.numbers()) == list(range(1, 7 + 2 * sent))
    reasons = [reason for i in range(len(world.plan.targets)) for reason, _ in world.copied(i).letters]
    assert sorted(reasons) == [
        f"made again: {TOPIC}[{p}] has another id in Kafka, offset 3 was next: the topic was deleted and created "
        "again, and is copied from its beginning"
        for p in (0, 1)
    ]


@pytest.mark.parametrize("more", [{}, {"by": "shop", "values": ("berlin",), "inputs": 2}], ids=["apart", "shared"])
def test_what_retention_took_of_a_topic_made_again_is_lost_from_its_beginning(more: dict[str, Any]) -> None:
    world = TopicWorld(partitions=1, **more)
    refilled_while_down(world, 1, 8)
    world.memory.delete_before(Feed(TOPIC), 8)
    sold(world, 2, 1)
    world.ingress("b")
    world.run(4)
    assert sorted(world.numbers()) == [*range(1, 7), 15, 16]
    letters = [sorted(reason for reason, _ in world.copied(i).letters) for i in range(len(world.plan.targets))]
    lost = f"lost: {TOPIC}[0], offsets 0 to 7: retention deleted them unread"
    assert all(lost in of for of in letters)
    assert sum(len(of) for of in letters) == len(letters) + 1


def test_a_topic_made_again_and_refilled_while_it_is_read_is_copied_from_its_beginning() -> None:
    world = TopicWorld(partitions=1)
    world.copying()
    for _ in range(3):
        world.send(0)
    world.run(1)
    world.memory.cut("a", [TOPIC])
    world.run(2)
    made_again(world, 1)
    for _ in range(4):
        world.send(0)
    world.memory.heal("a")
    world.run(3)
    assert world.numbers() == list(range(1, 8))
    assert [reason.split(",")[0] for reason, _ in world.copied().letters] == [
        f"made again: {TOPIC}[0] has another id in Kafka"
    ]
    world.run(1)
    world.send(0)
    world.run(1)
    assert world.numbers() == list(range(1, 9))


def test_whoever_takes_over_right_after_that_copies_no_row_twice_and_loses_none() -> None:
    """At any moment between the first look at the other topic and its first rows."""
    for after_ms in range(0, 300, 6):
        world = TopicWorld(partitions=3, by="shop", values=("berlin",), inputs=2)
        process = world.copying()
        sold(world, 9, 3)
        world.run(1)
        process.kill()
        made_again(world, 3)
        sold(world, 12, 3)
        second = world.ingress("b")
        world.run(1 + after_ms / 1_000)
        second.kill()
        world.ingress("c")
        world.run(4)
        assert sorted(world.numbers()) == list(range(1, 22)), after_ms


def test_what_is_in_a_topic_made_again_is_not_late_whenever_its_end_was_asked_for() -> None:
    """An end is asked for of one topic and told of the other, which has as much by chance: nothing may be promised by
    it that has not been read."""
    for after_us in range(0, 120_000, 1_500):
        world = TopicWorld(partitions=1)
        world.copying()
        old = [world.send(0) for _ in range(3)]
        world.run(0.2 + after_us / 1_000_000)
        world.admin.delete([TOPIC])
        world.run(0.02)
        world.admin.create([TopicSpec(TOPIC, 1)])
        rows = [world.send(0) for _ in range(3)]
        world.run(2)
        assert world.numbers() == old + rows, after_us
        assert [reason.split(":")[0] for reason, _ in world.copied().letters] == ["made again"], after_us


@dataclass
class Answers:
    """What the log says of the topic, at once: a `ForeignLog` and its parts, whose reader has nothing to tell."""

    ends: dict[int, Told]
    more: bool = False

    def topic_watch(self, topic: str, wake: Wake) -> Answers:
        return self

    def reader(self, wake: Wake) -> Answers:
        return self

    def ask_partitions(self, ahead: bool = False) -> Any:
        return SimpleNamespace(poll=lambda: TopicFound(len(self.ends), "t1"))

    def ask_ends(self, partitions: Sequence[int]) -> Any:
        return SimpleNamespace(poll=lambda: self.ends)

    def open(self, feed: Feed, offset: int) -> None: ...

    def stop(self, feed: Feed) -> None: ...

    def close(self) -> None: ...


def test_an_end_below_what_had_been_read_is_that_of_another_topic() -> None:
    """The id that was told just before was still that of the one that was read, and the reader has not noticed."""
    answers = Answers({0: Told(1, 1), 1: Told(3, 3)})
    topic = ForeignTopic(cast(ForeignLog, answers), TOPIC, lambda: None)
    topic.look(0)
    for p in answers.ends:
        topic.open(p, 3, 0)
    topic.ask_ends(0)
    assert topic.look(1)
    assert topic.ends == {0: Told(None, None), 1: Told(3, 3)}
