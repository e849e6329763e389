"""A redo out of the log gives the bits of the replica's own run, whatever lies in the log, however it is cut."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from borealis_py.log.base import OffsetGone
from borealis_py.protocol.redo import RedoDone, RedoFailed
from reconcile import redo_job
from reconcile.redo_job import (
    PackedFailed,
    describe,
    evict_all,
    get_cached,
    pack_job,
    run_job,
    run_packed,
    unpack_result,
)
from reconcile.replay import OutOfTime, Replay, ReplayError
from tests.reconcile.list_world import ListKernel, batch, claim, list_work
from tests.reconcile.replica import Replica

VALUES = st.one_of(st.integers(-20, 20), st.floats(-1e9, 1e9), st.just(-13), st.just("bad"), st.none())


@st.composite
def source_logs(draw) -> list[bytes | None]:
    """A publisher with successors, zombies, repeats, late, future and malformed tuples; closed at the end."""
    log: list[bytes | None] = [claim(1, "a")]
    owner, seq, now = (1, "a"), 0, 10_000
    for kind in draw(st.lists(st.sampled_from("bbbbbbxrzcflnj"), max_size=25)):
        now += draw(st.integers(0, 1500))
        rows = [(now + draw(st.integers(0, 900)), draw(VALUES)) for _ in range(draw(st.integers(0, 3)))]
        boundary = draw(st.one_of(st.none(), st.integers(now - 500, now)))
        if kind == "b":
            log.append(batch(*owner, seq, rows, boundary))
            seq += len(rows)
        elif kind == "x":  # its publisher refuses one
            log.append(batch(*owner, seq, rows, boundary, [seq + len(rows)]))
            seq += len(rows) + 1
        elif kind == "r":  # a repeat
            log.append(batch(*owner, max(0, seq - 2), rows, boundary))
            seq = max(seq, max(0, seq - 2) + len(rows))
        elif kind == "z":  # a zombie
            log.append(batch(0, "zombie", seq, rows, now + 3000))
        elif kind == "c":
            owner = (owner[0] + draw(st.integers(0, 1)), draw(st.sampled_from("abc")))
            log.append(claim(*owner))
        elif kind == "f":
            log.append(batch(*owner, seq, [(now + 80_000, 1)]))
            seq += 1
        elif kind == "l":
            log.append(batch(*owner, seq, [(now - 4_000, 1), *rows]))
            seq += 1 + len(rows)
        else:
            log.append(None if kind == "n" else b'{"plain": "json"}')
    log.append(claim(99, "last"))
    log.append(batch(99, "last", seq + 5, [], now + 3000))
    return log


LOGS = st.builds(lambda a, b: {"s": a, "t": b}, source_logs(), source_logs())


@given(LOGS, st.lists(st.integers(10, 40), max_size=4), st.integers(1, 4))
def test_any_split_into_jobs_gives_the_bits_of_the_direct_run(logs, cuts, slice_rows):
    kernel = ListKernel()
    replica = Replica(kernel, logs)
    on = list_work(logs).open()
    for job in replica.jobs(cuts):
        replay = Replay(on, job.first, job.state, job.ranges, slice_rows=slice_rows)
        outputs = {b: o for chunk in replay.run(job.end) for b, o in chunk.outputs.items()}
        assert outputs == replica.expected(job.first, job.end)
        assert repr(replay.state) == repr(replica.states[job.end])
        assert (replay.rows, replay.frontier) == (job.rows, job.end)


@given(LOGS, st.lists(st.integers(10, 40), max_size=3))
def test_the_same_as_bytes(logs, cuts):
    kernel = ListKernel()
    replica = Replica(kernel, logs)
    work = list_work(logs).pack()
    for job in replica.jobs(cuts):
        result = unpack_result(run_packed(work, pack_job(job, kernel, 60)), kernel, "spark", 1.5)
        assert isinstance(result, RedoDone)
        assert (result.id, result.engine, result.seconds) == (job.id, "spark", 1.5)
        assert result.outputs == replica.expected(job.first, job.end)
        assert repr(result.state) == repr(replica.states[job.end])


@given(LOGS)
def test_without_an_end_it_goes_as_far_as_the_sources_close(logs):
    replica = Replica(ListKernel(), logs)
    job = replica.job(10, replica.end)
    replay = Replay(list_work(logs).open(), 10, job.state, job.ranges)
    outputs = {b: o for chunk in replay.run() for b, o in chunk.outputs.items()}
    assert replay.frontier == replica.end
    assert outputs == replica.expected(10, replica.end)


def small() -> tuple[dict[str, list[bytes]], Replica]:
    log = [claim(1, "a")]
    log += [
        batch(1, "a", 2 * i, [(10_000 + 1000 * i, i), (10_100 + 1000 * i, 0.1)], 11_000 + 1000 * i) for i in range(30)
    ]
    logs = {"s": log, "t": [claim(1, "b"), batch(1, "b", 0, [], 40_000)]}
    return logs, Replica(ListKernel(), logs)


def test_memory_follows_the_slice_not_the_range():
    logs, replica = small()
    job = replica.job(10, 40)
    replay = Replay(list_work(logs).open(), 10, job.state, job.ranges, slice_rows=4)
    assert max(c.end - c.first for c in replay.run(40)) <= 2


def test_a_range_that_ends_before_the_bucket_is_closed_is_an_error():
    logs, replica = small()
    job = replica.job(10, 20)
    short = (replace(job.ranges[0], end=5), job.ranges[1])
    with pytest.raises(
        ReplayError, match="q: source s up to offset 5 closes only the buckets before 14, not those before 20"
    ):
        list(Replay(list_work(logs).open(), 10, job.state, short).run(20))


def test_another_count_of_rows_than_the_replica_had_is_an_error():
    logs, replica = small()
    job = replace(replica.job(10, 20), rows=7)
    with pytest.raises(ReplayError, match="have 20 rows in the log, the replica had read 7"):
        run_job(job, list_work(logs).open())


def test_the_deadline_is_kept():
    logs, replica = small()
    with pytest.raises(OutOfTime, match="not done by the deadline"):
        run_job(replica.job(10, 20), list_work(logs).open(), deadline=time.monotonic() - 1)


def test_lost_records_fail_by_name():
    logs, replica = small()
    with pytest.raises(OffsetGone, match="no longer in the log"):
        run_job(replica.job(10, 20), list_work(logs, lost=20).open())


def test_a_failure_in_a_worker_is_an_answer():
    logs, replica = small()
    kernel = ListKernel()
    answer = run_packed(list_work(logs, lost=20).pack(), pack_job(replica.job(10, 20, id=8), kernel, 60))
    assert msgspec.msgpack.decode(answer, type=PackedFailed).id == 8
    failed = unpack_result(answer, kernel, "spark", 0.0)
    assert failed == RedoFailed(8, "s[0]: offset 1 is no longer in the log (retention)", lost=True)


def test_a_worker_keeps_the_nodes_that_it_used_last_open(monkeypatch: pytest.MonkeyPatch):
    logs, _ = small()
    works = [replace(list_work(logs), node=name).pack() for name in "abc"]
    monkeypatch.setattr(redo_job, "_OPENED_MAX", 2)
    evict_all()
    a, _, _ = (get_cached(works[n]) for n in (0, 1, 0))
    c = get_cached(works[2])
    assert list(redo_job._opened.values()) == [a, c], "the longest unused one was closed"
    evict_all()


def test_a_source_without_a_range_is_refused():
    logs, replica = small()
    job = replica.job(10, 20)
    with pytest.raises(ReplayError, match="one range for each of 2 sources"):
        Replay(list_work(logs).open(), 10, job.state, job.ranges[:1])


def test_rejects_of_inputs_come_before_the_steps_own_by_input_then_log():
    s = [claim(1, "a"), batch(1, "a", 0, [(10_000, "x"), (10_001, -13), (10_002, None)]), batch(1, "a", 3, [], 11_000)]
    t = [claim(1, "a"), b"foreign", batch(1, "a", 0, [(10_000, "y")], 11_000)]
    logs = {"s": s, "t": t}
    replica = Replica(ListKernel(), logs)
    _, outputs = run_job(replica.job(10, 11), list_work(logs).open())
    assert [(r.source, r.offset) for r in outputs[10].rejects] == [("s", 1), ("s", 1), ("t", 1), ("t", 2), ("q", -1)]
    assert outputs[10].rows is None
    assert json.loads(outputs[10].rejects[0].raw) == "x"


def test_an_error_of_ours_is_told_whole_and_one_of_the_engine_in_one_line_that_is_cut():
    assert describe(ReplayError("x" * 900)) == "x" * 900
    assert describe(ValueError("several\n  lines")) == "ValueError: several lines"
    assert len(describe(ValueError("x" * 900))) == 500
