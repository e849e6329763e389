"""Which Java is taken, and what is said where none will do; what its tools take for an option."""

from __future__ import annotations

from pathlib import Path
from uuid import UUID

import pytest

from borealis_py.kafka.broker import new_cluster_id
from borealis_py.kafka.errors import BrokerError
from borealis_py.kafka.java import find_java

APT = r"sudo apt-get install openjdk-17-jre-headless"


def fake_java(directory: Path, says: str, code: int = 0) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    script = directory / "java"
    script.write_text(f"#!/bin/sh\necho '{says}' >&2\nexit {code}\n")
    script.chmod(0o755)
    return script


@pytest.fixture(autouse=True)
def no_java_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    monkeypatch.delenv("JAVA_HOME", raising=False)


@pytest.mark.parametrize(
    "says", ['openjdk version "17.0.15" 2025-04-15', 'openjdk version "21" 2023-09-19', 'java version "25-ea"']
)
def test_a_java_on_the_path_that_is_new_enough_is_taken(tmp_path: Path, says: str) -> None:
    there = fake_java(tmp_path / "path", says)
    assert find_java() == there


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    wanted = fake_java(tmp_path / "home" / "bin", 'openjdk version "21.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == wanted


def test_no_java_is_an_error_with_the_command_that_installs_one() -> None:
    with pytest.raises(BrokerError, match=f"no java on PATH.*{APT}"):
        find_java()


def test_a_java_home_without_java_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_java(tmp_path / "path", 'openjdk version "17.0.1"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(BrokerError, match=f"gone.* has no bin/java.*{APT}"):
        find_java()


@pytest.mark.parametrize(("says", "version"), [('java version "1.8.0_402"', 8), ('openjdk version "11.0.2"', 11)])
def test_an_old_java_is_refused_with_its_version(tmp_path: Path, says: str, version: int) -> None:
    fake_java(tmp_path / "path", says)
    with pytest.raises(BrokerError, match=f"is Java {version}.*{APT}"):
        find_java()


@pytest.mark.parametrize(("says", "code"), [("hello", 0), ('openjdk version "17.0.1"', 1)])
def test_something_that_is_no_java_is_refused(tmp_path: Path, says: str, code: int) -> None:
    fake_java(tmp_path / "path", says, code)
    with pytest.raises(BrokerError, match=f"does not tell its version.*{APT}"):
        find_java()


def test_a_cluster_id_never_looks_like_an_option(monkeypatch: pytest.MonkeyPatch) -> None:
    """One random id in 64 begins with "-", which Kafka's format tool refuses: such a broker did not start."""
    drawn = iter([UUID(bytes=bytes([0xF8 + i] + [0] * 15)) for i in range(4)] + [UUID(int=0)])
    monkeypatch.setattr("uuid.uuid4", lambda: next(drawn))
    assert new_cluster_id() == "A" * 22
    assert next(drawn, None) is None  # all of the others were drawn and left
