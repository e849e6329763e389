"""What the contract suite needs of a log: one class for each implementation. `conftest.py` lists them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from borealis_py.log.base import Feed, Log, TopicSpec
from borealis_py.simulation.clock import Scheduler
from borealis_py.simulation.log.client import MemoryLog
from tests.support.instant_log import InstantBroker

T = TypeVar("T")


class LogWorld(Protocol):
    """A log under test. `FIXTURES` are the names of those that its constructor takes."""

    FIXTURES: tuple[str, ...]

    def log(self, client: str = "a") -> Log:
        """The log as one process sees it; another name is another process."""

    def make_topic(self, partitions: int = 1) -> str:
        """A new, empty topic that keeps event times (see `topics.EVENT_TIME`)."""

    def make_again(self, topic: str) -> None:
        """A new, empty topic of the same name, with one partition; the one before was deleted."""

    def until(self, condition: Callable[[], T]) -> T:
        """Let the log work until the condition gives something true, and return that. Fails after a while."""

    def wake(self) -> None:
        """To be handed to whatever wants a `wake`; cheap, callable from any thread."""

    def delete_before(self, feed: Feed, offset: int) -> None:
        """Retention: the feed starts at `offset` afterwards."""

    def segment_bytes(self, topic: str) -> int:
        """How large the log lets a segment of a topic grow."""

    def close(self) -> None: ...


class MemoryWorld:
    """`borealis_py.simulation.log.client` under a simulated clock."""

    FIXTURES: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.scheduler = Scheduler(start_us=1_700_000_000_000_000)
        self.memory = MemoryLog(self.scheduler, seed=1)
        self._made = 0

    def log(self, client: str = "a") -> Log:
        return self.memory.client(client)

    def make_topic(self, partitions: int = 1) -> str:
        self._made += 1
        name = f"topic{self._made}"
        self.log("admin").admin().create([TopicSpec(name, partitions)])
        return name

    def make_again(self, topic: str) -> None:
        self.log("admin").admin().create([TopicSpec(topic)])

    def until(self, condition: Callable[[], T]) -> T:
        deadline_us = self.scheduler.now_us + 30_000_000
        while not (found := condition()):
            assert self.scheduler.step(), "nothing is left to happen, and the condition does not hold"
            assert self.scheduler.now_us < deadline_us, "the condition did not come to hold"
        return found

    def wake(self) -> None:
        pass

    def grow(self, topic: str, partitions: int) -> None:
        """Give a topic more partitions."""
        self.memory.broker.grow(topic, partitions)

    def delete_before(self, feed: Feed, offset: int) -> None:
        self.memory.delete_before(feed, offset)

    def segment_bytes(self, topic: str) -> int:
        return self.memory.broker.segment_bytes[topic]

    def close(self) -> None:
        pass


class InstantWorld(MemoryWorld):
    """`tests.support.instant_log`. Only timeouts are left to `until`: see `test_instant_log.py`."""

    def __init__(self) -> None:
        super().__init__()
        self._broker = InstantBroker()
        self.memory, self.scheduler = self._broker.memory, self._broker.memory.scheduler

    def log(self, client: str = "a") -> Log:
        return self._broker.log(client)

    def until(self, condition: Callable[[], T]) -> T:
        """A reader of a topic that was made again is woken by its own poll, and has to poll once more."""
        return condition() or super().until(condition)
