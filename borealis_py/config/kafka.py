"""The Kafka logs of a configuration: the app's own, for commands and the API, and those of other clusters."""

from __future__ import annotations

from pathlib import Path

from borealis_py.config.config import Config, ConfigError, config_file
from borealis_py.kafka.admin import Copies
from borealis_py.kafka.log import KafkaLog
from borealis_py.query.errors import did_you_mean

BROKER_DIR = "_broker"
"""Directory of the local broker (`borealis broker`) below the data directory. No app can have this name, hence no
folder.
"""


def log_of(config: Config) -> KafkaLog:
    """The log of a configuration: its address and its `kafka:` properties. Connects to nothing yet.

    If no address is configured, it is that of this data directory's broker, if it runs: users need not repeat
    the port they gave it.
    """
    address = config.bootstrap
    if "bootstrap" not in config.model_fields_set:
        address = _local_broker(config.data_dir) or address
    return KafkaLog.of(address, config.kafka, Copies(**config.topics))


def cluster_of(config: Config, own: KafkaLog, name: str | None) -> KafkaLog:
    """The log of a cluster under `clusters:`. Connects to nothing yet.

    Args:
        own: the app's log. name: None: the app's own cluster.

    Raises:
        ConfigError: no such cluster. ReservedProperty: see `KafkaLog`.
    """
    if name is None:
        return own
    if name not in config.clusters:
        hint = did_you_mean(name, config.clusters) or ";"
        raise ConfigError(
            f"clusters: there is no cluster {name!r} in {config_file()}{hint} clusters: "
            f"{', '.join(config.clusters) or 'none'}"
        )
    found = config.clusters[name]
    return KafkaLog.of(found.bootstrap, found.kafka)


def registry_of(config: Config, name: str | None) -> dict[str, str]:
    """Properties of the schema registry of a cluster under `clusters:`; None: of the app's own.

    Raises:
        ConfigError: no such cluster, or it has no registry.
    """
    if name is not None and name not in config.clusters:
        raise ConfigError(f"clusters: there is no cluster {name!r} in {config_file()}")
    found = config.schema_registry if name is None else config.clusters[name].schema_registry
    if not found:
        where = f"clusters: {name}: schema_registry:" if name else "schema_registry:"
        raise ConfigError(
            f"{where} is not in {config_file()}, and schemas of the app's topics are in a registry: give its url, like "
            "url: http://localhost:8081"
        )
    return found


def _local_broker(data_dir: Path) -> str | None:
    directory = data_dir / BROKER_DIR
    if not directory.is_dir():
        return None
    from borealis_py.kafka.broker import LocalBroker

    return LocalBroker(directory).status().bootstrap
