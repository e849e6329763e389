"""What a container runs: describing an app alone, one replica in the foreground, publishers that agree on a start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from borealis_py.app.origin import show
from borealis_py.app.state import read_app
from borealis_py.app.supervisor.exit_codes import REFUSED
from borealis_py.cli.shared import described
from borealis_py.demo import data
from borealis_py.kafka.log import KafkaLog
from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.records import BatchHeader, unpack_source, unpack_stimes
from sunion.bucket import Buckets
from tests.cli.commands import Borealis, app_text, statuses
from tests.harness.waiting import PATIENCE_S, until

pytestmark = [pytest.mark.broker, pytest.mark.usefixtures("here")]
ROWS = 20


@pytest.fixture(autouse=True)
def there(here: Path, bootstrap: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands find the broker, and nothing else."""
    monkeypatch.setenv("BOREALIS_BOOTSTRAP", bootstrap)


@contextmanager
def foreground(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`borealis replica` as a process; killed if it has not ended by then."""
    command = [sys.executable, "-m", "borealis_py.cli.main", "replica", *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def stimes(bootstrap: str, app: str, source: str) -> list[int]:
    """Of all rows in a source's log."""
    lookup = KafkaLog(bootstrap).lookup()
    feed = Feed(topics.stream(app, source))
    headers = [unpack_source(r.value)[0] for r in lookup.read(feed, *lookup.bounds(feed))]
    lookup.close()
    return [s for h in headers if isinstance(h, BatchHeader) for s in unpack_stimes(h.stimes)]


def test_describing_starts_nothing_and_may_be_repeated(borealis: Borealis, here: Path, bootstrap: str) -> None:
    (here / "app.py").write_text(app_text("described"))
    for _ in range(2):
        said = borealis("up", "app.py", "--describe-only")
        assert (said.code, "app described is described" in said.err) == (0, True)
        state = read_app(KafkaLog(bootstrap), "described")
        assert not any(r["running"] for r in statuses(borealis, "described").values())
        assert not (here / ".borealis").exists()
    borealis("up", "app.py", "--describe-only")
    assert read_app(KafkaLog(bootstrap), "described").origin == state.origin


def test_of_an_origin_asked_for_again_it_is_said_which_one_holds(
    borealis: Borealis, here: Path, bootstrap: str
) -> None:
    """It was passed over without a word."""
    (here / "app.py").write_text(app_text("begun"))
    assert "--origin" not in borealis("up", "app.py", "--describe-only", "--origin", "now").err
    state = read_app(KafkaLog(bootstrap), "begun")
    begun = show(Buckets(state.spec.bucket_us).start(state.origin))
    for word in ("now", "earliest"):
        said = borealis("up", "app.py", "--describe-only", "--origin", word)
        assert said.code == 0
        assert f"app begun begins at {begun}, which was written once: --origin {word} changes nothing." in said.err
        assert f"`borealis up --reset --origin {word}` begins anew" in said.err
    assert "--origin" not in borealis("up", "app.py", "--describe-only").err
    assert "--origin" not in borealis("up", "app.py", "--describe-only", "--origin", begun).err
    assert read_app(KafkaLog(bootstrap), "begun").origin == state.origin


def test_a_file_with_a_threshold_above_what_was_set_to_be_kept_is_told(borealis: Borealis, here: Path) -> None:
    (here / "app.py").write_text(app_text("kept"))
    assert borealis("up", "app.py", "--describe-only").code == 0
    assert borealis("retain", "sums", "5s", "--app", "kept").code == 0
    assert "is shorter than its delay threshold, 6s" in borealis("threshold", "sums", "6s", "--app", "kept").err
    assert "retain" not in borealis("up", "app.py", "--describe-only").err
    (here / "app.py").write_text(app_text("kept", threshold="10s"))
    said = borealis("up", "app.py", "--describe-only")
    assert (said.code, "sums: retain='5s' is shorter than its delay threshold, 10s" in said.err) == (0, True)
    assert "`borealis retain sums 10s` keeps enough" in said.err


def test_a_replica_waits_for_its_description_and_ends_in_order(borealis: Borealis, here: Path) -> None:
    (here / "app.py").write_text(app_text("waited"))
    with foreground("0", "--app", "waited", "--host", "process", "--http", "127.0.0.1:0") as process:
        assert process.stderr is not None
        assert "waiting: " in process.stderr.readline()
        assert borealis("up", "app.py", "--describe-only").code == 0
        until(lambda: statuses(borealis, "waited")["sums", 0]["running"], "replica 0 says that it runs")
        found = statuses(borealis, "waited")
        assert found["sums", 0]["pid"] == process.pid
        assert found["sums", 0]["http"].startswith("http://127.0.0.1:")
        assert not found["sums", 1]["running"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, process.stderr.read()


def test_what_cannot_run_is_said(borealis: Borealis, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(described, "WAIT_S", 0.0)
    said = borealis("replica", "0", "--app", "nobody")
    assert (said.code, "nobody" in said.err) == (1, True)
    (here / "app.py").write_text(app_text("refused"))
    assert borealis("up", "app.py", "--describe-only").code == 0
    said = borealis("replica", "0", "--app", "refused", "--node", "cleaned")
    assert (said.code, "cleaned" in said.err) == (2, True)
    with foreground("7", "--app", "refused", "--host", "process") as process:
        _, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, "has a replica 7" in err) == (REFUSED.code, True)


def test_publishers_that_start_at_the_origin_agree(borealis: Borealis, here: Path, bootstrap: str) -> None:
    (here / "app.py").write_text(app_text("agreed"))
    assert borealis("up", "app.py", "--describe-only", "--origin", show(time.time_ns() // 1000 - 60_000_000)).code == 0
    state = read_app(KafkaLog(bootstrap), "agreed")
    origin_us = Buckets(state.spec.bucket_us).start(state.origin)
    rows = [f"2013-01-01T00:{n:02}:00,a,{n}" for n in range(ROWS)]
    (here / "rows.csv").write_text("\n".join(["at,key,value", *rows, ""]))
    options = "--stime", "at", "--speed", "60", "--start", "origin", "--base", "2013-01-01T00:00"
    for source in ("left", "right"):
        said = borealis("publish", source, "rows.csv", *options, "--app", "agreed")
        assert (said.code, f"{ROWS} rows sent, then END" in said.err) == (0, True)
        assert stimes(bootstrap, "agreed", source) == [origin_us + n * 1_000_000 for n in range(ROWS)]
    said = borealis("publish", "left", "rows.csv", *options, "--app", "agreed")
    assert (said.code, f"all {ROWS} rows and END are there already" in said.err) == (0, True)
    (here / "rows.csv").write_text("\n".join(["at,key,value", *rows[:-1], ""]))
    said = borealis("publish", "left", "rows.csv", *options, "--app", "agreed")
    assert (said.code, "has ended" in said.err) == (1, True)


def test_the_flights_are_written_by_a_command_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert data.main([str(tmp_path / "flights"), "--days", "2"]) == 0
    assert "lga" in capsys.readouterr().out
    assert sorted(p.name for p in (tmp_path / "flights").iterdir()) == ["ewr.csv", "jfk.csv", "lga.csv"]
    assert data.main([str(tmp_path), "--days", "0"]) == 1
    assert "days must be 1 to 365" in capsys.readouterr().err
