"""Kafka's own command line tools for tests: their jar, fetched once beside those of the broker."""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from pathlib import Path
from unittest import mock

from borealis_py.kafka import cache, jars
from borealis_py.kafka.broker_config import java_command
from borealis_py.kafka.checksums import KAFKA_VERSION
from borealis_py.kafka.errors import BrokerError
from borealis_py.kafka.java import find_java

JAR = f"kafka-tools-{KAFKA_VERSION}.jar"
SHA256 = "b88bc6ccc520d648142515526e4042c285612ce94b032434a88e3e936e38b600"
_WANTED = (("org.apache.kafka", "kafka-tools", KAFKA_VERSION),)


def fetch() -> Path:
    """The jar; downloads it if it is missing. Raises BrokerError: no Java, no way to fetch it, or a wrong checksum."""
    target = cache.root() / f"kafka-tools-{KAFKA_VERSION}" / JAR
    target.parent.mkdir(parents=True, exist_ok=True)
    with cache.locked(target.parent.with_name(f"{target.parent.name}.lock")):
        if not target.exists():
            _fetch(target)
    return target


def _fetch(target: Path) -> None:
    """As the broker's jars are fetched. They suffice, so what else comes with the tools is thrown away."""
    failures = []
    for way in (jars._with_maven, jars._with_ivy):
        with tempfile.TemporaryDirectory(dir=target.parent) as directory, mock.patch.object(jars, "_WANTED", _WANTED):
            staging, found = Path(directory), Path(directory) / "jars"
            found.mkdir()
            try:
                way(find_java(), staging, found)
            except BrokerError as exc:
                failures.append(str(exc))
                continue
            digest = hashlib.sha256((found / JAR).read_bytes()).hexdigest()
            if digest != SHA256:
                raise BrokerError(f"{JAR} has the wrong checksum: SHA-256 {digest}, expected {SHA256}")
            shutil.move(found / JAR, target)
            return
    raise BrokerError(f"{JAR} could not be fetched: {'; '.join(failures)}")


def console_producer(bootstrap: str, topic: str) -> list[str]:
    """The command that sends each line of its standard input as a record's value. Raises BrokerError, as `fetch`."""
    java = find_java()
    main = "org.apache.kafka.tools.ConsoleProducer"
    arguments = ("--bootstrap-server", bootstrap, "--topic", topic)
    command = java_command(java, jars.fetch(java), main, *arguments, heap_mb=128)
    classes = command.index("-cp") + 1
    command[classes] = f"{command[classes]}:{fetch()}"
    return command
