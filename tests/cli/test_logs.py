"""`borealis logs` on logs that were made."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from borealis_py.cli.commands import logs as command
from borealis_py.config import logfile
from tests.cli.commands import Borealis


def line(second: int, event: str, level: str = "info", **fields: object) -> str:
    at = f"2026-11-28T21:07:{second:02}.000000Z"
    return json.dumps({**fields, "event": event, "level": level, "logger": "x", "timestamp": at}) + "\n"


@pytest.fixture
def directory(here: Path) -> Path:
    directory = here / ".borealis" / "shop"
    directory.mkdir(parents=True)
    (directory / "replica-0.log").write_text(
        line(1, "replica starts", node="sales", replica=0, bucket=17959000239, bucket_us=100_000)
        + "printed by a library\n"
        + line(5, "bad", "warning", node="sales", replica=0)
    )
    (directory / "replica-0.log.1").write_text(line(0, "oldest"))
    (directory / "replica-1.log").write_text(line(3, "STABLE", node="sales", replica=1))
    (directory / "ingress-0.log").write_text(line(4, "copies"))
    (directory / "supervisor.log").write_text("")
    (directory / "replica-0.spark.log").write_text("noise\n")
    return directory


def test_all_processes_by_time(borealis: Borealis, directory: Path) -> None:
    said = borealis("logs")
    assert said.code == 0
    assert [one[:23].strip()[-6:] for one in said.out.splitlines()] == [
        "00.000",
        "01.000",
        "",
        "03.000",
        "04.000",
        "05.000",
    ]
    assert "bucket=2026-11-28 21:07:03.9" in said.out
    assert "bucket_us" not in said.out
    assert "noise" not in said.out
    assert said.out.splitlines()[2].endswith("replica 0  printed by a library")


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        (["replica", "1"], ["STABLE"]),
        (["replica-1"], ["STABLE"]),
        (["ingress", "0"], ["copies"]),
        (["supervisor"], []),
        (["-n", "1"], ["bad"]),
        (["-n", "0"], []),
        (["replica", "1", "--level", "warning"], []),
        (["--app", "shop", "replica", "1"], ["STABLE"]),
    ],
)
def test_some(borealis: Borealis, directory: Path, arguments: list[str], shown: list[str]) -> None:
    said = borealis("logs", *arguments)
    assert said.code == 0
    assert [one.split()[-1] for one in said.out.splitlines()] == shown


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["replica", "7"], "no log of 'replica 7'"),
        (["--app", "shp"], "did you mean 'shop'"),
        (["--level", "loud"], "choose debug, info"),
        (["-n", "-1"], "equal to 0"),
    ],
)
def test_wrong_words(borealis: Borealis, directory: Path, arguments: list[str], told: str) -> None:
    said = borealis("logs", *arguments)
    assert (said.code, said.out) == (2, "")
    assert told in " ".join(said.err.split())


def test_without_an_app(borealis: Borealis, here: Path) -> None:
    said = borealis("logs")
    assert (said.code, "no apps have logs" in said.err) == (2, True)


def test_what_is_written_later_is_followed_through_a_rotation(directory: Path) -> None:
    file = directory / "replica-1.log"
    end = command._read(file, 0)[1]
    assert command._since(file, end) == ([], end)
    with file.open("a") as more:
        more.write(line(6, "half")[:-9])
        more.flush()
        assert command._since(file, end) == ([], end), "half a line waits for its end"
        more.write(line(6, "half")[-9:])
    handle = logfile.opened(str(file), limit=1)  # rotates
    os.write(handle, line(7, "new").encode())
    os.close(handle)
    text, now = command._since(file, end)
    assert [json.loads(one)["event"] for one in text] == ["half", "new"]
    assert command._since(file, now) == ([], now)


def test_it_follows_until_it_is_interrupted(
    directory: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks = list[int]()

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            looks.append(1)
            if len(looks) == 1:
                with (directory / "replica-1.log").open("a") as more:
                    more.write(line(9, "followed"))
                return False
            return True

    monkeypatch.setattr(command, "threading", SimpleNamespace(Event=Stop))
    from borealis_py.cli.main import main

    assert main(["logs", "replica", "1", "--follow"]) == 130
    assert [one.split()[-1] for one in capsys.readouterr().out.splitlines()] == ["STABLE", "followed"]
