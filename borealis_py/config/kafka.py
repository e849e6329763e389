"""The Kafka log of a configuration, for commands and for the API's `publisher` and `subscribe`."""

from __future__ import annotations

from pathlib import Path

from borealis_py.config.config import Config
from borealis_py.kafka.broker import LocalBroker
from borealis_py.kafka.log import KafkaLog

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
    return KafkaLog.of(address, config.kafka)


def _local_broker(data_dir: Path) -> str | None:
    directory = data_dir / BROKER_DIR
    return LocalBroker(directory).status().bootstrap if directory.is_dir() else None
