"""What an ingress relies on, of a cluster whose topics other programs write (`borealis_py/log/foreign.py`)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from importlib import import_module
from typing import Protocol, cast

import pytest

from borealis_py.kafka.clients import KafkaClients
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Feed, LogError, NewRecord, OffsetBeyond, OffsetGone, Reader, TopicSpec
from borealis_py.log.foreign import ForeignLog, PartitionsQuery, Told, ToldQuery, TopicFound
from tests.contract.steps import fill, opened, read_until, take_over, values
from tests.contract.worlds import LogWorld

CLUSTERS = [
    pytest.param("tests.contract.worlds:MemoryWorld", id="memory"),
    pytest.param("tests.contract.kafka_world:KafkaWorld", id="kafka", marks=pytest.mark.broker),
]


class ForeignLogWorld(LogWorld, Protocol):
    """A log under test that can grow topics. `shared`: ends what its clients share."""

    shared: ExitStack

    def grow(self, topic: str, partitions: int) -> None: ...


@pytest.fixture(params=CLUSTERS)
def world(request: pytest.FixtureRequest) -> Iterator[ForeignLogWorld]:
    module, name = request.param.split(":")
    kind = getattr(import_module(module), name)
    made = kind(*(request.getfixturevalue(needed) for needed in kind.FIXTURES))
    with ExitStack() as shared:
        made.shared = shared
        yield made
    made.close()


def cluster(world: ForeignLogWorld, client: str = "a") -> ForeignLog:
    """As an ingress process has it."""
    log = world.log(client)
    if not isinstance(log, KafkaLog):
        return cast(ForeignLog, log)
    clients = KafkaClients(log)
    world.shared.callback(clients.close)
    return clients


def refused(world: ForeignLogWorld, reader: Reader) -> LogError:
    """Poll until that is an error, and return it."""
    errors: list[LogError] = []

    def came() -> bool:
        try:
            reader.poll()
        except LogError as exc:
            errors.append(exc)
        return bool(errors)

    world.until(came)
    return errors[0]


def test_a_topic_tells_how_many_partitions_it_has_also_after_it_grew(world: ForeignLogWorld) -> None:
    topic = world.make_topic(2)
    watch = cluster(world).topic_watch(topic, world.wake)
    query = watch.ask_partitions()
    made = world.until(lambda: query.poll())
    assert made.partitions == 2
    assert made.topic_id
    world.grow(topic, 3)

    def three() -> bool:
        again = watch.ask_partitions()
        return world.until(lambda: again.poll()) == TopicFound(3, made.topic_id)

    world.until(three)
    watch.close()


def test_there_is_no_partition_of_a_topic_that_does_not_exist_and_asking_makes_none(world: ForeignLogWorld) -> None:
    topic = f"{world.make_topic()}.missing"
    watch = cluster(world).topic_watch(topic, world.wake)
    for _ in range(2):
        query = watch.ask_partitions()
        answers: list[TopicFound | None] = []

        def answered(query=query, answers=answers) -> bool:  # type: ignore[no-untyped-def]
            answers.append(query.poll())
            return answers[-1] is not None

        world.until(answered)
        assert answers[-1] == TopicFound(0)
    ends = watch.ask_ends([0])
    assert world.until(lambda: ends.poll()) == {0: Told(None, None)}
    assert topic not in world.log().admin().topics()
    watch.close()


def test_both_ends_of_all_partitions_come_in_one_answer_and_those_without_one_are_named(world: ForeignLogWorld) -> None:
    topic = world.make_topic(2)
    fill(world, Feed(topic, 1), ["a", "b", "c"])
    watch = cluster(world).topic_watch(topic, world.wake)
    query = watch.ask_ends([0, 1, 7])
    assert world.until(lambda: query.poll()) == {0: Told(0, 0), 1: Told(3, 3), 7: Told(None, None)}
    watch.close()


def test_the_last_of_the_answers_that_are_pending_wakes(world: ForeignLogWorld) -> None:
    topic, pending, asked = world.make_topic(), list[int](), list[PartitionsQuery | ToldQuery]()
    watch = cluster(world).topic_watch(topic, lambda: pending.append(sum(one.poll() is None for one in asked)))
    for _ in range(5):
        asked[:] = [watch.ask_partitions(ahead=True)]
        world.until(lambda: asked[0].poll() is not None)
        assert pending == []  # the ends are still to be asked for
        asked.append(watch.ask_ends([0]))
        world.until(lambda: pending[-1:] == [0])
        asked[:] = [watch.ask_ends([0]), watch.ask_partitions()]
        pending.clear()
        world.until(lambda: pending[-1:] == [0])
        pending.clear()
    watch.close()


def test_an_open_transaction_is_written_and_not_committed_until_it_ends(world: ForeignLogWorld) -> None:
    topic, progress = world.make_topic(), Feed(world.make_topic())
    feed = Feed(topic)
    fill(world, feed, ["a"])
    watch, reader = cluster(world).topic_watch(topic, world.wake), cluster(world).reader(world.wake)
    reader.open(feed, 0)
    assert values(read_until(world, reader, 1)) == ["a"]
    transactor = opened(world, "w", f"{topic}.writer", progress)
    assert take_over(world, transactor, 1) is None
    told: list[Told] = []
    lookup = world.log().lookup()

    def make() -> list[NewRecord]:
        return [NewRecord(feed, b"b"), NewRecord(progress, b"1", key=b"0")]

    transactor.commit(1, make)

    def ended() -> bool:
        query = watch.ask_ends([0])
        told.append((world.until(lambda: query.poll()) or {})[0])
        return bool(transactor.events())

    world.until(ended)
    assert all((one.committed or 0) <= (one.written or 0) for one in told)
    assert values(read_until(world, reader, 1)) == ["b"]

    def committed() -> Told | None:
        query = watch.ask_ends([0])
        last = (world.until(lambda: query.poll()) or {})[0]
        return last if last.committed == last.written else None

    last = world.until(committed)
    world.until(lambda: reader.poll() == [] and reader.position(feed) == last.written)
    assert lookup.written(feed) == lookup.bounds(feed)[1] == last.written
    lookup.close()
    reader.close()
    watch.close()
    transactor.close()


def test_the_first_offsets_are_those_that_retention_has_left(world: ForeignLogWorld) -> None:
    topic = world.make_topic(2)
    fill(world, Feed(topic, 1), ["a", "b", "c"])
    world.delete_before(Feed(topic, 1), 2)
    watch = cluster(world).topic_watch(topic, world.wake)
    query = watch.ask_starts([0, 1])
    assert world.until(lambda: query.poll()) == {0: 0, 1: 2}
    watch.close()


def test_an_error_of_a_cursor_says_where_reading_can_go_on(world: ForeignLogWorld) -> None:
    feed = Feed(world.make_topic())
    fill(world, feed, ["a", "b", "c"])
    world.delete_before(feed, 2)
    reader = cluster(world).reader(world.wake)
    reader.open(feed, 0)
    gone = refused(world, reader)
    assert isinstance(gone, OffsetGone)
    assert (gone.offset, gone.first) == (0, 2)
    reader.open(feed, 9)
    beyond = refused(world, reader)
    assert isinstance(beyond, OffsetBeyond)
    assert (beyond.feed, beyond.offset, beyond.end) == (feed, 9, 3)
    reader.open(feed, gone.first)
    assert values(read_until(world, reader, 1)) == ["c"]
    reader.close()


def test_a_topic_made_again_has_another_id(world: ForeignLogWorld) -> None:
    topic = world.make_topic(2)
    watch, admin = cluster(world).topic_watch(topic, world.wake), world.log().admin()

    def found() -> TopicFound:
        query = watch.ask_partitions()
        return world.until(lambda: query.poll())

    first = found()
    admin.delete([topic])
    world.until(lambda: found().partitions == 0)
    admin.create([TopicSpec(topic, 2)])
    world.until(lambda: found().partitions == 2)
    assert found().topic_id not in ("", first.topic_id)
    watch.close()
