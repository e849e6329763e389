"""One side of a join, lookup or window is lost: what a replica says meanwhile is labelled, and corrected exactly.

The replicas are production managers with the real operator, in the toy world, whose oracles hold at every step:
whatever is called stable, and the corrected stream, is what a run without failures says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from borealis_py.engine import DuckKernel
from sunion.model import TentativeBucket
from tests.engine.keyed.joined_lists import LOOKBACK, JoinedLists, count_kernel, kernel, lookup_kernel, session_kernel
from tests.protocol import toy
from tests.protocol.settling import R, S, U, Z, cut, settled
from tests.protocol.toy import MS, ToyWorld, source_log
from tests.sunion import lists
from tests.support import managers


@pytest.fixture
def joined(monkeypatch: pytest.MonkeyPatch) -> Iterator[JoinedLists]:
    yield from behind(monkeypatch, kernel())


@pytest.fixture
def looked_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[JoinedLists]:
    yield from behind(monkeypatch, lookup_kernel())


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[JoinedLists]:
    yield from behind(monkeypatch, count_kernel())


@pytest.fixture
def in_sessions(monkeypatch: pytest.MonkeyPatch) -> Iterator[JoinedLists]:
    yield from behind(monkeypatch, session_kernel())


def behind(monkeypatch: pytest.MonkeyPatch, on: DuckKernel) -> Iterator[JoinedLists]:
    fragment = JoinedLists(on)
    for module in (toy, lists, managers):
        monkeypatch.setattr(module, "FRAGMENT", fragment)
    yield fragment
    on.close()


def world_of(replicas: int = 1) -> ToyWorld:
    world = ToyWorld([source_log(1, index, 14.0) for index in (0, 1)])
    for index in range(replicas):
        world.start(index)
    return world


def pairs(rows: object) -> set[tuple[int, ...]]:
    return set(rows or ())  # type: ignore[call-overload]


@pytest.mark.parametrize("side", [0, 1])
def test_what_is_said_without_one_side_is_labelled_and_corrected(joined: JoinedLists, side: int) -> None:
    world = world_of()
    cut(world, 2_000 * MS, 5_000 * MS, side)
    (replica,) = world.replicas.values()
    assert replica.states == [R, S, U]
    world.run(9_000 * MS)
    assert replica.states == [R, S, U, Z, S]
    assert settled(world)
    said = {record.bucket: record for record in world.tentative(0)}
    lost = f"s{side}"
    lacking = {b for b, record in said.items() if record.missing}
    assert min(lacking) == 19
    assert len(lacking) > 10
    for bucket, record in said.items():
        depends_on = range(bucket - LOOKBACK, bucket + 1)
        assert (record.missing_sources == (lost,)) == any(b in lacking for b in depends_on)
        assert record.completeness == (0.5 if record.missing_sources else 1.0)
        check_partial(world, record, side)


def check_partial(world: ToyWorld, record: TentativeBucket, side: int) -> None:
    """Without its left side a join says less; without its right side it takes rows for unmatched that are not."""
    rows = pairs(record.output.rows)
    truth = pairs(world.truth[record.bucket].rows if record.bucket in world.truth else None)
    if not record.missing_sources:
        assert rows == truth
    elif side == 0:
        assert rows <= truth
    else:
        assert {row for row in rows if row[3] is not None} <= truth


def test_rows_taken_for_unmatched_are_taken_back(joined: JoinedLists) -> None:
    """In the time without payments, orders look unpaid a second later; the correction pairs them."""
    world = world_of()
    cut(world, 2_000 * MS, 5_000 * MS, 1)
    world.run(9_000 * MS)
    wrong = [
        row
        for record in world.tentative(0)
        for row in pairs(record.output.rows)
        if row[3] is None and row not in pairs(world.truth.get(record.bucket, toy.Output()).rows)
    ]
    assert len(wrong) > 5
    corrected = {row for _, output in world.corrected.rows for row in pairs(output.rows)}
    assert not corrected & set(wrong)
    assert {(row[1], row[2]) for row in wrong} <= {(row[1], row[2]) for row in corrected}


@pytest.mark.parametrize("side", [0, 1])
def test_what_is_said_without_rows_or_table_is_labelled_and_corrected(looked_up: JoinedLists, side: int) -> None:
    """Without the table, rows find what was known of it. A result depends on all buckets before it: from the first one
    that lacked a source on, every result says that it does, until corrections have caught up."""
    world = world_of()
    cut(world, 2_000 * MS, 5_000 * MS, side)
    world.run(9_000 * MS)
    (replica,) = world.replicas.values()
    assert replica.states == [R, S, U, Z, S]
    assert settled(world)
    said = {record.bucket: record for record in world.tentative(0)}
    assert min(said) == 19
    assert all(record.missing_sources == (f"s{side}",) for record in said.values())
    complete = [record for record in said.values() if not record.missing]
    assert complete
    assert all(record.completeness == 0.5 for record in complete)
    truth = {bucket: pairs(output.rows) for bucket, output in world.truth.items()}
    wrong = [record for b, record in said.items() if pairs(record.output.rows) != truth.get(b, set())]
    assert len(wrong) > 5
    if side == 1:
        for bucket, record in said.items():
            assert {row[:3] for row in pairs(record.output.rows)} == {row[:3] for row in truth.get(bucket, set())}
        known = [row for record in said.values() for row in pairs(record.output.rows) if row[3] is not None]
        assert known
        assert max(row[3] for row in known if row[0] < 4_900 * MS) < 2_000 * MS


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("what", ["counted", "in_sessions"])
def test_a_window_that_lacked_a_row_once_says_so_until_it_is_corrected(
    what: str, side: int, request: pytest.FixtureRequest
) -> None:
    """Where a window begins depends on all rows of its key: from the first bucket that lacked a source on, every result
    says that it does."""
    request.getfixturevalue(what)
    world = world_of()
    cut(world, 2_000 * MS, 5_000 * MS, side)
    world.run(9_000 * MS)
    (replica,) = world.replicas.values()
    assert replica.states == [R, S, U, Z, S]
    assert settled(world)
    said = {record.bucket: record for record in world.tentative(0)}
    assert all(record.missing_sources == (f"s{side}",) for record in said.values())
    assert any(not record.missing for record in said.values())
    truth = {bucket: pairs(output.rows) for bucket, output in world.truth.items()}
    assert any(pairs(record.output.rows) - truth.get(bucket, set()) for bucket, record in said.items())


@pytest.mark.parametrize("what", ["joined", "looked_up", "counted", "in_sessions"])
@pytest.mark.parametrize("how", ["inline", "answer", "fail"])
def test_a_redo_gives_the_same_rows_wherever_it_runs(what: str, how: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(what)
    timing = replace(toy.TIMING, inline_us=10**9) if how == "inline" else replace(toy.TIMING, inline_us=0)
    world = ToyWorld([source_log(2, index, 14.0) for index in (0, 1)], timing)
    replica = world.start(0)
    replica.redo = "answer" if how == "inline" else how
    cut(world, 2_000 * MS, 6_000 * MS, 1)
    world.run(10_000 * MS)
    assert settled(world)
    jobs = [note for note in replica.notes if note.event == "REDO"]
    places = {note.redo[3] for note in jobs if note.redo is not None}
    assert places == ({"spark"} if how == "answer" else {"inline"}) or places == {"spark", "inline"}


@pytest.mark.parametrize("what", ["joined", "looked_up", "counted", "in_sessions"])
def test_a_replica_goes_on_from_the_bytes_of_its_checkpoint(what: str, request: pytest.FixtureRequest) -> None:
    fragment = request.getfixturevalue(what)
    world = world_of(replicas=2)
    world.run(3_000 * MS)
    checkpoint = world.checkpoints[0]
    assert sum(batch.num_rows for kept in checkpoint.state for _, batch in kept) > 4
    read = fragment.on.decode_state(fragment.on.encode_state(checkpoint.state))
    world.checkpoints[0] = replace(checkpoint, state=read)
    world.replicas.pop(0)
    world.run(4_000 * MS)
    world.start(0)
    cut(world, 5_000 * MS, 6_500 * MS, 0)
    world.run(10_000 * MS)
    assert settled(world)
