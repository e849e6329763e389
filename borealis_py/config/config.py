"""Configuration: flags over environment over file over defaults. Knows no commands.

bootstrap: localhost:9092          # borealis.yaml; or BOREALIS_BOOTSTRAP, or --bootstrap
data_dir: .borealis
checkpoints: s3://bucket/path      # any URI of pyarrow.fs, or kafka; else below data_dir
http: 127.0.0.1:9400               # where the first replica process answers HTTP; the others use the ports after it
engine_memory: 1GiB                # memory limit of each replica's SQL engine
kafka:                             # passed to librdkafka unchanged
  security.protocol: SASL_SSL
clusters:                          # other Kafka clusters, from which `app.topic(..., cluster="eu")` reads
  eu:
    bootstrap: eu.example.com:9092
    kafka:
      security.protocol: SASL_SSL
topics:                            # of the topics that are made for an app; else the cluster's defaults
  replication: 3
  min_insync_replicas: 2
timing:                            # protocol.settings.Timing, with units; `up` makes it part of the app's description
  delta: 125ms
  inline: 1s                       # a redo that is expected to take longer becomes jobs on Spark
  row_max: 1000000                 # bytes of a row; a larger one is a dead letter
spark:                             # of each replica process's application
  master: local[2]
  redo_slots: 1                    # besides one per replica; on this machine 2 for two replicas and up
  slot_wait: 30s                   # slots missing for this long: the application is restarted if that helps
  spark.executor.memory: 1g        # any Spark property
"""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict, YamlConfigSettingsSource

from borealis_py.config.address import Address
from borealis_py.protocol.settings import MAY_BE_ZERO, Timing
from borealis_py.query.errors import did_you_mean, wrong_place, wrong_value
from borealis_py.query.units import format_duration, parse_bytes, parse_duration

FILE = "borealis.yaml"
DEFAULT_BOOTSTRAP = "localhost:9092"
ENGINE_MEMORY_LEAST = 64 << 20
COPIES_MAX = 32_767
_TOPICS = ("replication", "min_insync_replicas")
_SPARK = ("master", "redo_slots", "slot_wait")
_MAP = "it must be a map: a line `name: value`, indented, for each setting"
_PLAIN = {
    "missing": "it is missing",
    "string_type": "it must be text; put it in quotes",
    "string_too_short": "it is empty",
    "dict_type": _MAP,
    "model_type": _MAP,
    "model_attributes_type": _MAP,
    "path_type": "it must be the path of a directory",
}
"""What is wrong with a value, instead of pydantic's words for it."""
_TIMING = {f.name for f in fields(Timing)}


class ConfigError(ValueError):
    """The configuration cannot be used; the message names the setting."""


def _dotted(value: object) -> object:
    """YAML's true and 5 become "true" and "5", as librdkafka wants; nested maps are refused: use dotted names."""
    if not isinstance(value, dict):
        return value
    nested = [name for name, v in value.items() if isinstance(v, dict | list)]
    if nested:
        raise ValueError(f"write properties with dots, like security.protocol: SSL; {nested[0]!r} is nested")
    return {str(k): str(v).lower() if isinstance(v, bool) else str(v) for k, v in value.items()}


Properties = Annotated[dict[str, str], BeforeValidator(_dotted)]


class Cluster(BaseModel):
    """Another Kafka cluster: its brokers (`bootstrap`: `HOST:PORT`, comma-separated), librdkafka properties (`kafka`)
    and the registry of its topics' schemas (`schema_registry`), as for the app's own."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bootstrap: str = Field(min_length=1)
    kafka: Properties = {}
    schema_registry: Properties = {}


class Config(BaseSettings):
    """The configuration of every command and replica process. Create one with `load`."""

    model_config = SettingsConfigDict(env_prefix="BOREALIS_", env_nested_delimiter="__", extra="forbid", frozen=True)
    file: ClassVar[Path | None] = None

    bootstrap: str = Field(default=DEFAULT_BOOTSTRAP, min_length=1)
    """Kafka brokers, `HOST:PORT`, comma-separated; must not be empty. Set it if Kafka does not run on this machine."""
    data_dir: Path = Path(".borealis")
    """Directory for logs and, without `checkpoints`, the state of replicas. Relative to where a command is run: set it
    to run commands from elsewhere, or to keep state on another disk.
    """
    checkpoints: str = ""
    """Where replicas save their state: `kafka`, in topics of the app; a URI of pyarrow.fs, like `s3://bucket/path`;
    empty: below `data_dir`. Set it if a replica may restart on another machine.
    """
    http: str | None = None
    """Address at which replica processes answer HTTP: `HOST:PORT` of the first, the others use the ports after it; port
    0: any; none: no HTTP. Set it for metrics and health checks.
    """
    engine_memory: str = "1GiB"
    """Memory limit of the engine of each replica, at least 64MiB. Raise it if a replica ends with "out of memory",
    lower it where many replicas share a machine.
    """
    kafka: Properties = {}
    """librdkafka properties for every client, with dots: `security.protocol: SSL`. Properties on which the guarantees
    rest cannot be set (`borealis_py/kafka/properties.py`). None: plain text, no login. Set them for TLS and SASL.
    """
    schema_registry: Properties = {}
    """The registry that has the schemas of topics which other programs write: `url: http://registry:8081`, and with
    dots the other properties of confluent-kafka's SchemaRegistryClient (`basic.auth.user.info`, `ssl.ca.location`).
    None: there is none. Set it for `format=Avro()` without a writer schema.
    """
    clusters: dict[str, Cluster] = {}
    """Other Kafka clusters, by a name of your choice, whose topics the app reads (`app.topic(..., cluster="eu")`): each
    with `bootstrap:` and, if it needs any, `kafka:` and `schema_registry:` like those above. None: topics are in the
    app's own cluster.
    """
    topics: dict[str, int] = {}
    """Of the topics that are made for an app: `replication`, how many brokers have a copy of each, and
    `min_insync_replicas`, how many of them must have a record before it counts as written. None: the cluster's
    defaults. Set them to 3 and 2 on a cluster of three brokers and more. Topics that are there stay as they are.
    """
    timing: dict[str, str | int] = {}
    """Constants of the protocol, below; the others keep their defaults. `up` writes them into the app's description."""
    spark: dict[str, str | int] = {}
    """`master`: of a standalone cluster, else `local`; `redo_slots`: for redos, in addition to one slot per replica, in
    each application (1; on this machine 2 for two replicas and up; 0: redos run in the replica's own process);
    `slot_wait`: how long slots may be missing before the application is restarted (`30s`; not 0), longer on a cluster
    that is slow to replace executors; and Spark's own `spark.*`. Set them to use a cluster.
    """

    @field_validator("topics", mode="after")
    @classmethod
    def _copies(cls, value: dict[str, int]) -> dict[str, int]:
        for name, number in value.items():
            if name not in _TOPICS:
                hint = did_you_mean(name, _TOPICS) or ";"
                raise ValueError(f"unknown setting {name!r}{hint} settings: {', '.join(_TOPICS)}")
            if not 1 <= number <= COPIES_MAX:
                raise ValueError(f"{name}: {number} is not a whole number of at least 1")
        if value.get("min_insync_replicas", 1) > value.get("replication", 1):
            raise ValueError(
                "min_insync_replicas needs a replication that is at least as large: nothing could be written"
            )
        return value

    @field_validator("spark", mode="before")
    @classmethod
    def _spark(cls, value: object) -> object:
        if not isinstance(value, dict):
            return value
        for name in value:
            if name not in _SPARK and not name.startswith("spark."):
                hint = did_you_mean(name, _SPARK) or ";"
                raise ValueError(
                    f"unknown setting {name!r}{hint} settings: {', '.join(_SPARK)}, and Spark's own spark.*"
                )
        slots = value.get("redo_slots", 1)
        if not str(slots).isdigit():
            raise ValueError(f"redo_slots: {slots!r} is not a whole number of at least 0")
        if "slot_wait" in value:
            parse_duration(value["slot_wait"], "slot_wait")
        return {name: str(v).lower() if isinstance(v, bool) else v for name, v in value.items()}

    @property
    def spark_properties(self) -> dict[str, str]:
        """The Spark properties that the user set."""
        return {name: str(value) for name, value in self.spark.items() if name.startswith("spark.")}

    @property
    def slot_wait_us(self) -> int | None:
        """How long slots of Spark may be missing; None: not set."""
        return parse_duration(str(self.spark["slot_wait"]), "slot_wait") if "slot_wait" in self.spark else None

    @field_validator("engine_memory", mode="after")
    @classmethod
    def _memory(cls, value: str) -> str:
        if parse_bytes(value, "engine_memory") < ENGINE_MEMORY_LEAST:
            raise ValueError(f"{value} is too little for any query; use at least 64MiB")
        return value

    @property
    def engine_memory_bytes(self) -> int:
        """Memory limit of the engine of each replica, in bytes."""
        return parse_bytes(self.engine_memory, "engine_memory")

    @field_validator("checkpoints", mode="after")
    @classmethod
    def _uri(cls, value: str) -> str:
        if value and value != "kafka" and "://" not in value:
            raise ValueError("write kafka, or a URI like s3://bucket/path, hdfs://host:port/path or file:///path")
        return value

    @field_validator("http", mode="after")
    @classmethod
    def _address(cls, value: str | None) -> str | None:
        return None if value is None else str(Address.parse(value))

    @field_validator("data_dir", mode="after")
    @classmethod
    def _absolute(cls, value: Path) -> Path:
        return value.expanduser().absolute()

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, YamlConfigSettingsSource(settings_cls, yaml_file=config_file())

    def protocol_timing(self) -> Timing:
        """The timing of this configuration. Raises ConfigError for invalid settings, SettingsError for contradictory
        ones.
        """
        timing = Timing(**dict(self.timing_overrides()))
        timing.validate()
        return timing

    def timing_overrides(self) -> tuple[tuple[str, int], ...]:
        """The fields of `Timing` that are set; times in microseconds. Raises ConfigError."""
        return tuple((_field(name), _value(name, value)) for name, value in self.timing.items())


def config_file() -> Path:
    """BOREALIS_CONFIG, or borealis.yaml in the current directory (it need not exist)."""
    return Path(os.environ.get("BOREALIS_CONFIG") or FILE)


def load(**flags: Any) -> Config:
    """Read the configuration.

    Args:
        flags: the ones that the user gave; None: not given.

    Raises:
        ConfigError: a setting that does not exist or has an invalid value.
    """
    named = os.environ.get("BOREALIS_CONFIG")
    if named and not Path(named).is_file():
        raise ConfigError(f"BOREALIS_CONFIG names {named}, which does not exist")
    try:
        return Config(**{name: value for name, value in flags.items() if value is not None})
    except ValidationError as exc:
        raise ConfigError("; ".join(_explain(e) for e in exc.errors())) from exc
    except Exception as exc:
        if _is_yaml_error(exc):
            raise ConfigError(f"{config_file()} is not YAML: {' '.join(str(exc).split())}") from exc
        if not isinstance(exc, OSError | ValueError | TypeError | RecursionError):
            raise
        raise ConfigError(f"cannot read the configuration ({config_file()}, BOREALIS_*): {exc}") from exc


def _is_yaml_error(exc: Exception) -> bool:
    """Of the library that is loaded only where there is a file."""
    yaml = sys.modules.get("yaml")
    return yaml is not None and isinstance(exc, yaml.YAMLError)


def _explain(error: Any) -> str:
    where = wrong_place(error)
    if error["type"] == "extra_forbidden":
        known = Config.model_fields if len(error["loc"]) == 1 else Cluster.model_fields
        hint = did_you_mean(str(error["loc"][-1]), known) or ";"
        return f"{config_file()}: unknown setting {where!r}{hint} settings: {', '.join(known)}"
    message = _PLAIN.get(error["type"]) or wrong_value(error)
    return f"setting {where!r}: {message} (from {config_file()}, BOREALIS_{where.split('.')[0].upper()} or a flag)"


def written(field: str) -> str:
    """The name of a field of `Timing` under `timing:`."""
    return "row_max" if field == "row_max_bytes" else field.removesuffix("_us")


def shown(field: str, value: int) -> str:
    """The value of a field of `Timing` as written under `timing:`."""
    return format_duration(value) if field.endswith("_us") else str(value)


def _field(name: str) -> str:
    for candidate in (name, f"{name}_us", f"{name}_bytes"):
        if candidate in _TIMING:
            return candidate
    known = sorted(map(written, _TIMING))
    hint = did_you_mean(name, known) or ";"
    raise ConfigError(f"timing: unknown setting {name!r}{hint} settings: {', '.join(known)}")


def _value(name: str, value: str | int) -> int:
    zero = _field(name) in MAY_BE_ZERO
    if _field(name).endswith("_us"):
        if not isinstance(value, str):
            raise ConfigError(f'timing.{name}: {value} has no unit; write it like "125ms" or "3s"')
        try:
            return parse_duration(value, f"timing.{name}", zero)
        except ValueError as exc:
            raise ConfigError(str(exc)) from exc
    least = 0 if zero else 1
    try:
        number = int(value)
    except ValueError:
        number = -1
    if number < least:
        raise ConfigError(f"timing.{name}: {value!r} is not a whole number of at least {least}")
    return number
