"""The redo task with the real kernel: the replica's bits, on doubles that show every other order of addition."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import duckdb
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.engine import DuckKernel, fingerprint
from borealis_py.log.base import Record
from borealis_py.log.corrected import Progress, row_headers
from borealis_py.protocol.redo import RedoDone, RedoFailed
from borealis_py.query.errors import QueryError
from reconcile.audit import Audited, AuditResult, AuditSpec, audit
from reconcile.redo_job import evict, get_cached, pack_job, run_packed, unpack_result
from reconcile.replay_context import make_kernel, node_context
from sunion.model import Output
from tests.engine.worlds import state_prints
from tests.reconcile.audits import CORRECTED, PROGRESS, CorrectedLog
from tests.reconcile.flights_world import AHEAD_US, ORIGIN, WIDTH_US, app, bits, log
from tests.reconcile.list_world import StubLog
from tests.reconcile.logs import LOGS
from tests.reconcile.replica import Replica

TOPICS = StubLog({f"kernel.{name}": values for name, values in LOGS.items()})


@pytest.mark.parametrize("query", ["totals", "decimals", "big"])
@pytest.mark.parametrize("cuts", [(), (1_007, 1_010, 1_033), tuple(range(1_000, 1_080))])
def test_any_split_gives_the_bits_of_single_steps(query, cuts):
    work = node_context(app("kernel"), query, TOPICS, AHEAD_US, "a1")
    kernel = work.make_kernel()
    tells = query == "totals"  # the first query that reads the sources
    assert [of.dead_letters for of in work.inputs] == [tells, tells]
    replica = Replica(kernel, LOGS, ORIGIN, WIDTH_US, AHEAD_US, tells)
    packed = work.pack()
    redone = {}
    for job in replica.jobs(cuts):
        done = unpack_result(run_packed(packed, pack_job(job, kernel, 60)), kernel, "spark", 0.0)
        assert isinstance(done, RedoDone), done
        redone |= bits(done.outputs)
        assert state_prints(done.state) == state_prints(replica.states[job.end])
    assert replica.end == ORIGIN + 80
    assert redone == bits(replica.outputs)
    assert len(redone) > 5
    assert any(rejects for _, rejects in redone.values()) is tells
    evict(packed)
    kernel.close()


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), query=st.sampled_from(["totals", "decimals", "big"]), data=st.data())
def test_any_log_cut_anywhere_is_redone_with_the_bits_of_single_steps(
    seed: int, query: str, data: st.DataObject
) -> None:
    logs = {"s": log(seed, 3), "t": log(seed + 1, 3, ended=True)}
    topics = StubLog({f"kernel.{name}": values for name, values in logs.items()})
    work = node_context(app("kernel"), query, topics, AHEAD_US, "a1")
    kernel, packed = work.make_kernel(), work.pack()
    replica = Replica(kernel, logs, ORIGIN, WIDTH_US, AHEAD_US, query == "totals")
    cuts = data.draw(st.sets(st.integers(replica.origin + 1, replica.end - 1), max_size=5))
    redone: dict[int, object] = {}
    for job in replica.jobs(sorted(cuts)):
        done = unpack_result(run_packed(packed, pack_job(job, kernel, 60)), kernel, "spark", 0.0)
        assert isinstance(done, RedoDone), done
        redone |= bits(done.outputs)
        assert state_prints(done.state) == state_prints(replica.states[job.end])
    assert redone == bits(replica.outputs)
    evict(packed)
    kernel.close()


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 10**6), query=st.sampled_from(["totals", "decimals", "big"]), data=st.data())
def test_any_log_is_audited_with_the_bits_of_single_steps(seed: int, query: str, data: st.DataObject) -> None:
    """At once and in two halves; and a row of which one bit differs is found."""
    logs = {"s": log(seed, 3), "t": log(seed + 1, 3, ended=True)}
    sources = {f"kernel.{name}": values for name, values in logs.items()}
    work = node_context(app("kernel"), query, StubLog(sources), AHEAD_US, "a1")
    kernel = work.make_kernel()
    replica = Replica(kernel, logs, ORIGIN, WIDTH_US, AHEAD_US, query == "totals")
    rows = corrected(kernel, replica.outputs)
    kernel.close()

    def audited(rows: list[Record | None], upto: int, start: Audited | None = None) -> AuditResult:
        topics = {**sources, CORRECTED.topic: rows, PROGRESS.topic: [progress(upto)]}
        on = replace(work, log=CorrectedLog(topics))
        return audit(AuditSpec(on, CORRECTED, PROGRESS, ORIGIN, start=start, advance=True))

    whole = audited(rows, replica.end)
    assert (whole.clean, whole.rows, whole.upto) == (True, len(rows), replica.end), whole
    half = audited(rows, data.draw(st.integers(replica.origin + 1, replica.end - 1)))
    assert half.clean, half
    rest = audited(rows, replica.end, half.reached)
    assert (rest.clean, rest.upto) == (True, replica.end), rest
    assert half.rows + rest.rows == whole.rows
    if rows:
        at = data.draw(st.integers(0, len(rows) - 1))
        planted = msgspec.structs.replace(rows[at], value=another(rows[at].value))
        found = audited([*rows[:at], planted, *rows[at + 1 :]], replica.end)
        assert (found.differences, found.reached) == (1, None), found


def corrected(kernel: DuckKernel, outputs: Mapping[int, Output]) -> list[Record]:
    """The corrected stream of these."""
    return [
        Record(CORRECTED, 0, 0, None, value, row_headers(bucket, i, stime))
        for bucket, output in outputs.items()
        if output.rows is not None
        for i, (value, stime) in enumerate(kernel.published(output.rows))
    ]


def progress(upto: int) -> bytes:
    return msgspec.json.encode(Progress("a1", upto, 0, 1))


def another(value: bytes | None) -> bytes:
    """A row of which the last digit is another."""
    assert value is not None
    at = max(i for i, byte in enumerate(value) if chr(byte).isdigit())
    return value[:at] + (b"2" if value[at : at + 1] == b"1" else b"1") + value[at + 1 :]


def test_the_engine_may_use_what_the_work_says():
    kernel = make_kernel(app("kernel").to_json(), "totals", memory_bytes=64 << 20)
    (limit,) = kernel._duck.connection.execute("SELECT current_setting('memory_limit')").fetchone()
    kernel.close()
    assert limit == "64.0 MiB"


def test_a_work_made_twice_is_opened_once():
    first, second = (node_context(app("kernel"), "totals", TOPICS, AHEAD_US, "a1").pack() for _ in range(2))
    assert first == second
    on = get_cached(first)
    assert get_cached(second) is on
    evict(first)
    assert get_cached(second) is not on
    evict(second)


def test_a_worker_that_might_compute_other_bits_refuses_the_job(monkeypatch):
    """A task is refused there before it says anything; so must be a redo, whose bits are the replica's own."""
    work = node_context(app("kernel"), "totals", TOPICS, AHEAD_US, "a1")
    kernel = work.make_kernel()
    (job,) = Replica(kernel, LOGS, ORIGIN, WIDTH_US, AHEAD_US).jobs(())
    packed = pack_job(job, kernel, 60)
    there = {**fingerprint.ingredients(), "DuckDB": "0.9.9"}
    monkeypatch.setattr(fingerprint, "ingredients", lambda: there)
    failed = unpack_result(run_packed(work.pack(), packed), kernel, "spark", 0.0)
    kernel.close()
    assert isinstance(failed, RedoFailed)
    assert re.fullmatch(
        rf"OtherKernel: the worker on .* might compute other bits: DuckDB is 0.9.9, not {duckdb.__version__}",
        failed.reason,
    )


def test_an_unknown_query():
    with pytest.raises(QueryError, match="has no query 'total'"):
        node_context(app("kernel"), "total", TOPICS, AHEAD_US, "a1")
