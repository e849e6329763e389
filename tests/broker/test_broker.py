"""The life of a local broker: real processes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from borealis_py.kafka.broker import LocalBroker, free_port
from borealis_py.kafka.broker_config import server_properties
from borealis_py.kafka.errors import BrokerError
from borealis_py.kafka.log import KafkaLog
from borealis_py.log.base import Feed, NewRecord, TopicSpec
from tests.harness.trimming import setting
from tests.harness.waiting import PATIENCE_S

pytestmark = pytest.mark.broker


@pytest.fixture
def own(tmp_path: Path) -> Iterator[LocalBroker]:
    """A broker of this test alone, not started; its directory has a name that needs care."""
    local = LocalBroker(tmp_path / "brök er", free_port())
    yield local
    local.down(timeout_s=0.0)


def append_one(bootstrap: str, feed: Feed) -> None:
    appender = KafkaLog(bootstrap).appender(lambda: None)
    appender.append(NewRecord(feed, b"kept"), token=1)
    assert appender.flush(PATIENCE_S)
    (delivery,) = appender.deliveries()
    assert delivery.error is None
    appender.close()


def test_up_is_idempotent_and_a_broker_that_was_killed_comes_back_with_its_data(own: LocalBroker) -> None:
    assert not own.status().running
    assert own.down() is False
    assert own.up() is True
    first = own.status()
    assert (first.running, first.port, first.bootstrap, first.version) == (True, own.port, own.bootstrap, "4.3.0")
    assert first.pid is not None
    assert psutil.pid_exists(first.pid)
    assert (first.rss_bytes or 0) > 50_000_000
    assert own.up() is False
    assert own.status().pid == first.pid
    with pytest.raises(BrokerError, match=f"running on port {own.port}"):
        LocalBroker(own.data_dir, free_port()).up()
    admin = KafkaLog(own.bootstrap).admin()
    admin.create([TopicSpec("kept")])
    assert setting(own.bootstrap, "kept", "retention.ms") == "-1", "old event times must not be taken for old records"
    append_one(own.bootstrap, Feed("kept"))

    os.kill(first.pid, signal.SIGKILL)
    psutil.Process(first.pid).wait(PATIENCE_S)
    assert not own.status().running
    assert own.up() is True
    assert own.status().pid != first.pid
    lookup = KafkaLog(own.bootstrap).lookup()
    assert [r.value for r in lookup.read(Feed("kept"), *lookup.bounds(Feed("kept")))] == [b"kept"]
    lookup.close()
    assert own.down() is True
    assert not own.status().running
    assert own.down() is False


def test_the_broker_outlives_the_process_that_started_it(own: LocalBroker) -> None:
    code = (
        "import sys; from borealis_py.kafka.broker import LocalBroker; LocalBroker(sys.argv[1], int(sys.argv[2])).up()"
    )
    starter = [sys.executable, "-W", "error", "-c", code, str(own.data_dir), str(own.port)]
    done = subprocess.run(starter, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    status = own.status()
    assert status.running
    assert status.pid is not None
    assert os.getsid(status.pid) == status.pid  # a session of its own: no terminal takes it along
    assert KafkaLog(own.bootstrap).admin().topics() == []


def test_a_port_in_use_is_named(own: LocalBroker) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", own.port))
        taken.listen()
        with pytest.raises(BrokerError, match=f"port {own.port} is in use.*--port"):
            own.up()
    assert not own.status().running


def test_a_controller_port_that_somebody_took_is_chosen_again(
    own: LocalBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        ports = [taken.getsockname()[1], free_port()]
        monkeypatch.setattr("borealis_py.kafka.broker.free_port", lambda: ports.pop(0))
        assert own.up() is True
    assert ports == []
    assert "bind" in own.log_tail(1000).lower()


def test_another_process_with_the_noted_id_is_left_alone(own: LocalBroker) -> None:
    own.data_dir.mkdir()
    sleeper = subprocess.Popen(["sleep", "600"])
    try:
        note = {"pid": sleeper.pid, "port": own.port, "version": "4.3.0"}
        (own.data_dir / "broker.json").write_text(json.dumps(note))
        assert not own.status().running
        assert own.down() is False
        assert sleeper.poll() is None
    finally:
        sleeper.kill()
        sleeper.wait()


@pytest.mark.parametrize("note", ["", "{", "[]", '{"pid": 1}'])
def test_a_torn_note_is_no_broker(own: LocalBroker, note: str) -> None:
    own.data_dir.mkdir()
    (own.data_dir / "broker.json").write_text(note)
    assert not own.status().running


def test_a_start_that_fails_shows_the_end_of_the_log(own: LocalBroker) -> None:
    (own.data_dir / "log").mkdir(parents=True)
    foreign = "version=1\nnode.id=7\ncluster.id=MkU3OEVBNTcwNTJENDM2Qk\ndirectory.id=sCOrTgYFRSy7nYIhd5bXIw\n"
    (own.data_dir / "log" / "meta.properties").write_text(foreign)
    with pytest.raises(BrokerError, match=r"ended while starting(.|\n)*broker\.log(.|\n)*node ?id"):
        own.up()
    assert not own.status().running


def test_a_data_directory_that_cannot_be_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BrokerError, match="cannot keep the broker's data"):
        LocalBroker(tmp_path / "file").up()


def test_settings_escape_what_properties_files_would_read_otherwise(tmp_path: Path) -> None:
    text = server_properties(Path("/data/ö\\😀"), 1, 2)
    assert "log.dirs=/data/\\u00f6\\\\\\ud83d\\ude00/log\n" in text
    assert "auto.create.topics.enable=false\n" in text
