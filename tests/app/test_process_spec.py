"""What a replica process is told survives its way there, whatever it was built of."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from borealis_py.app.process_spec import VARIABLE, ForeignCluster, ProcessSpec, ProcessSpecError
from borealis_py.app.replicas import ProcessName, first_arguments
from borealis_py.config.address import AddressError
from borealis_py.config.config import load
from borealis_py.config.kafka import log_of
from borealis_py.kafka.admin import Copies
from borealis_py.kafka.log import KafkaLog
from borealis_py.runtime.process.__main__ import parse

WHOLE = ProcessSpec(
    bootstrap="host:1,host:2",
    data_dir=Path("/data"),
    kafka={"security.protocol": "SASL_SSL", "sasl.password": "hush"},
    schema_registry={"url": "https://r:8081", "basic.auth.user.info": "me:hush"},
    clusters={"eu": ForeignCluster("eu:1", {"a": "b"}, {"url": "http://r:1"})},
    topics={"replication": 3, "min_insync_replicas": 2},
    checkpoints="s3://id:hush@bucket/path",
    http="[::1]:9400",
    engine_memory_bytes=2 << 30,
    host="spark",
    master="spark://m:7077",
    redo_slots=0,
    slot_wait_us=5_000_000,
    spark_properties={"spark.authenticate.secret": "hush"},
)
LEAST = ProcessSpec("host:1", Path("relative"))
CONFIG = """
bootstrap: host:1,host:2
data_dir: /data
kafka: {security.protocol: SASL_SSL, sasl.password: hush}
schema_registry: {url: "https://r:8081", basic.auth.user.info: "me:hush"}
clusters: {eu: {bootstrap: "eu:1", kafka: {a: b}, schema_registry: {url: "http://r:1"}}}
topics: {replication: 3, min_insync_replicas: 2}
checkpoints: s3://id:hush@bucket/path
http: "[::1]:9400"
engine_memory: 2GiB
spark: {master: "spark://m:7077", redo_slots: 0, slot_wait: 5s, spark.authenticate.secret: hush}
"""


@pytest.mark.parametrize("spec", [WHOLE, LEAST])
def test_it_arrives_as_it_was_sent(spec: ProcessSpec) -> None:
    assert ProcessSpec.from_environment({**spec.environment(), "PATH": "/bin"}) == spec


def test_every_field_differs_from_its_default_in_what_is_sent_here() -> None:
    """So that a new field is added to these tests."""
    assert not [f.name for f in msgspec.structs.fields(ProcessSpec) if getattr(WHOLE, f.name) == f.default]


def test_it_is_built_of_the_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "borealis.yaml"
    file.write_text(CONFIG)
    monkeypatch.setenv("BOREALIS_CONFIG", str(file))
    config = load()
    log = log_of(config)
    assert log == KafkaLog.of(config.bootstrap, config.kafka, Copies(3, 2))
    assert ProcessSpec.of(config, log, "spark") == WHOLE
    other = ProcessSpec.of(config, log, "process", "local[3]")
    assert other == msgspec.structs.replace(WHOLE, host="process", master="local[3]")
    assert WHOLE.log == log


def test_what_is_not_configured_is_left_to_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    spec = ProcessSpec.of(load(), KafkaLog("host:1"), "process")
    assert spec == ProcessSpec("host:1", tmp_path / ".borealis", engine_memory_bytes=1 << 30)
    assert ProcessSpec.unconfigured(KafkaLog("host:1"), Path("relative")) == LEAST


def test_each_process_on_a_machine_answers_at_a_port_of_its_own() -> None:
    assert [WHOLE.at(place).http for place in range(3)] == ["[::1]:9400", "[::1]:9401", "[::1]:9402"]
    assert msgspec.structs.replace(WHOLE.at(2), http=WHOLE.http) == WHOLE
    assert LEAST.at(1) == LEAST
    with pytest.raises(AddressError, match="1 more port "):
        msgspec.structs.replace(WHOLE, http="h:65535").at(1)


def test_an_unknown_host_is_refused_where_it_is_written() -> None:
    with pytest.raises(ValueError, match="'yarn' is neither process nor spark"):
        ProcessSpec("h:1", Path(), host="yarn")


def test_an_error_shows_no_value_of_another_field() -> None:
    sent = WHOLE.environment()[VARIABLE].replace('"redo_slots":0', '"redo_slots":"none"')
    with pytest.raises(ProcessSpecError, match=r"BOREALIS_PROCESS .*redo_slots") as error:
        ProcessSpec.from_environment({VARIABLE: sent})
    assert "hush" not in str(error.value)


def test_a_command_line_says_which_process_it_is() -> None:
    told = parse([*ProcessName(3, "n").arguments("app"), *first_arguments(take_over=True)])
    assert (told.app, told.replica, told.node, told.take_over) == ("app", 3, "n", True)
    told = parse(ProcessName(0).arguments("app"))
    assert (told.app, told.replica, told.node, told.take_over) == ("app", 0, "", False)


def test_the_registry_of_a_cluster_is_named_or_what_is_missing() -> None:
    assert WHOLE.registry_of(None)["url"] == "https://r:8081"
    assert WHOLE.registry_of("eu") == {"url": "http://r:1"}
    with pytest.raises(ProcessSpecError, match="no `schema_registry:` of the app's own cluster"):
        LEAST.registry_of(None)
    with pytest.raises(ProcessSpecError, match="cluster 'us' is not under `clusters:`"):
        WHOLE.registry_of("us")
