"""Redo time against the number of Spark slots: every partition of a query redoes the same buckets at the same time, as
after a failure that affected them all. One partition's redo is sequential, since state passes from bucket to bucket;
more slots take more partitions at a time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from benchmarks.load import keyed
from benchmarks.measure.partitions import read_corrected
from benchmarks.measure.scaling_figures import SlotFigures, slot_figures
from borealis_py.app.state import AppState
from borealis_py.bench import redo
from borealis_py.bench.console import Say
from borealis_py.bench.events import Backlog
from borealis_py.bench.figures import BenchError
from borealis_py.bench.redo import DEADLINE_S, Bits, ExecutorRedo, bits
from borealis_py.bench.stage import Stage
from borealis_py.engine import compile_query
from borealis_py.log.kernel import Kernel
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob
from borealis_py.query.partitions import parts_of
from borealis_py.runtime.spark.session import ReplicaSession, SparkSettings
from reconcile.redo_job import run_job
from reconcile.replay_context import ReplayContext, node_context
from sunion.units import Bucket


@dataclass(frozen=True, slots=True)
class SlotPart:
    """One partition's job, who encodes its state, and the bits that must come out."""

    work: ReplayContext
    kernel: Kernel
    job: RedoJob
    expected: Bits


def measure(
    stage: Stage, state: AppState, backlog: Backlog, counts: Sequence[int], runs: int, say: Say
) -> list[SlotFigures]:
    """All partitions of an app that has run `backlog`, over all of it, on sessions of `counts` slots.

    Raises:
        BenchError: a redo failed, or gave other bits than this process.
        SparkUnavailable: no Java, or Spark did not start.
    """
    with ExitStack() as stack:
        say("the same redo in this process, to compare with")
        parts = [_part(stage, state, backlog, index, stack) for index in range(len(parts_of(state.spec, keyed.QUERY)))]
        seconds: dict[int, list[float]] = {}
        for slots in counts:
            say(f"redo of {len(parts)} partitions at once on Spark, slots: {slots}")
            seconds[slots] = _on_spark(stage, parts, slots, runs)
        return slot_figures(sum(part.job.rows for part in parts), len(parts), seconds)


def _part(stage: Stage, state: AppState, backlog: Backlog, index: int, stack: ExitStack) -> SlotPart:
    name = parts_of(state.spec, keyed.QUERY)[index]
    work = node_context(
        state.runs, name, stage.log, state.timing.ahead_max_us, state.app_uid, state.timing.row_max_bytes
    )
    kernel = compile_query(state.runs, name)
    stack.callback(kernel.close)
    rows = sum(n for n, _, _ in keyed.results([read_corrected(stage, state)[index]]).values())
    job = RedoJob(
        id=0, first=Bucket(backlog.origin), end=Bucket(backlog.end), state=kernel.initial(), ranges=(), rows=rows
    )  # a stream needs no ranges
    with closing(work.open()) as opened:
        _, outputs = run_job(job, opened)
    return SlotPart(work, kernel, job, bits(outputs))


def _on_spark(stage: Stage, parts: Sequence[SlotPart], slots: int, runs: int) -> list[float]:
    settings = SparkSettings(master=f"local[{slots}]", workers=slots)
    session = ReplicaSession.start_spark("borealis bench", settings, stage.work / f"spark-{slots}.log")
    bell = redo.Bell()
    with ExitStack() as stack:
        stack.callback(session.stop)
        redos = []
        for part in parts:
            session.warm(part.work.pack())
            redos.append(ExecutorRedo(session.context, part.work, part.kernel, bell, DEADLINE_S))
            stack.callback(redos[-1].close)
        return [_once(parts, redos, bell, n) for n in range(runs + 1)][1:]  # the first one warms up


def _once(parts: Sequence[SlotPart], redos: Sequence[ExecutorRedo], bell: redo.Bell, number: int) -> float:
    """Seconds until all have answered."""
    started = time.monotonic()
    for part, spark in zip(parts, redos, strict=True):
        spark.submit_job(replace(part.job, id=number))
    missing = dict(enumerate(redos))
    while missing:
        bell.wait()
        if time.monotonic() > started + DEADLINE_S:
            raise BenchError(f"{len(missing)} redos did not answer within {DEADLINE_S:g} s")
        for index, spark in list(missing.items()):
            for answer in spark.poll_results():
                _check(answer, parts[index])
                del missing[index]
    return time.monotonic() - started


def _check(answer: RedoDone | RedoFailed, part: SlotPart) -> None:
    if isinstance(answer, RedoFailed):
        raise BenchError(f"a redo of {part.work.node} failed: {answer.reason}")
    if bits(answer.outputs) != part.expected:
        raise BenchError(f"the redo of {part.work.node} on Spark gave other results than in this process")
