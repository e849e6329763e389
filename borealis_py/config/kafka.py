"""The Kafka that is meant: by configuration, the same for commands and for Python's `publisher` and `subscribe`."""

from __future__ import annotations

from pathlib import Path

from borealis_py.config.config import Config
from borealis_py.kafka.broker import LocalBroker
from borealis_py.kafka.log import KafkaLog

BROKER_DIR = "_broker"
"""Below the data directory: where `borealis broker` keeps the local broker. No app can have this name, hence folder."""


def log_of(config: Config) -> KafkaLog:
    """The log of a configuration: its address and its `kafka:` properties. Connects to nothing yet.

    Where no address is configured, that of the broker of this data directory, if it runs: nobody should have to repeat
    the port they gave it.
    """
    address = config.bootstrap
    if "bootstrap" not in config.model_fields_set:
        address = _local_broker(config.data_dir) or address
    return KafkaLog.of(address, config.kafka)


def _local_broker(data_dir: Path) -> str | None:
    directory = data_dir / BROKER_DIR
    return LocalBroker(directory).status().bootstrap if directory.is_dir() else None
