"""What an ingress needs of the cluster whose topics other programs write. Kafka and the simulator implement it.

Nothing blocks but opening and closing: questions are asked, and polled for their answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from borealis_py.log.base import Reader, Wake


class Told(NamedTuple):
    """Ends of one partition, as the broker told them; None: it did not. `written`: what is in the log ends there, open
    transactions included. `committed`: what a reader can see ends there, or ended not long before."""

    committed: int | None
    written: int | None


class TopicFound(NamedTuple):
    """What a broker knows of a topic: how many `partitions` it has (0: there is no such topic; -1: nobody answered, or
    reading it is not allowed), and its `topic_id`, another one each time that the topic is made ("": not known)."""

    partitions: int
    topic_id: str = ""


class PartitionsQuery(Protocol):
    """A pending question how many partitions a topic has, and whether it is still the same topic."""

    def poll(self) -> TopicFound | None:
        """None: no answer yet."""


class ToldQuery(Protocol):
    """A pending question for both ends of some partitions."""

    def poll(self) -> Mapping[int, Told] | None:
        """None: no answer yet."""


class StartsQuery(Protocol):
    """A pending question for the first retained offsets of some partitions."""

    def poll(self) -> Mapping[int, int | None] | None:
        """None: no answer yet. Of a partition: its first retained offset; None: the broker did not tell."""


class TopicWatch(Protocol):
    """Asks about one topic."""

    def ask_partitions(self, ahead: bool = False) -> PartitionsQuery:
        """`ahead`: the ends will be asked for soon, so the answer wakes only if they have been meanwhile."""

    def ask_ends(self, partitions: Sequence[int]) -> ToldQuery:
        """Both ends of all these partitions. `written` counts everything that was written before this call."""

    def ask_starts(self, partitions: Sequence[int]) -> StartsQuery: ...

    def close(self) -> None: ...


class ForeignLog(Protocol):
    """A cluster, as an ingress uses it."""

    def reader(self, wake: Wake) -> Reader: ...

    def topic_watch(self, topic: str, wake: Wake) -> TopicWatch:
        """`wake`: called, in any thread, when the last answer of those has come that are pending."""
