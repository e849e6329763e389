"""What a replica process is told: one value, from `borealis up` or `borealis replica` to the process.

It travels as JSON in the environment variable BOREALIS_PROCESS, since anyone can read a command line and it may hold
passwords; it is never written to disk. A command line says only which process of which app this is, and what holds for
one start alone (`borealis_py.runtime.process`). Knows no broker.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from borealis_py.config.address import Address

if TYPE_CHECKING:
    from borealis_py.config.config import Config  # which replica processes need not load
    from borealis_py.kafka.log import KafkaLog  # nor `borealis down`

VARIABLE = "BOREALIS_PROCESS"
HOSTS = ("process", "spark")


class ProcessSpecError(ValueError):
    """A process was told nothing, or what it does not understand. The message is one line and names the variable."""


class ForeignCluster(msgspec.Struct, frozen=True):
    """A cluster under `clusters:`: its brokers (`bootstrap`), the librdkafka properties of its clients (`kafka`), and
    those of its schema registry's (`schema_registry`); both may hold passwords."""

    bootstrap: str
    kafka: dict[str, str] = {}
    schema_registry: dict[str, str] = {}


class ProcessSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a replica process is told, the same at each restart.

    Raises:
        ValueError: no such host.
    """

    bootstrap: str
    """Kafka brokers, `HOST:PORT`, comma-separated."""
    data_dir: Path
    """Directory with a directory of each app: logs, notes and, without `checkpoints`, checkpoints."""
    kafka: dict[str, str] = {}
    """librdkafka properties of every client, by dotted name. May hold passwords."""
    schema_registry: dict[str, str] = {}
    """Properties of the registry of foreign topics' schemas. May hold passwords. Ingresses alone read it."""
    clusters: dict[str, ForeignCluster] = {}
    """Other Kafka clusters, by the names that foreign topics use. Ingresses alone read them."""
    topics: dict[str, int] = {}
    """Copies of the topics that this process creates (`kafka.admin.Copies`), by name; none: the cluster's default."""
    checkpoints: str = ""
    """URI of pyarrow.fs where checkpoints are stored, which may hold a password; empty: below `data_dir`."""
    http: str | None = None
    """`HOST:PORT` at which this process answers HTTP; port 0: any free one; None: no HTTP."""
    engine_memory_bytes: int = 0
    """Memory limit of the SQL engine of each replica, in bytes; 0: `engine/sql/duck_connection.py` has the default."""
    host: str = "process"
    """Where replicas run: "process": as threads of the process, without Spark; "spark": as tasks of its application.
    What follows applies only to the latter.
    """
    master: str | None = None
    """Spark's master; None: this machine, with as many slots as replicas and redos need."""
    redo_slots: int | None = None
    """Slots for redo jobs, besides one for each replica; None: as many as `slot_plan.redos_for` says."""
    slot_wait_us: int | None = None
    """How long slots may be missing before the application is restarted, in microseconds; None: 30 s."""
    spark_properties: dict[str, str] = {}
    """Spark properties that the user set; they take precedence. May hold passwords."""

    def __post_init__(self) -> None:
        if self.host not in HOSTS:
            raise ValueError(f"host {self.host!r} is neither {' nor '.join(HOSTS)}")

    @classmethod
    def of(cls, config: Config, log: KafkaLog, host: str, master: str | None = None) -> ProcessSpec:
        """From the configuration and the flags of a command.

        Args:
            log: the configuration's (`config.kafka.log_of`).
            master: None: the configured one.
        """
        spark = config.spark
        configured = str(spark["master"]) if "master" in spark else None
        return cls(
            bootstrap=log.bootstrap,
            data_dir=config.data_dir,
            kafka=dict(log.properties),
            schema_registry=dict(config.schema_registry),
            clusters={
                name: ForeignCluster(c.bootstrap, dict(c.kafka), dict(c.schema_registry))
                for name, c in config.clusters.items()
            },
            topics=dict(config.topics),
            checkpoints=config.checkpoints,
            http=config.http,
            engine_memory_bytes=config.engine_memory_bytes,
            host=host,
            master=master or configured,
            redo_slots=int(spark["redo_slots"]) if "redo_slots" in spark else None,
            slot_wait_us=config.slot_wait_us,
            spark_properties=config.spark_properties,
        )

    @classmethod
    def unconfigured(
        cls, log: KafkaLog, data_dir: Path, host: str = "process", redo_slots: int | None = None
    ) -> ProcessSpec:
        """With defaults whatever the user has configured: for the demo, benches and drills."""
        return cls(log.bootstrap, data_dir, dict(log.properties), host=host, redo_slots=redo_slots)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> ProcessSpec:
        """What `environment` made. Raises ProcessSpecError."""
        text = environment.get(VARIABLE)
        if text is None:
            raise ProcessSpecError(f"{VARIABLE} is not set: start replica processes with `borealis replica`")
        try:
            return msgspec.json.decode(text, type=cls, dec_hook=_path)
        except (msgspec.DecodeError, ValueError, RecursionError) as exc:
            why = " ".join(str(exc).split())
            raise ProcessSpecError(
                f"{VARIABLE} cannot be read: {why}. `borealis up` and `borealis replica` of this version set it"
            ) from exc

    def environment(self) -> dict[str, str]:
        """The environment variable of the process."""
        return {VARIABLE: msgspec.json.encode(self, enc_hook=str).decode()}

    def at(self, place: int) -> ProcessSpec:
        """That of the process at this place among those on a machine, whose HTTP port is that much higher.

        Raises:
            AddressError: not an address, or beyond the last port.
        """
        if self.http is None:
            return self
        return msgspec.structs.replace(self, http=str(Address.parse(self.http).after(place)))

    @property
    def log(self) -> KafkaLog:
        """The Kafka log. Connects to nothing yet. Raises ReservedProperty."""
        from borealis_py.kafka.admin import Copies
        from borealis_py.kafka.log import KafkaLog

        return KafkaLog.of(self.bootstrap, self.kafka, Copies(**self.topics))

    def cluster(self, name: str | None) -> KafkaLog:
        """The log of a cluster; None: the app's own. Raises ProcessSpecError: it is not configured here."""
        if name is None:
            return self.log
        found = self._foreign(name)
        from borealis_py.kafka.log import KafkaLog

        return KafkaLog.of(found.bootstrap, found.kafka)

    def registry_of(self, name: str | None) -> dict[str, str]:
        """Properties of a cluster's schema registry; None: of the app's own cluster.

        Raises:
            ProcessSpecError: cluster or registry are not configured here.
        """
        found = self.schema_registry if name is None else self._foreign(name).schema_registry
        if not found:
            where = f"cluster {name!r}" if name else "the app's own cluster"
            raise ProcessSpecError(
                f"no `schema_registry:` of {where} is in the borealis.yaml of this machine, and the schemas of its "
                "topics are there: give its url"
            )
        return found

    def _foreign(self, name: str) -> ForeignCluster:
        if name not in self.clusters:
            raise ProcessSpecError(
                f"cluster {name!r} is not under `clusters:` in the borealis.yaml of this machine; clusters: "
                f"{', '.join(self.clusters) or 'none'}"
            )
        return self.clusters[name]


def _path(kind: type, value: Any) -> Path:
    """Decode the only fields that JSON has no type for."""
    if kind is not Path or not isinstance(value, str):
        raise ValueError("not a path")
    return Path(value)
