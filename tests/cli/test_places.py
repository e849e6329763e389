"""Where checkpoints cannot be written: told before anything starts or is written, by `check` and `up`. No broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from borealis_py.config import probe
from borealis_py.node import checkpoint_storage
from tests.cli.commands import Borealis, app_text
from tests.harness.faults import full_disk
from tests.support.buckets import SECRET, no_such_bucket

COMMANDS = (("check", "app.py"), ("up", "app.py", "--host", "process", "--bootstrap", "localhost:1"))
"""Nothing listens at that address: `up` must not get so far as to ask."""


@pytest.fixture(autouse=True)
def app(here: Path) -> None:
    (here / "app.py").write_text(app_text("placed"))


@pytest.fixture(params=COMMANDS, ids=lambda c: c[0])
def command(request: pytest.FixtureRequest) -> tuple[str, ...]:
    found: tuple[str, ...] = request.param
    return found


def refused(borealis: Borealis, *command: str) -> str:
    said = borealis(*command)
    assert said.code == 1, said.out + said.err
    assert "Traceback" not in said.err
    assert "localhost:1" not in said.err
    assert "app 'placed': " in said.err
    return " ".join(said.err.split())


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        (
            "nowhere://bucket/x?secret=hush",
            ("checkpoints cannot be kept at nowhere://bucket/x: ", "Write s3://bucket/path"),
        ),
        ("file:///dev/null/x", ("checkpoints cannot be written at file:///dev/null/x: ", "Not a directory")),
    ],
    ids=["a scheme that nobody knows", "a directory that cannot be made"],
)
def test_a_uri_where_nothing_can_lie(
    borealis: Borealis, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, uri: str, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("BOREALIS_CHECKPOINTS", uri)
    said = refused(borealis, *command)
    assert all(word in said for word in words)
    assert SECRET not in said


@pytest.mark.parametrize(
    ("answers", "wait_s", "why"),
    [(True, probe.ANSWER_S, "NO_SUCH_BUCKET"), (False, 3.0, "no answer within 3 s")],
    ids=["no such bucket", "no answer"],
)
def test_a_store_that_takes_nothing(
    borealis: Borealis,
    command: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
    answers: bool,
    wait_s: float,
    why: str,
) -> None:
    monkeypatch.setattr(probe, "ANSWER_S", wait_s)
    with no_such_bucket(answers=answers) as uri:
        monkeypatch.setenv("BOREALIS_CHECKPOINTS", uri)
        said = refused(borealis, *command)
    assert "checkpoints cannot be written at s3://nowhere/x: " in said
    assert why in said
    assert SECRET not in said


def test_a_full_disk(borealis: Borealis, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoint_storage, "_aside", lambda name: f"{name}.aside.tmp")
    with full_disk(here / ".borealis") as disk:
        (disk.directory / "placed" / "checkpoints").mkdir(parents=True)
        disk.fill(iter([f"placed/checkpoints/{probe.NAME}.aside.tmp"]))
        said = refused(borealis, *COMMANDS[1])
    assert f"{here}/.borealis/placed/checkpoints: " in said
    assert "No space left" in said
    assert "with space left" in said


def test_a_data_directory_that_is_a_file_is_for_up(borealis: Borealis, here: Path) -> None:
    (here / ".borealis").mkdir()
    (here / ".borealis" / "placed").write_text("in the way")
    said = refused(borealis, *COMMANDS[1])
    assert f"checkpoints cannot be written at {here}/.borealis/placed/checkpoints: " in said
    assert "`data_dir:` in borealis.yaml" in said
    assert borealis("check", "app.py").code == 0


def test_who_only_describes_an_app_writes_no_checkpoints(borealis: Borealis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOREALIS_CHECKPOINTS", "nowhere://bucket/x")
    said = borealis(*COMMANDS[1], "--describe-only")
    assert said.code == 1
    assert "localhost:1" in said.err  # it got further


def test_check_leaves_nothing_behind(borealis: Borealis, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BOREALIS_CHECKPOINTS", f"file://{here}/mine")
    assert borealis("check", "app.py").code == 0
    assert list((here / "mine").iterdir()) == []
