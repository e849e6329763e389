"""docker-compose.yml as far as a file can be judged: `make compose-test` runs it."""

from __future__ import annotations

import re
import stat
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from borealis_py.cli.main import app as commands

ROOT = Path(__file__).parents[2]
FILE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = FILE["services"]
ONCE = {"prepare", "app"}
"""They end when they have done their work, and everything else waits for that."""
MEMORY_MB = 8 * 1024
SOURCES = ("ewr", "jfk", "lga")


def test_all_parts_are_there() -> None:
    assert set(SERVICES) == {
        *("kafka", "spark-master", "spark-worker-0", "spark-worker-1", "replica-0", "replica-1", "subscriber"),
        *("ingress-0", "ingress-1"),
        *(f"publisher-{source}" for source in SOURCES),
        *ONCE,
    }


def test_ingresses_start_only_when_they_are_asked_for() -> None:
    """The app of the file reads no topics of other programs."""
    assert {name for name, service in SERVICES.items() if "profiles" in service} == {"ingress-0", "ingress-1"}
    for k in (0, 1):
        assert SERVICES[f"ingress-{k}"]["profiles"] == ["topics"]
        assert SERVICES[f"ingress-{k}"]["command"] == ["borealis", "ingress", str(k)]


def test_the_broker_keeps_rows_of_any_event_time() -> None:
    assert SERVICES["kafka"]["environment"]["KAFKA_LOG_RETENTION_MS"] == -1


def test_memory_fits() -> None:
    limits = {name: re.fullmatch(r"(\d+)m", service["mem_limit"]) for name, service in SERVICES.items()}
    assert None not in limits.values()
    assert sum(int(limit[1]) for limit in limits.values() if limit) <= MEMORY_MB


def test_one_image_is_built_once_and_before_it_is_used() -> None:
    assert [name for name, service in SERVICES.items() if "build" in service] == ["prepare"]
    assert {service["image"] for name, service in SERVICES.items() if name != "kafka"} == {"borealis-py:local"}
    for name, service in SERVICES.items():
        assert name in ("kafka", "prepare") or "prepare" in waits_for(name), name
        assert not service["image"].endswith(":latest")


def waits_for(name: str) -> set[str]:
    """What a service waits for, and what that waits for."""
    direct = set(SERVICES[name].get("depends_on", ()))
    return direct.union(*(waits_for(other) for other in direct))


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_looked_after(name: str) -> None:
    service = SERVICES[name]
    assert service["restart"] == ("on-failure" if name in ONCE | FINITE else "unless-stopped")
    assert ("healthcheck" in service) == (name not in ONCE)
    assert service["logging"]["options"]["max-size"]
    for other, how in service.get("depends_on", {}).items():
        wanted = "service_completed_successfully" if other in ONCE else "service_healthy"
        assert how == {"condition": wanted}
    for volume in service.get("volumes", ()):
        assert volume.split(":")[0] in FILE["volumes"]


FINITE = {"subscriber", *(f"publisher-{source}" for source in SOURCES)}


def test_ports_are_for_this_machine_only_and_can_be_changed() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", ())]
    assert len(ports) == 3
    assert all(re.fullmatch(r"127\.0\.0\.1:\$\{[A-Z0-9_]+:-\d+\}:\d+", port) for port in ports)
    assert len({port.split(":-")[1].split("}")[0] for port in ports}) == 3


@pytest.mark.parametrize("name", [n for n, s in SERVICES.items() if s.get("command", [""])[0] == "borealis"])
def test_its_commands_are_ours(name: str) -> None:
    _, command, *arguments = SERVICES[name]["command"]
    options = {a.split("=")[0] for a in arguments if a.startswith("--")}
    said = CliRunner().invoke(commands, [command, "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert said.exit_code == 0
    assert options <= set(re.findall(r"--[a-z-]+", said.output))


@pytest.mark.parametrize("name", [n for n in SERVICES if n.startswith(("replica-", "publisher-"))])
def test_what_is_started_again_takes_no_place_from_one_that_lives(name: str) -> None:
    """Two containers of one index or source would replace each other for ever."""
    assert SERVICES[name]["restart"] == ("unless-stopped" if name.startswith("replica-") else "on-failure")
    assert "--take-over" not in SERVICES[name]["command"]


def test_a_compose_file_of_this_kind_needs_no_version_and_no_names() -> None:
    assert "version" not in FILE
    assert not any("container_name" in service for service in SERVICES.values())


def test_what_the_image_has_for_health_checks_can_be_run() -> None:
    scripts = list((ROOT / "deploy" / "container").iterdir())
    asked = {s["healthcheck"]["test"][1] for s in SERVICES.values() if "healthcheck" in s} - {"bash"}
    assert asked == {path.name for path in scripts}
    assert all(path.stat().st_mode & stat.S_IXUSR for path in scripts)


THREE = yaml.safe_load((ROOT / "docker-compose.three-brokers.yml").read_text())["services"]
BROKERS = ("kafka", "kafka-2", "kafka-3")


def test_three_brokers_differ_in_their_names_alone() -> None:
    first, *others = ({**FILE["services"].get(name, {}).get("environment", {}), **THREE[name]["environment"]}
                      for name in BROKERS)  # fmt: skip
    own = {"KAFKA_NODE_ID", "KAFKA_ADVERTISED_LISTENERS"}
    for n, other in enumerate(others, 2):
        assert {key for key in first if first[key] != other.get(key)} == own
        assert other["KAFKA_NODE_ID"] == n
    assert first["KAFKA_MIN_INSYNC_REPLICAS"] == 2
    voters = first["KAFKA_CONTROLLER_QUORUM_VOTERS"].split(",")
    assert voters == [f"{n}@{name}:9093" for n, name in enumerate(BROKERS, 1)]
    for name in BROKERS[1:]:
        assert THREE[name]["image"] == SERVICES["kafka"]["image"]
        assert THREE[name]["healthcheck"] == SERVICES["kafka"]["healthcheck"]
        assert all(port.startswith("127.0.0.1:") for port in THREE[name]["ports"])


def test_whoever_is_told_of_one_broker_is_told_of_three() -> None:
    told = {name for name, s in SERVICES.items() if "BOREALIS_BOOTSTRAP" in s.get("environment", {})}
    assert told == set(THREE) - set(BROKERS)
    for name in told:
        assert THREE[name]["environment"]["BOREALIS_BOOTSTRAP"] == ",".join(f"{broker}:9092" for broker in BROKERS)
