"""Fetching Kafka's jars: all or nothing, the right ones, once."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from borealis_py.kafka import jars
from borealis_py.kafka.errors import BrokerError
from tests.harness.waiting import PATIENCE_S

CONTENT = {"one-1.0.jar": b"one", "two-2.0.jar": b"two"}
SUMS = {name: hashlib.sha256(content).hexdigest() for name, content in CONTENT.items()}
JAVA = Path("/no/java")
Way = Callable[[Path, Path, Path], None]


def brings(content: dict[str, bytes]) -> Way:
    def way(_java: Path, _staging: Path, directory: Path) -> None:
        for name, data in content.items():
            (directory / name).write_bytes(data)

    return way


def fails(_java: Path, _staging: Path, _directory: Path) -> None:
    raise BrokerError("no network")


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[Way, Way], None]:
    """A world of two jars, an empty cache, and two ways to fetch."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "not" / "there" / "yet"))
    monkeypatch.setattr(jars, "JARS", SUMS)
    monkeypatch.setattr(jars.verify, "__defaults__", (SUMS,))

    def choose(maven: Way, ivy: Way) -> None:
        monkeypatch.setattr(jars, "_with_maven", maven)
        monkeypatch.setattr(jars, "_with_ivy", ivy)

    return choose


def leftovers() -> list[str]:
    return sorted(p.name for p in jars.cache_dir().parent.iterdir() if p.is_dir())


def test_what_was_fetched_is_kept_and_not_fetched_again(ways: Callable[[Way, Way], None]) -> None:
    ways(brings(CONTENT), fails)
    directory = jars.fetch(JAVA)
    assert {p.name: p.read_bytes() for p in directory.iterdir()} == CONTENT
    ways(fails, fails)
    assert jars.fetch(JAVA) == directory
    assert leftovers() == [directory.name]


def test_the_second_way_is_tried_when_the_first_fails(ways: Callable[[Way, Way], None]) -> None:
    ways(fails, brings(CONTENT))
    assert {p.name for p in jars.fetch(JAVA).iterdir()} == set(CONTENT)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"one-1.0.jar": b"one"}, "brought no two-2.0.jar"),
        ({**CONTENT, "evil.jar": b""}, "evil.jar, which does not belong"),
        ({**CONTENT, "two-2.0.jar": b"tw0"}, "two-2.0.jar has the wrong checksum"),
    ],
)
def test_wrong_jars_are_refused_and_leave_no_cache(
    ways: Callable[[Way, Way], None], content: dict[str, bytes], said: str
) -> None:
    ways(brings(content), fails)
    with pytest.raises(BrokerError, match=f"{said}(.|\n)*no network"):
        jars.fetch(JAVA)
    assert leftovers() == []


def test_a_half_way_that_failed_does_not_mix_with_the_next(ways: Callable[[Way, Way], None]) -> None:
    ways(brings({"one-1.0.jar": b"half", "junk.jar": b""}), brings(CONTENT))
    assert {p.name for p in jars.fetch(JAVA).iterdir()} == set(CONTENT)


def test_what_a_killed_fetch_left_is_swept(ways: Callable[[Way, Way], None]) -> None:
    partial = jars.cache_dir().parent / f"{jars.cache_dir().name}.partial-dead"
    (partial / "jars").mkdir(parents=True)
    ways(brings(CONTENT), fails)
    jars.fetch(JAVA)
    assert leftovers() == [jars.cache_dir().name]


def test_a_cache_with_a_jar_deleted_by_hand_is_fetched_anew(ways: Callable[[Way, Way], None]) -> None:
    ways(brings(CONTENT), fails)
    (jars.fetch(JAVA) / "one-1.0.jar").unlink()
    jars.fetch(JAVA)
    jars.verify(jars.cache_dir(), SUMS)


def test_two_fetches_at_once_are_one(ways: Callable[[Way, Way], None]) -> None:
    started, release, calls = threading.Event(), threading.Event(), []

    def slow(java: Path, staging: Path, directory: Path) -> None:
        calls.append(1)
        started.set()
        assert release.wait(PATIENCE_S)
        brings(CONTENT)(java, staging, directory)

    ways(slow, fails)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(jars.fetch(JAVA))) for _ in range(2)]
    for thread in threads:
        thread.start()
    assert started.wait(PATIENCE_S)
    release.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert found == [jars.cache_dir()] * 2
    assert calls == [1]


def test_a_cache_that_cannot_be_made_is_said_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(BrokerError, match="Set XDG_CACHE_HOME to move them"):
        jars.fetch(JAVA)


def test_a_fetcher_that_fails_is_quoted() -> None:
    with pytest.raises(BrokerError, match=r"Ivy ended with 3: .*second \| third"):
        jars._run("Ivy", ["sh", "-c", "echo first; echo second; echo third; exit 3"])
