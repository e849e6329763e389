"""A source of a drill's app that is a foreign topic: who writes it, who copies it, and how its input ends.

A topic that others write has no END. A drill needs one, to wait for and to compare everything with: when its ingresses
have ended, a claim and an empty batch with END follow what they copied, written here.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kafka import KafkaProducer

from borealis_py.app.process_spec import ProcessSpec
from borealis_py.app.replicas import ProcessName
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import TopicSpec
from borealis_py.log.records import BatchHeader, ClaimHeader, pack
from borealis_py.log.topics import RECORD_BYTES_MAX
from borealis_py.query.ingress_spec import INGRESSES
from borealis_py.verify.description import place
from borealis_py.verify.kafka_reader import TopicReader
from borealis_py.verify.source_log import END, SourceRules, fold
from tests.harness import feeders
from tests.harness.network import BUCKET_US, COLUMNS, FOREIGN
from tests.harness.processes import PROCESS, Process

if TYPE_CHECKING:
    from tests.harness.cluster import Cluster

LATENESS, EXPECT = "1s", "1s"
PRODUCER = "producer-c"
"""Who writes the topic."""
EPOCH = 1 << 40
"""Above that of any ingress."""


def topic_of(app: str, source: str) -> str:
    """The foreign topic behind an input, `c.0`."""
    return f"prod.{app}.{source.partition('.')[0]}"


@dataclass
class Foreign:
    """The foreign topic of a cluster, its producer, its ingresses."""

    cluster: Cluster
    ingresses: dict[int, Process] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        return topic_of(self.cluster.plan.name, FOREIGN)

    def create(self) -> None:
        """Create the topic, of one partition."""
        large = (("max.message.bytes", str(RECORD_BYTES_MAX)),)  # the producer's, too
        self.cluster.log.admin().create([TopicSpec(self.topic, config=large)])

    def begin(self) -> None:
        """Start the producer and all ingresses."""
        self.produce()
        for index in range(INGRESSES):
            self.copy(index)

    def produce(self) -> None:
        """Start the producer (again)."""
        it = self.cluster
        arguments = it.feeding.produce(self._address(PRODUCER), self.topic, FOREIGN)
        it.feeders[FOREIGN] = it.spawn(PRODUCER, feeders.MODULE, arguments)

    def copy(self, index: int) -> None:
        """Start an ingress (again)."""
        it, name = self.cluster, ProcessName(index, ingress=True)
        spec = ProcessSpec.unconfigured(KafkaLog(self._address(name.stem)), it.directory, it.plan.host)
        arguments = name.arguments(it.plan.name)
        self.ingresses[index] = it.spawn(name.stem, PROCESS, arguments, spec.environment())

    def end(self, timeout_s: float) -> None:
        """Once all is copied that the producer, which ends, was told is there: stop the ingresses, write END."""
        it = self.cluster
        assert it.feeders[FOREIGN].popen.wait(timeout_s) == 0, it.feeders[FOREIGN].said[-3000:]
        last = it.acknowledged()[FOREIGN]
        it.until(lambda: self._copied() >= last, f"row {last} is copied", timeout_s)
        for process in self.ingresses.values():
            process.may_end = True
            process.signal(signal.SIGTERM)
        for process in self.ingresses.values():
            assert process.popen.wait(timeout_s) == 0, process.said[-3000:]
        end_input(it.bootstrap, it.plan.name, it.state.app_uid, FOREIGN)

    def _address(self, name: str) -> str:
        return self.cluster.addresses.get(name, self.cluster.bootstrap)

    def _copied(self) -> int:
        """The last position that is in the input's log, as a row or as a dead letter; -1: none."""
        topics = TopicReader(self.cluster.bootstrap)
        try:
            rules = SourceRules(dict.fromkeys(COLUMNS, ""), self.cluster.origin_us, BUCKET_US)
            base, partition = place(FOREIGN)
            log = fold(topics.read(f"{self.cluster.plan.name}.{base}", partition), rules, keep_rows=False)
        finally:
            topics.close()
        return max((*log.seqs, *log.gone, *log.refused), default=-1)


def end_input(bootstrap: str, app: str, app_uid: str, source: str) -> None:
    """Write END behind what is in an input's log. Its ingresses must have ended."""
    producer = KafkaProducer(bootstrap_servers=bootstrap, acks="all")
    try:
        last = BatchHeader(app_uid, EPOCH, "drill", 0, b"", END, "json")
        for header in (ClaimHeader(app_uid, EPOCH, "drill"), last):
            base, partition = place(source)
            producer.send(f"{app}.{base}", pack(header), partition=partition).get(30)
    finally:
        producer.close()
