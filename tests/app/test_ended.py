"""Which sources have ended, from the last record of each."""

from __future__ import annotations

from borealis_py.app.sources.ended import ended_sources
from borealis_py.app.state import AppState
from borealis_py.log.base import Feed, NewRecord
from borealis_py.log.messages import Description
from borealis_py.log.records import ClaimHeader, pack
from borealis_py.query import App
from tests.client.folded import SCHEMA, World, row


def state(uid: str = "a1") -> AppState:
    """An app with the world's source, and one that has no topic."""
    app = App("flights", bucket="100ms")
    ewr, jfk = (app.source(name, schema=SCHEMA) for name in ("ewr", "jfk"))
    app.query("q", app.union(ewr, jfk), "3s")
    return AppState("flights", app.describe(), Description("{}", "h", 0, "f", uid))


def test_a_source_has_ended_when_its_last_record_is_end() -> None:
    world = World()
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
    world = World()
    publisher, reader = world.ready("p"), world.memory.client("up")
    publisher.close(end=True)
    world.run(1)
    world.memory.broker.append(NewRecord(Feed("flights.ewr"), pack(ClaimHeader("a1", 99, "u", 0))))
    assert ended_sources(reader, state())["ewr"] is True
