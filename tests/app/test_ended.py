"""Which sources have ended, from the last record of each; what `up` makes of that, and of processes that go on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import psutil
import pytest

from borealis_py.app.errors import LaunchError
from borealis_py.app.launch import surplus, wait_ready
from borealis_py.app.replicas import ProcessName, ReplicaProcesses
from borealis_py.app.source_ended import ended_sources
from borealis_py.app.state import AppState
from borealis_py.log.base import Feed, NewRecord, TopicSpec
from borealis_py.log.ingress_status import IngressRole, IngressStatus, status_key
from borealis_py.log.messages import Description, encode
from borealis_py.log.records import ClaimHeader, pack
from borealis_py.query import App
from tests.client.folded import SCHEMA, PublishedSource, row


def state(uid: str = "a1") -> AppState:
    """An app with the world's source, and one that has no topic."""
    app = App("flights", bucket="100ms")
    ewr, jfk = (app.source(name, schema=SCHEMA) for name in ("ewr", "jfk"))
    app.query("q", app.union(ewr, jfk), "3s")
    return AppState("flights", app.describe(), Description("{}", "h", 0, "f", uid))


def noted(processes: ReplicaProcesses, name: ProcessName) -> None:
    """Let this process stand for one of the app's."""
    processes.directory.mkdir(exist_ok=True)
    (processes.directory / f"{name.stem}.pid").write_text(
        json.dumps({"pid": os.getpid(), "created": psutil.Process().create_time()})
    )


def test_a_source_has_ended_when_its_last_record_is_end() -> None:
    world = PublishedSource()
    publisher, reader = world.ready("p"), world.memory.client("up")
    publisher.send(row(1))
    world.run(1)
    assert ended_sources(reader, state()) == {"ewr": False, "jfk": False}
    publisher.close(end=True)
    world.run(1)
    assert ended_sources(reader, state()) == {"ewr": True, "jfk": False}
    assert ended_sources(reader, state("another life")) == {"ewr": False, "jfk": False}


def test_a_claim_behind_END_does_not_hide_it() -> None:
    """An ingress that takes over claims an input that has ended, to write END of others."""
    world = PublishedSource()
    publisher, reader = world.ready("p"), world.memory.client("up")
    publisher.close(end=True)
    world.run(1)
    world.memory.broker.append(NewRecord(Feed("flights.ewr"), pack(ClaimHeader("a1", 99, "u", 0))))
    assert ended_sources(reader, state())["ewr"] is True


def test_up_does_not_wait_for_an_ingress_to_say_again_that_its_source_has_ended(tmp_path: Path) -> None:
    """An ingress says so once; it goes on for the other source, and a second `up` begins to listen later."""
    app = App("flights", bucket="100ms")
    ewr, jfk = (app.topic(name, topic=name, schema=SCHEMA, partitions=1) for name in ("ewr", "jfk"))
    app.query("q", app.union(ewr, jfk), "3s")
    two = AppState("flights", app.describe(), Description("{}", "h", 0, "f", "a1"))
    world = PublishedSource()
    log = world.memory.client("up")
    log.admin().create([TopicSpec("flights.status")])
    publisher = world.ready("p")
    owner = IngressStatus("jfk", 0, "jfk", "", IngressRole.OWNER, "u", os.getpid(), "", world.now, ())
    world.memory.broker.append(NewRecord(Feed("flights.status"), encode(owner), status_key("jfk", 0)))
    processes, ingress = ReplicaProcesses(tmp_path, "flights"), ProcessName(0, ingress=True)
    noted(processes, ingress)

    assert surplus(two, processes) == []

    def wait() -> None:
        wait_ready(log, two, processes, {ingress: os.getpid()}, since_ms=0, timeout_s=0)

    with pytest.raises(LaunchError, match=r"not ready after 0 s: ingress 0 of ewr\. "):
        wait()
    publisher.close(end=True)
    world.run(1)
    wait()


def test_a_replica_that_the_app_has_no_more_and_that_goes_on_is_found(tmp_path: Path) -> None:
    processes = ReplicaProcesses(tmp_path, "flights")
    for index in (1, 2):
        noted(processes, ProcessName(index))
    assert surplus(state(), processes) == [ProcessName(2)]
