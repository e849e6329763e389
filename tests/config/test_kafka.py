"""One Kafka for all: commands, `publisher` and `subscribe` are configured alike, and so is every client they make."""

from __future__ import annotations

import ast
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest

import borealis_py
from borealis_py import api
from borealis_py.cli.shared.context import open_context
from borealis_py.config.config import ConfigError, load
from borealis_py.config.kafka import cluster_of, log_of
from borealis_py.kafka import admin, appender, lookup, reader, topic_watch, transactor
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Feed, LogError

CLIENTS = {"Producer", "Consumer", "AdminClient"}
PACKAGE = Path(borealis_py.__file__).parent
MARK = "socket.connection.setup.timeout.ms"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("BOREALIS_CONFIG", "BOREALIS_BOOTSTRAP", "BOREALIS_KAFKA"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "borealis.yaml"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[KafkaLog]:
    """The logs that an app was looked for on."""
    found: list[KafkaLog] = []

    def read_app(log: KafkaLog, app: str | None) -> Any:
        found.append(log)
        raise LogError("seen")

    monkeypatch.setattr(api, "read_app", read_app)
    return found


def ways_in(asked: list[KafkaLog], **options: Any) -> list[KafkaLog]:
    """The logs that `publisher` and `subscribe` go to."""
    for way_in in (api.publisher, api.subscribe):
        with pytest.raises(LogError, match="seen"):
            way_in("x", **options)
    return asked


def test_python_goes_where_commands_go(config: Path, asked: list[KafkaLog]) -> None:
    config.write_text("bootstrap: far:9\nkafka: {security.protocol: SSL, ssl.ca.location: /ca}\n")
    log = open_context().log
    assert (log.bootstrap, dict(log.properties)) == ("far:9", {"security.protocol": "SSL", "ssl.ca.location": "/ca"})
    assert ways_in(asked) == [log, log]


def test_the_environment_counts_too(config: Path, asked: list[KafkaLog], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", "env:9")
    assert [log.bootstrap for log in ways_in(asked)] == ["env:9", "env:9"] == [open_context().log.bootstrap] * 2


def test_properties_that_are_given_go_over_those_of_the_file_and_leave_the_others(
    config: Path, asked: list[KafkaLog]
) -> None:
    config.write_text("kafka: {security.protocol: SSL, ssl.ca.location: /ca}\n")
    for log in ways_in(asked, bootstrap="here:9", kafka={"security.protocol": "SASL_SSL"}):
        assert log.bootstrap == "here:9"
        assert dict(log.properties) == {"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca"}


def test_a_setting_that_makes_no_sense_is_named_to_python_too(config: Path) -> None:
    config.write_text("bootstrapp: far:9\n")
    with pytest.raises(ConfigError, match="bootstrapp"):
        api.publisher("x")
    with pytest.raises(ConfigError):
        load()


def _made(tree: ast.AST) -> Iterator[ast.Call]:
    """Calls that make a client of confluent_kafka."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in CLIENTS:
                yield node


def test_clients_are_made_in_these_places_alone() -> None:
    """Who adds one adds it here, and to the test below, unless no user's row ever passes it."""
    places = {
        str(path.relative_to(PACKAGE.parent)): len(list(_made(ast.parse(path.read_text()))))
        for root in (PACKAGE, *(PACKAGE.parent / other for other in ("reconcile", "sunion", "benchmarks")))
        for path in sorted(root.rglob("*.py"))
    }
    assert {path: n for path, n in places.items() if n} == {
        "benchmarks/experiments/retention.py": 1,  # of a broker of its own
        "benchmarks/ingress/writing.py": 1,  # writes what others would
        "benchmarks/load/ping.py": 2,  # bare ones, to compare with
        "borealis_py/bench/raw_loop.py": 2,  # likewise
        "benchmarks/plain/feeding.py": 1,  # writes what others would
        "benchmarks/plain/hand_loop.py": 2,  # to compare with
        "benchmarks/plain/systems.py": 1,  # reads what others write
        "borealis_py/kafka/admin.py": 2,
        "borealis_py/kafka/appender.py": 2,
        "borealis_py/kafka/client.py": 1,
        "borealis_py/kafka/lookup.py": 2,
        "borealis_py/kafka/reader.py": 1,
        "borealis_py/kafka/topic_watch.py": 3,
        "borealis_py/kafka/transactor.py": 1,
    }


class Client:
    """Stands for any of Kafka's clients: remembers what it was made with, and never answers."""

    made: ClassVar[list[Mapping[str, Any]]] = []

    def __init__(self, config: Mapping[str, Any], *_: Any, **__: Any) -> None:
        self.made.append(config)

    def __getattr__(self, name: str) -> Any:
        return lambda *_, **__: threading.Event().wait(0.001) or None

    def __len__(self) -> int:
        return 0


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Mapping[str, Any]]:
    """What clients are made with from now on."""
    for module in (admin, appender, lookup, reader, topic_watch, transactor):
        for name in CLIENTS & set(vars(module)):
            monkeypatch.setattr(module, name, Client)
    monkeypatch.setattr(Client, "made", [])
    return Client.made


def test_every_client_has_the_users_properties_and_what_the_guarantees_rest_on(made: list[Mapping[str, Any]]) -> None:
    """All but the one that asks the local broker, which has no security, whether it is up."""
    log = KafkaLog.of("far:9", {MARK: "12345", "security.protocol": "SSL"})
    parts = [log.reader(lambda: None), log.appender(lambda: None), log.admin(), log.lookup()]
    parts[-1].ask_ends([Feed("a")])
    with pytest.raises(TypeError):  # nothing is answered, but a client was opened for the question
        parts[-1].bounds(Feed("a"))
    parts[-2].fence(["f"])
    watch = log.topic_watch("foreign", lambda: None)
    watch.ask_partitions()
    watch.ask_ends([0])
    while len(made) < 9:
        threading.Event().wait(0.001)
    transactions = log.transactor("t", Feed("progress"), lambda: None, lambda _: None)
    transactions.take_over(1)
    while not transactions.events():
        threading.Event().wait(0.001)
    for part in (*parts, watch, transactions):
        part.close()
    for config in made:
        assert config["bootstrap.servers"] == "far:9"
        assert (config[MARK], config["security.protocol"]) == ("12345", "SSL")
    consumers = [config for config in made if "group.id" in config]
    producers = [config for config in made if "acks" in config]
    assert len(consumers) >= 3
    assert len(producers) == 3
    assert sorted(str(config.get("transactional.id")) for config in producers) == ["None", "f", "t"]
    levels = [c["isolation.level"] for c in consumers]
    assert levels.count("read_uncommitted") == 1  # asks where open transactions end, and reads no record
    assert set(levels) == {"read_committed", "read_uncommitted"}
    assert all(c["enable.auto.commit"] is False for c in consumers)
    assert all(p["enable.idempotence"] is True and p["acks"] == "all" for p in producers)


def test_another_cluster_has_a_log_of_its_own(config: Path) -> None:
    config.write_text("bootstrap: here:1\nclusters:\n  eu:\n    bootstrap: eu:2\n    kafka:\n      client.rack: a\n")
    loaded = load()
    own = log_of(loaded)
    assert cluster_of(loaded, own, None) is own
    assert cluster_of(loaded, own, "eu") == KafkaLog.of("eu:2", {"client.rack": "a"})
    with pytest.raises(ConfigError, match=r"no cluster 'ue' in borealis\.yaml; .*clusters: eu"):
        cluster_of(loaded, own, "ue")
