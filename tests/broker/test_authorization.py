"""A broker with SASL and ACLs on which an app may not delete records: that is told, and nothing stops."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from kafka import KafkaAdminClient
from kafka.admin import ACL, ACLOperation, ACLPermissionType, ResourcePattern, ResourceType

from borealis_py.api import publisher
from borealis_py.app.state import put_settings, read_app
from borealis_py.kafka.broker import LocalBroker, free_port
from borealis_py.kafka.broker_config import HOST
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed, LogError, TopicSpec
from borealis_py.log.messages import Threshold
from borealis_py.protocol.settings import Timing
from borealis_py.query import App
from tests.harness.running import RunningApp, running
from tests.harness.waiting import until

pytestmark = pytest.mark.broker
NAME = "guarded"
SECRET = "s3cret"
"""Of user `app`."""
ALLOWED = (
    ACLOperation.READ, ACLOperation.WRITE, ACLOperation.DESCRIBE, ACLOperation.CREATE, ACLOperation.DESCRIBE_CONFIGS,
    ACLOperation.IDEMPOTENT_WRITE,
)  # fmt: skip


class GuardedBroker(LocalBroker):
    """Whoever connects to `port` may do everything; user `app`, at `guarded`, what its ACLs allow."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir, free_port())
        self.guarded = f"{HOST}:{free_port()}"

    def properties(self) -> str:
        of = dict(line.split("=", 1) for line in super().properties().splitlines())
        of["listeners"] += f",GUARDED://{self.guarded}"
        of["advertised.listeners"] += f",GUARDED://{self.guarded}"
        of["listener.security.protocol.map"] += ",GUARDED:SASL_PLAINTEXT"
        of |= {
            "listener.name.guarded.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.guarded.plain.sasl.jaas.config": (
                f'org.apache.kafka.common.security.plain.PlainLoginModule required user_app="{SECRET}" '
                f'user_stranger="{SECRET}";'
            ),
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
        }
        return "".join(f"{key}={value}\n" for key, value in of.items())


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[GuardedBroker]:
    broker = GuardedBroker(tmp_path / "broker")
    broker.up()
    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap)
    everything = [
        ResourcePattern(ResourceType.TOPIC, "*"),
        ResourcePattern(ResourceType.GROUP, "*"),
        ResourcePattern(ResourceType.TRANSACTIONAL_ID, "*"),
        ResourcePattern(ResourceType.CLUSTER, "kafka-cluster"),
    ]
    rules = [allowed(operation, of) for of in everything for operation in ALLOWED if fits(operation, of)]
    assert not admin.create_acls(rules)["failed"]
    admin.close()
    yield broker
    broker.down(timeout_s=0.0)


def fits(operation: ACLOperation, of: ResourcePattern) -> bool:
    """Whether Kafka knows an operation for a resource of this kind."""
    if of.resource_type is ResourceType.CLUSTER:
        return operation in (ACLOperation.IDEMPOTENT_WRITE, ACLOperation.DESCRIBE, ACLOperation.CREATE)
    if of.resource_type is ResourceType.TOPIC:
        return operation is not ACLOperation.IDEMPOTENT_WRITE
    return operation in (ACLOperation.READ, ACLOperation.DESCRIBE) or (
        of.resource_type is ResourceType.TRANSACTIONAL_ID and operation is ACLOperation.WRITE
    )


def allowed(operation: ACLOperation, of: ResourcePattern, user: str = "app") -> ACL:
    return ACL(f"User:{user}", "*", operation, ACLPermissionType.ALLOW, of)


def access(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": SECRET,
    }


def an_app() -> App:
    it = App(NAME, bucket="100ms", retain="needed")
    it.query("q", it.source("s", schema={"n": "int64"}, retain="needed").filter("true"), replicas=1)
    return it


def refusals(it: RunningApp) -> dict[str, str]:
    said = it.newest(0)
    return {} if said is None else {trim.topic: trim.refused for trim in said.trims}


def test_what_may_not_be_deleted_is_told_and_goes_once_it_may(guarded: GuardedBroker, tmp_path: Path) -> None:
    with running(guarded.bootstrap, an_app(), tmp_path / "work", Timing(checkpoint_us=500_000)) as it:
        it.log = KafkaLog.of(guarded.guarded, access("app"))
        it.start(0)
        it.wait_ready(0)
        source = Feed(f"{NAME}.s")
        with publisher("s", "0s", app=NAME, bootstrap=guarded.bootstrap) as rows:

            def refused() -> bool:
                rows.send({"n": 1})
                return "the ACLs lack DELETE on topic guarded.s" in refusals(it).get("s", "")

            until(refused, "the refusal is told")
            assert it.lookup.bounds(source)[0] == 0
            admin = KafkaAdminClient(bootstrap_servers=guarded.bootstrap)
            admin.create_acls([allowed(ACLOperation.DELETE, ResourcePattern(ResourceType.TOPIC, "*"))])
            admin.close()
            until(lambda: it.lookup.bounds(source)[0] > 0, "the beginning is deleted")
            until(lambda: set(refusals(it).values()) == {""}, "nothing is refused")
        assert not it.errors
        assert it.corrected("q")


def test_who_lacks_a_right_is_told_which(guarded: GuardedBroker) -> None:
    name, of = topics.settings(NAME), ResourcePattern(ResourceType.TOPIC, topics.settings(NAME))
    log, own = KafkaLog.of(guarded.guarded, access("stranger")), KafkaLog.of(guarded.bootstrap, {})
    with closing(own.admin()) as admin:
        admin.create([TopicSpec(name), TopicSpec(topics.control(NAME))])
    put_settings(own, NAME, {"threshold/q": Threshold(1_000_000)})
    acls = KafkaAdminClient(bootstrap_servers=guarded.bootstrap)
    for lacks, granted in (("DESCRIBE", ACLOperation.DESCRIBE), ("READ", ACLOperation.READ)):
        until(lambda lacks=lacks: refused(log, f"the ACLs lack {lacks} on topic {name}"), f"{lacks} is named")
        more = ResourcePattern(ResourceType.TOPIC, topics.control(NAME))
        acls.create_acls([allowed(granted, one, "stranger") for one in (of, more)])
    acls.close()
    until(lambda: refused(log, "has topics but no description"), "nothing else is lacking")


def refused(log: KafkaLog, words: str) -> bool:
    try:
        read_app(log, NAME)
    except LogError as exc:
        return words in str(exc)
    return False
