"""Topic administration: list, create, delete, configure. Blocking; for start-up and commands."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ClusterMetadata,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
    TopicMetadata,
)

from borealis_py.kafka.access.refusals import listen
from borealis_py.kafka.client import base_config, error_of, producer_config, translated, translating
from borealis_py.log.base import LogError, Replication, TopicSpec
from borealis_py.log.topics import MIN_INSYNC, SEGMENT_BYTES

ANSWER_S = 5.0
SETTLE_S = 15.0
"""How long the cluster may take until every client sees a new topic, or no longer sees a deleted one."""
FENCE_S = 15.0
FENCES_AT_ONCE = 8
_NOT_ALLOWED = frozenset({KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED})


class Copies(NamedTuple):
    """Of each topic that is made: how many copies it has (`replication`), and how many of them must have a record
    before it is acknowledged (`min_insync_replicas`). None: as the cluster has it."""

    replication: int | None = None
    min_insync_replicas: int | None = None


CLUSTERS_COPIES = Copies()


class KafkaAdmin:
    """`log.base.Admin`. `copies`: of the topics that it creates."""

    def __init__(self, bootstrap: str, properties: Mapping[str, str], copies: Copies = CLUSTERS_COPIES) -> None:
        self._bootstrap = bootstrap
        self._properties = properties
        self._copies = copies
        with translating(bootstrap, "open an admin client"):
            self._client = AdminClient(base_config(bootstrap, properties))

    def topics(self) -> list[str]:
        """All topics, sorted, without Kafka's internal ones."""
        return sorted(name for name in self._metadata().topics if not name.startswith("__"))

    def partitions(self, topic: str) -> int:
        """See `log.base.Admin.partitions`."""
        found = self._metadata().topics.get(topic)
        if found is None:
            self._refuse_hidden(topic)
        return 0 if found is None else len(found.partitions)

    def _refuse_hidden(self, topic: str) -> None:
        """A list leaves out what this user may not see; who asks for it by name is told. Raises LogError."""
        with translating(self._bootstrap, f"see topic {topic}", lambda: listen(self._client)):
            named = self._client.list_topics(topic, timeout=ANSWER_S).topics.get(topic)
        if named is not None and named.error is not None and named.error.code() in _NOT_ALLOWED:
            raise translated(self._bootstrap, f"see topic {topic}", named.error)

    def create(self, specs: Sequence[TopicSpec]) -> None:
        """Create the topics that do not exist yet, and wait until clients see them.

        Raises:
            LogError: the cluster refused one of them, has fewer brokers than each is to have copies, or an existing one
                has too few partitions; the message names it.
        """
        metadata = self._metadata()
        there = metadata.topics
        self._refuse_smaller(there, specs)
        new = {spec.name: spec for spec in specs if spec.name not in there}
        if not new:
            return
        self._refuse_few_brokers(len(metadata.brokers), next(iter(new)))
        factor, least = self._copies.replication or -1, self._copies.min_insync_replicas
        more = {} if least is None else {MIN_INSYNC: str(least)}
        answers = self._client.create_topics(
            [
                NewTopic(
                    s.name, num_partitions=s.partitions, replication_factor=factor, config={**dict(s.config), **more}
                )
                for s in new.values()
            ],
            operation_timeout=ANSWER_S,
            request_timeout=2 * ANSWER_S,
        )
        for name, answer in answers.items():
            self._finish(f"create topic {name}", answer.result, KafkaError.TOPIC_ALREADY_EXISTS)

        def led(metadata: ClusterMetadata) -> bool:
            found = [metadata.topics.get(name) for name in new]
            return all(
                t is not None and t.error is None and t.partitions and all(p.leader >= 0 for p in t.partitions.values())
                for t in found
            )

        self._settle(led, f"new topics have no leader yet: {', '.join(sorted(new))}")

    def _refuse_few_brokers(self, brokers: int, topic: str) -> None:
        wanted = self._copies.replication
        if wanted is not None and wanted > brokers:
            raise LogError(
                f"topic {topic} is to have {wanted} copies (`topics: replication` of borealis.yaml), and the cluster "
                f"at {self._bootstrap} has {brokers} broker{'s' if brokers > 1 else ''} now: set it to "
                f"{brokers} or less, or start the others"
            )

    def _refuse_smaller(self, there: Mapping[str, TopicMetadata], specs: Sequence[TopicSpec]) -> None:
        for spec in specs:
            has = len(there[spec.name].partitions) if spec.name in there else 0  # also 0 while it is being created
            if 0 < has < spec.partitions:
                raise LogError(
                    f"topic {spec.name} has {has} partition{'s' if has > 1 else ''} at {self._bootstrap}, "
                    f"{spec.partitions} are needed: it was created by other software, or for another app. Give the app "
                    "another name, or delete the topic (`borealis up --reset` deletes all topics of an app)"
                )

    def delete(self, names: Sequence[str]) -> None:
        """Delete the topics that exist, and wait until they are gone."""
        there = set(self._metadata().topics)
        gone = [name for name in names if name in there]
        if not gone:
            return
        answers = self._client.delete_topics(gone, operation_timeout=ANSWER_S, request_timeout=2 * ANSWER_S)
        for name, answer in answers.items():
            self._finish(f"delete topic {name}", answer.result, KafkaError.UNKNOWN_TOPIC_OR_PART)
        self._settle(lambda m: not set(gone) & set(m.topics), f"topics are not deleted yet: {', '.join(gone)}")

    def limit_segments(self, most_bytes: Mapping[str, int]) -> Mapping[str, str]:
        """See `log.base.Admin.limit_segments`."""
        there = self._metadata().topics
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in most_bytes if name in there]
        refused, larger = dict[str, str](), list[ConfigResource]()
        if not asked:
            return refused
        for topic, answer in self._client.describe_configs(asked, request_timeout=2 * ANSWER_S).items():
            try:
                found = int(answer.result()[SEGMENT_BYTES].value)
            except KafkaException as exc:
                refused[topic.name] = self._refusal(exc, topic.name, "DESCRIBE_CONFIGS")
                continue
            if found > most_bytes[topic.name]:
                entry = ConfigEntry(
                    SEGMENT_BYTES, str(most_bytes[topic.name]), incremental_operation=AlterConfigOpType.SET
                )
                larger.append(ConfigResource(ResourceType.TOPIC, topic.name, incremental_configs=[entry]))
        if larger:
            for topic, answer in self._client.incremental_alter_configs(larger, request_timeout=2 * ANSWER_S).items():
                try:
                    answer.result()
                except KafkaException as exc:
                    refused[topic.name] = self._refusal(exc, topic.name, "ALTER_CONFIGS")
        return refused

    def settings(self, names: Sequence[str]) -> Mapping[str, Mapping[str, str]]:
        """See `log.base.Admin.settings`."""
        there = self._metadata().topics
        asked = [ConfigResource(ResourceType.TOPIC, name) for name in names if name in there]
        found = dict[str, Mapping[str, str]]()
        if not asked:
            return found
        for topic, answer in self._client.describe_configs(asked, request_timeout=2 * ANSWER_S).items():
            with suppress(KafkaException):  # of one that may not be seen nothing is known
                found[topic.name] = {name: entry.value or "" for name, entry in answer.result().items()}
        return found

    def replication(self, names: Sequence[str]) -> Replication:
        """See `log.base.Admin.replication`."""
        metadata = self._metadata()
        placed = {name: metadata.topics[name].partitions.values() for name in names if name in metadata.topics}
        copies = {name: min(len(one.replicas) for one in some) for name, some in placed.items() if some}
        return Replication(len(metadata.brokers), copies)

    def set(self, values: Mapping[str, Mapping[str, str]]) -> Mapping[str, str]:
        """See `log.base.Admin.set`."""
        there, refused = self._metadata().topics, dict[str, str]()
        changed = [
            ConfigResource(
                ResourceType.TOPIC,
                topic,
                incremental_configs=[
                    ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
                    for name, value in some.items()
                ],
            )
            for topic, some in values.items()
            if topic in there and some
        ]
        if not changed:
            return refused
        for topic, answer in self._client.incremental_alter_configs(changed, request_timeout=2 * ANSWER_S).items():
            try:
                answer.result()
            except KafkaException as exc:
                names = ", ".join(values[topic.name])
                refused[topic.name] = self._refusal(exc, topic.name, "ALTER_CONFIGS", names)
        return refused

    def _refusal(self, exc: KafkaException, topic: str, operation: str, names: str = SEGMENT_BYTES) -> str:
        error = error_of(exc)
        if error.code() in _NOT_ALLOWED:
            return f"the brokers do not allow it: the ACLs lack {operation} on topic {topic}"
        return str(translated(self._bootstrap, f"set {names} of topic {topic}", error))

    def fence(self, transactional_ids: Sequence[str]) -> None:
        """Fence every writer of these ids: open transactions are aborted, and these writers can commit nothing more.

        Raises:
            LogError: one could not be fenced; the message names it.
        """
        with ThreadPoolExecutor(FENCES_AT_ONCE) as pool:
            for _ in pool.map(self._fence, transactional_ids):
                pass

    def _fence(self, transactional_id: str) -> None:
        with translating(self._bootstrap, f"fence the writer {transactional_id}"):
            config = producer_config(self._bootstrap, self._properties)
            Producer({**config, "transactional.id": transactional_id}).init_transactions(FENCE_S)

    def close(self) -> None:
        """Nothing to do: the client ends with this object."""

    def _metadata(self) -> ClusterMetadata:
        with translating(self._bootstrap, "list topics", lambda: listen(self._client)):
            return self._client.list_topics(timeout=ANSWER_S)

    def _finish(self, doing: str, wait: Callable[[], object], fine: int | None = None) -> None:
        try:
            wait()
        except KafkaException as exc:
            error = error_of(exc)
            if error.code() != fine:
                raise translated(self._bootstrap, doing, error) from exc

    def _settle(self, condition: Callable[[ClusterMetadata], bool], still: str) -> None:
        deadline = time.monotonic() + SETTLE_S
        while not condition(self._metadata()):
            if time.monotonic() > deadline:
                raise LogError(f"{still} (after {SETTLE_S:.0f} s, at {self._bootstrap})")
            time.sleep(0.02)
