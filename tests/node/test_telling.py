"""What replicas that differ write into the settings is written again for each name that is not there."""

from __future__ import annotations

from pathlib import Path

from borealis_py.log.base import Feed, NewRecord
from borealis_py.node.dynamic_settings import AGAIN_US, DisagreementTelling
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import Disagreement
from borealis_py.protocol.settings import Timing
from borealis_py.query.spec import Serves

FOUND = Disagreement(5, 1, "aa", 2, "bb")


class Kept:
    """An appender that keeps what it is given."""

    def __init__(self) -> None:
        self.records: list[NewRecord] = []

    def append(self, record: NewRecord, token: object = None) -> None:
        self.records.append(record)

    def taken(self) -> list[str]:
        found, self.records = [(r.key or b"").decode() for r in self.records], []
        return found


def telling() -> tuple[DisagreementTelling, Kept]:
    spec = ReplicaSpec(
        app="app", app_uid="a1", node="cut.0", replica=1, inputs=(), bucket_us=1_000, origin=0, partition=0,
        query_hash="", app_json="", delays={}, log=None, data_dir=Path(), timing=Timing(),  # type: ignore[arg-type]
        serves=(Serves(query="one"), Serves(query="two")), position=1, corrected=False,
    )  # fmt: skip
    kept = Kept()
    return DisagreementTelling(spec, kept), kept  # type: ignore[arg-type]


def test_each_name_is_written_again_until_it_was_read() -> None:
    it, kept = telling()
    it.tell(FOUND, 10)
    assert {record.feed for record in kept.records} == {Feed("app.settings")}
    assert len({record.value for record in kept.records}) == 1
    assert all(record.conflatable for record in kept.records)
    assert kept.taken() == ["diverged/cut", "diverged/one", "diverged/two"]
    it.turn(FOUND, {"one"}, 10 + AGAIN_US - 1)
    assert kept.taken() == []
    it.turn(FOUND, set(), 10 + AGAIN_US)
    assert kept.taken() == ["diverged/cut", "diverged/two"]
    it.turn(FOUND, {"two"}, 10 + 2 * AGAIN_US)
    assert kept.taken() == ["diverged/cut"]
    it.turn(FOUND, {"cut"}, 10 + 3 * AGAIN_US)
    assert kept.taken() == []


def test_what_an_operator_has_cleared_or_another_found_is_not_written_again() -> None:
    it, kept = telling()
    it.turn(FOUND, {"cut"}, 5 * AGAIN_US)
    it.tell(FOUND, 6 * AGAIN_US)
    assert len(kept.taken()) == 3
    it.turn(None, {"cut"}, 7 * AGAIN_US)
    it.turn(FOUND, set(), 9 * AGAIN_US)
    assert kept.taken() == []
