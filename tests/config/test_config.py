"""Where a setting comes from, and what is said about those that make no sense."""

from __future__ import annotations

from pathlib import Path

import pytest

from borealis_py.config.config import ConfigError, load
from borealis_py.protocol.settings import SettingsError, Timing


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty current directory and no settings from the environment of the tests."""
    monkeypatch.chdir(tmp_path)
    for name in ("CONFIG", "BOOTSTRAP", "DATA_DIR", "HTTP"):
        monkeypatch.delenv(f"BOREALIS_{name}", raising=False)
    return tmp_path


def write(directory: Path, text: str) -> None:
    (directory / "borealis.yaml").write_text(text)


def test_defaults(here: Path) -> None:
    config = load()
    assert config.bootstrap == "localhost:9092"
    assert config.data_dir == here / ".borealis"
    assert config.protocol_timing() == Timing()
    assert config.slot_wait_us is None


def test_flag_over_environment_over_file_over_default(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(here, "bootstrap: file:1\n")
    assert load().bootstrap == "file:1"
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", "env:2")
    assert load().bootstrap == "env:2"
    assert load(bootstrap="flag:3").bootstrap == "flag:3"
    assert load(bootstrap=None).bootstrap == "env:2"


def test_another_file_by_name(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "other.yaml").write_text("bootstrap: other:1\n")
    monkeypatch.setenv("BOREALIS_CONFIG", str(here / "other.yaml"))
    assert load().bootstrap == "other:1"
    monkeypatch.setenv("BOREALIS_CONFIG", str(here / "gone.yaml"))
    with pytest.raises(ConfigError, match=r"gone\.yaml"):
        load()


def test_kafka_properties_are_a_dotted_map_of_text(here: Path) -> None:
    write(here, "kafka:\n  security.protocol: SSL\n  enable.ssl.certificate.verification: false\n  linger.ms: 5\n")
    assert load().kafka == {
        "security.protocol": "SSL",
        "enable.ssl.certificate.verification": "false",
        "linger.ms": "5",
    }


def test_where_to_answer_http(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().http is None
    write(here, "http: 127.0.0.1:9400\n")
    assert load().http == "127.0.0.1:9400"
    monkeypatch.setenv("BOREALIS_HTTP", "nowhere")
    with pytest.raises(ConfigError, match=r"'http': 'nowhere' is not HOST:PORT; .*BOREALIS_HTTP"):
        load()


def test_other_clusters_have_names(here: Path) -> None:
    assert load().clusters == {}
    write(here, "clusters:\n  eu:\n    bootstrap: eu:9092\n    kafka:\n      security.protocol: SSL\n      a: true\n")
    (eu,) = load().clusters.values()
    assert (eu.bootstrap, eu.kafka) == ("eu:9092", {"security.protocol": "SSL", "a": "true"})


def test_timing_has_units(here: Path) -> None:
    write(here, "timing:\n  delta: 200ms\n  slack_us: 300ms\n  redo_rows: 7\n")
    timing = load().protocol_timing()
    assert (timing.delta_us, timing.slack_us, timing.redo_rows) == (200_000, 300_000, 7)


def test_zero_where_it_has_a_meaning(here: Path) -> None:
    write(here, "timing:\n  inline: 0s\n  inline_buckets: 0\n  skew: 0ms\n")
    timing = load().protocol_timing()
    assert (timing.inline_us, timing.inline_buckets, timing.skew_us) == (0, 0, 0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bootstrp: x\n", "did you mean 'bootstrap'"),
        ("kafka:\n  security: {protocol: SSL}\n", "with dots"),
        ("kafka: 3\n", "setting 'kafka': it must be a map"),
        ("bootstrap: ''\n", "setting 'bootstrap': it is empty"),
        ("engine_memory: 1\n", "setting 'engine_memory': it must be text; put it in quotes"),
        ("a: [1\n", "is not YAML"),
        ("clusters: eu\n", "setting 'clusters': it must be a map"),
        ("clusters: {eu: 5}\n", "setting 'clusters.eu': it must be a map"),
        ("data_dir: 5\n", "setting 'data_dir': it must be the path of a directory"),
        ("clusters:\n  eu: {}\n", r"setting 'clusters\.eu\.bootstrap': it is missing"),
        ("clusters:\n  eu:\n    bootstrp: x\n", r"'clusters\.eu\.bootstrp'; did you mean 'bootstrap'"),
        ("clusters:\n  eu:\n    bootstrap: x:1\n    kafka: {a: {b: c}}\n", "with dots"),
        ("- 1\n", r"borealis\.yaml"),
    ],
)
def test_a_file_that_makes_no_sense(here: Path, text: str, message: str) -> None:
    write(here, text)
    with pytest.raises(ConfigError, match=message):
        load()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delt: 100ms", "did you mean 'delta'"),
        ("delta: 100", "no unit"),
        ("delta: soon", "not a duration"),
        ("redo_rows: 0", "at least 1"),
        ("redo_rows: many", "at least 1"),
        ("inline_buckets: -1", "at least 0"),
        ("inline_buckets: many", "at least 0"),
        ("heartbeat: 0s", "'0s' must be more than zero"),
        ("inline: -1s", "must not be negative"),
    ],
)
def test_timing_that_makes_no_sense(here: Path, text: str, message: str) -> None:
    write(here, f"timing:\n  {text}\n")
    with pytest.raises(ConfigError, match=message):
        load().protocol_timing()


def test_timing_that_cannot_hold_together(here: Path) -> None:
    write(here, "timing:\n  delta: 10ms\n")
    with pytest.raises(SettingsError, match="at least 100000 us"):
        load().protocol_timing()


def test_spark_takes_its_own_properties_and_three_of_ours(here: Path) -> None:
    ours = "  master: spark://m:7077\n  redo_slots: 2\n  slot_wait: 90s\n"
    write(here, f"spark:\n{ours}  spark.executor.memory: 1g\n  spark.ui.enabled: true\n")
    config = load()
    assert (config.spark["master"], config.spark["redo_slots"]) == ("spark://m:7077", 2)
    assert config.slot_wait_us == 90_000_000
    assert config.spark_properties == {"spark.executor.memory": "1g", "spark.ui.enabled": "true"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("mastr: local", "'mastr'; did you mean 'master'"),
        ("redo_slots: -1", "redo_slots: -1 is not a whole number"),
        ("slot_wait: 30", "slot_wait: 30 is not a duration"),
        ('slot_wait: "30"', "slot_wait: '30' has no unit"),
        ("slot_wait: 0s", "slot_wait: '0s' must be more than zero"),
    ],
)
def test_a_spark_setting_that_is_none_is_refused(here: Path, text: str, says: str) -> None:
    write(here, f"spark:\n  {text}\n")
    with pytest.raises(ConfigError, match=says):
        load()


def test_copies_of_topics_are_those_of_the_cluster_or_set(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().topics == {}
    write(here, "topics: {replication: 3, min_insync_replicas: 2}\n")
    assert load().topics == {"replication": 3, "min_insync_replicas": 2}
    monkeypatch.setenv("BOREALIS_TOPICS__REPLICATION", "2")
    assert load().topics == {"replication": 2, "min_insync_replicas": 2}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("replicaton: 3", "'replicaton'; did you mean 'replication'"),
        ("replication: 0", "replication: 0 is not a whole number of at least 1"),
        ("replication: many", "topics.replication"),
        ("min_insync_replicas: 2", "min_insync_replicas needs a replication that is at least as large"),
    ],
)
def test_copies_that_cannot_be_are_refused(here: Path, text: str, says: str) -> None:
    write(here, f"topics:\n  {text}\n")
    with pytest.raises(ConfigError, match=says):
        load()


def test_checkpoints_lie_at_a_uri(here: Path) -> None:
    assert load().checkpoints == ""
    write(here, "checkpoints: s3://bucket/borealis\n")
    assert load().checkpoints == "s3://bucket/borealis"
    write(here, "checkpoints: kafka\n")
    assert load().checkpoints == "kafka"
    write(here, "checkpoints: /somewhere\n")
    with pytest.raises(ConfigError, match="'checkpoints': write kafka, or a URI"):
        load()


def test_the_engine_s_memory_and_the_size_of_a_row(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load().engine_memory_bytes == 1 << 30
    write(here, "engine_memory: 512MiB\ntiming:\n  row_max: 2000000\n")
    assert load().engine_memory_bytes == 512 << 20
    assert load().protocol_timing().row_max_bytes == 2_000_000
    monkeypatch.setenv("BOREALIS_ENGINE_MEMORY", "1MB")
    with pytest.raises(ConfigError, match="1MB is too little for any query; use at least 64MiB"):
        load()
    monkeypatch.setenv("BOREALIS_ENGINE_MEMORY", "much")
    with pytest.raises(ConfigError, match="'much' is not a size"):
        load()
    monkeypatch.delenv("BOREALIS_ENGINE_MEMORY")
    write(here, "timing:\n  row_max: 9000000\n")
    with pytest.raises(SettingsError, match="at most 7500000, as a record has no room for more"):
        load().protocol_timing()
