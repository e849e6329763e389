"""The archive of Spark's classes: who uses it, and that nothing depends on it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from borealis_py.kafka import cache
from borealis_py.kafka.java import find_java
from borealis_py.runtime.spark import class_archive
from borealis_py.runtime.spark.session import ReplicaSession, SparkSettings


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "a cache"))
    return cache.root()


def test_a_jvm_uses_what_is_there(home: Path) -> None:
    java = find_java()
    assert class_archive.options(java) == ()
    assert not class_archive.there()
    path = class_archive.archive(java)
    assert path.parent == home
    home.mkdir(parents=True)
    path.write_bytes(b"")
    assert class_archive.options(java)[0] == f'"-XX:SharedArchiveFile={path}"'
    assert class_archive.there()


def test_another_java_has_another_one(tmp_path: Path) -> None:
    other = tmp_path / "java"
    other.write_text("")
    assert class_archive.archive(other) != class_archive.archive(find_java())


def test_without_java_it_is_nobody_s_business_here(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert class_archive.there()


def test_one_that_cannot_be_made_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("java", 1)

    monkeypatch.setattr(subprocess, "run", late)
    assert not class_archive.make()


@pytest.mark.spark
def test_it_is_made_once_and_a_jvm_starts_with_it(home: Path, tmp_path: Path) -> None:
    assert class_archive.make()
    (made,) = home.glob("*.jsa")
    before = made.stat()
    assert class_archive.make()
    assert made.stat() == before
    session = ReplicaSession.start_spark("tests", SparkSettings("local[1]", 1), tmp_path / "spark.log")
    try:
        with open(f"/proc/{session.jvm_pid}/maps") as maps:
            assert str(made) in maps.read()
    finally:
        session.stop()
