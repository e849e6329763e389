"""The local broker's settings: one small process as controller and broker, with unlimited retention."""

from __future__ import annotations

from pathlib import Path

from borealis_py.log.topics import RECORD_BYTES_MAX

HOST = "127.0.0.1"
HEAP_MB = 384


def server_properties(data_dir: Path, port: int, controller_port: int) -> str:
    """The text of server.properties.

    Args:
        data_dir: absolute; the log goes below it.
        port: where clients connect.
        controller_port: for the broker's connections to itself; may change from start to start.
    """
    settings: dict[str, object] = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@{HOST}:{controller_port}",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{port}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": data_dir / "log",
        "auto.create.topics.enable": "false",  # only `up` creates topics
        # There is one broker to hold every copy; few partitions of the internal topics start sooner.
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "share.coordinator.state.topic.num.partitions": 1,
        "group.initial.rebalance.delay.ms": 0,
        "offsets.retention.minutes": 525600,
        # A topic made without retention of its own would lose rows whose event time is 7 days ago.
        "log.retention.ms": -1,
        "message.max.bytes": RECORD_BYTES_MAX,
        "replica.fetch.max.bytes": RECORD_BYTES_MAX,
        # Records that were trimmed, or are too old, lie on the disk until Kafka looks again; by default every 5 min.
        "log.retention.check.interval.ms": 30_000,
        # The default takes a third of this heap.
        "log.cleaner.dedupe.buffer.size": 16 << 20,
        "num.network.threads": 2,
        "num.io.threads": 4,
        # After kill -9, the new broker waits until the dead one's session ends: 7 s to the first commit, 12 s with
        # Kafka's default of 9000. A broker that is paused for longer than this has lost ends of transactions
        # (`log.mending`).
        "broker.session.timeout.ms": 3000,
        "broker.heartbeat.interval.ms": 500,
    }
    return "".join(f"{key}={_escaped(value)}\n" for key, value in settings.items())


def _escaped(value: object) -> str:
    """A Java properties value: backslashes are escaped, and only Latin-1 is safe."""
    text = str(value).replace("\\", "\\\\")
    return "".join(c if ord(c) < 128 else "".join(f"\\u{u:04x}" for u in _utf16(c)) for c in text)


def _utf16(char: str) -> tuple[int, ...]:
    raw = char.encode("utf-16-be")
    return tuple(int.from_bytes(raw[i : i + 2], "big") for i in range(0, len(raw), 2))


def java_command(java: Path, jars: Path, main: str, *arguments: str, heap_mb: int = HEAP_MB) -> list[str]:
    """The command that runs one of Kafka's main classes; it logs warnings and errors to standard error."""
    log = "-Dorg.slf4j.simpleLogger"
    return [
        str(java),
        f"-Xmx{heap_mb}m",
        f"-Xms{min(heap_mb, 128)}m",
        "-XX:+UseSerialGC",
        "-XX:+ExitOnOutOfMemoryError",
        "-Xshare:auto",
        "-Djava.awt.headless=true",
        "-Djava.net.preferIPv4Stack=true",
        f"{log}.defaultLogLevel=warn",
        f"{log}.showDateTime=true",
        f"{log}.dateTimeFormat=yyyy-MM-dd HH:mm:ss.SSS",
        f"{log}.log.kafka.server.KafkaRaftServer=info",
        "-cp",
        str(jars / "*"),
        main,
        *arguments,
    ]
