"""What a test gives of an app's foreign topics, for `run`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from borealis_py.app.source_copying import plan_of
from borealis_py.app.state import AppState
from borealis_py.ingress.decoder import Decoded, TopicDecoder
from borealis_py.log.base import Feed, Record
from borealis_py.query.ingress_spec import IngressSpec
from borealis_py.query.spec import AppSpec
from borealis_py.simulation.log.client import MemoryLog
from borealis_py.testing.loading import decoder_of
from borealis_py.testing.times import START_US
from borealis_py.testing.topic_copy import TopicCopy
from borealis_py.testing.topic_records import GivenRecord, given_records


@dataclass(frozen=True, slots=True)
class DecodedTopic:
    """What the records of the topic of `source` are: what `decoder` made of them, in `partitions` by their numbers."""

    source: str
    decoder: TopicDecoder
    partitions: tuple[Decoded, ...]

    @property
    def stimes(self) -> list[int]:
        """Of its rows. Those that seem to be in another unit do not count: no app begins there."""
        stimes = (stime for one in self.partitions for stime in one.stimes.tolist())
        return [stime for stime in stimes if not self.decoder.misread(stime, 0)]

    def copy(self, log: MemoryLog, state: AppState) -> None:
        """Copy it into its source, and end that."""
        TopicCopy(log, plan_of(state, self.source), self.decoder, self.partitions).run()


def decoded_topics(spec: AppSpec, rows: Mapping[str, Iterable[object]], every_us: int) -> list[DecodedTopic]:
    """The foreign topics of an app with these records in them. What is given to one source is read by all that have the
    same topic.

    Args:
        every_us: records without a time follow each other at this distance (microseconds).

    Raises:
        TypeError, ValueError: something that is no record, or no time.
    """
    records: dict[tuple[str | None, str], list[GivenRecord]] = {}
    for source, some in rows.items():
        if (ingress := spec.ingresses.get(source)) is not None:
            records.setdefault(_place(ingress), []).extend(given_records(some, source, ingress))
    found = []
    for source, ingress in spec.ingresses.items():
        decoder = decoder_of(spec, source)
        partitions = _partitions(ingress, records.get(_place(ingress), []), every_us)
        found.append(DecodedTopic(source, decoder, tuple(map(decoder.decode, partitions))))
    return found


def _place(ingress: IngressSpec) -> tuple[str | None, str]:
    return ingress.cluster, ingress.topic


def _partitions(ingress: IngressSpec, records: list[GivenRecord], every_us: int) -> list[list[Record]]:
    least = 1 if ingress.by is not None else ingress.inputs
    found: list[list[Record]] = [[] for _ in range(max([least, *(one.partition + 1 for one in records)]))]
    for number, one in enumerate(records):
        time_us = START_US + number * every_us if one.time_us is None else one.time_us
        mine = found[one.partition]
        feed = Feed(ingress.topic, one.partition)
        mine.append(Record(feed, len(mine), time_us // 1_000, one.key, one.value, one.headers))
    return found
