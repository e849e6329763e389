"""Planted in what is said and corrected: labels, redo, UNDO and REC_DONE (A3, R4, R6, B4, B17, B40, B43)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest import mock

import msgspec

from borealis_py.log import stream
from borealis_py.log.records import RangeHeader, StableHeader, TentativeHeader, pack
from borealis_py.log.stream import StreamEncoder
from borealis_py.protocol import reconciliation
from borealis_py.protocol.labels import Label, Labels, Share
from borealis_py.protocol.manager import Manager
from borealis_py.protocol.output_gate import Speaking
from borealis_py.protocol.redo import RedoFailed, RedoJob
from borealis_py.protocol.settings import DelayPolicy, Delays
from borealis_py.simulation.scenario import Scenario
from sunion.model import Kind, RecDone, StableBucket, StableRange, Undo
from sunion.output import SOutput
from sunion.view import Change, View
from tests.planted.bug import Bug, Script
from tests.planted.worlds import SOURCES, Worlds

R = reconciliation.Reconciliation


def _small_buckets_on_spark(scenario: Scenario) -> Scenario:
    """Buckets come fast, and nothing is redone inline."""
    return replace(scenario, width_us=50_000, timing=replace(scenario.timing, inline_us=0, inline_buckets=1))


def _hardly_any_memory(scenario: Scenario) -> Scenario:
    """Much less than arrives while a job runs, and buckets wait for as long as they may."""
    return replace(
        _small_buckets_on_spark(scenario),
        timing=replace(scenario.timing, inline_us=0, inline_buckets=1, buffer_rows_max=20),
        delays=Delays(2_000_000, DelayPolicy.DELAY, DelayPolicy.DELAY),
    )


def _label_dropped() -> Any:
    before = SOutput.tentative

    def tentative(self: SOutput, record: Any) -> Any:
        token, _ = before(self, record)
        return token, StableBucket(record.inc, record.bucket, record.output, record.waited_us)

    return mock.patch.object(SOutput, "tentative", tentative)


def _lacks_nothing() -> Any:
    before = SOutput.tentative
    return mock.patch.object(
        SOutput,
        "tentative",
        lambda self, record: before(self, replace(record, missing_sources=(), missing=(), completeness=1.0)),
    )


def _complete_by_bucket() -> Any:
    before = Labels.on_live_run

    def on_live_run(self: Labels, bucket: int, share: Share) -> Label:
        return replace(before(self, bucket, share), completeness=share.completeness)

    return mock.patch.object(Labels, "on_live_run", on_live_run)


def _lacked_by_bucket() -> Any:
    before = Labels.on_live_run

    def on_live_run(self: Labels, bucket: int, share: Share) -> Label:
        return replace(before(self, bucket, share), missing_sources=share.missing_sources)

    return mock.patch.object(Labels, "on_live_run", on_live_run)


def _tentative_taints_stable() -> Any:
    before = Manager._step_live

    def step(self: Manager, *due: Any) -> None:
        before(self, *due)
        self._s = self._l

    return mock.patch.object(Manager, "_step_live", step)


def _range_one_too_far() -> Any:
    before = SOutput.stable_run

    def run(self: SOutput, *arguments: Any) -> Any:
        said = before(self, *arguments)
        return [(t, replace(r, end=r.end + 1) if isinstance(r, StableRange) else r) for t, r in said]

    return mock.patch.object(SOutput, "stable_run", run)


def _range_found_by_its_first() -> Any:
    before = StreamEncoder.encode

    def encode(self: StreamEncoder, record: Any) -> Any:
        if isinstance(record, StableRange):
            header = RangeHeader(self._app_uid, record.inc, record.first, record.end, record.waited_us)
            return [self._record(record.first - 50, pack(header))]
        return before(self, record)

    return mock.patch.object(StreamEncoder, "encode", encode)


def _first_part_is_all() -> Any:
    before = stream.unpack_stream

    def unpack(value: bytes | None) -> Any:
        header, payload = before(value)
        first = isinstance(header, StableHeader | TentativeHeader) and header.part == 0
        return (msgspec.structs.replace(header, parts=1) if first else header), payload

    return mock.patch.object(stream, "unpack_stream", unpack)


def _late_redo_counts() -> Any:
    jobs: dict[object, RedoJob] = {}
    start, answered = R.start_job, R.answered

    def remember(self: R, *args: Any, **kwargs: Any) -> Any:
        effects = start(self, *args, **kwargs)
        if self.job is not None:
            jobs[self, self.job.id] = self.job
        return effects

    def believe(self: R, now: int, result: Any, stable: int) -> Any:
        if isinstance(result, RedoFailed) or (self, result.id) not in jobs:
            return answered(self, now, result, stable)
        self.job = self.deadline = None
        return (jobs[self, result.id], result), []

    return mock.patch.multiple(R, start_job=remember, answered=believe)


def _failed_redo_counts() -> Any:
    answered = R.answered

    def believe(self: R, now: int, result: Any, stable: int) -> Any:
        job = self.job
        if isinstance(result, RedoFailed) and job is not None and result.id == job.id and job.peer is None:
            self.job = self.deadline = None
            return (job, reconciliation.RedoDone(job.id, job.state, {}, "spark", 0.0)), []
        return answered(self, now, result, stable)

    return mock.patch.object(R, "answered", believe)


def _hangs_with_its_job() -> Any:
    return mock.patch.object(R, "check_deadline", return_value=[])


def _jobs_chase_for_ever() -> Any:
    start = R.start_job
    return mock.patch.object(R, "start_job", lambda self, *args: start(self, *args[:5]))


def _evicts_what_a_chase_needs() -> Any:
    return mock.patch.object(R, "keep_from", lambda self, stable, live: live)


def _undo_of_what_was_never_shown() -> Any:
    before = View.stable_run

    def stable_run(self: View, bucket: int, end: int, output: Any) -> list[Change]:
        if bucket >= self.shown or self._undone:
            return before(self, bucket, end, output)
        self._undone = True
        return [Change(Kind.UNDO, bucket, bucket), *before(self, bucket, end, output)]

    return mock.patch.object(View, "stable_run", stable_run)


def _no_undo() -> Any:
    before = View.stable_run

    def run(self: View, *args: Any) -> Any:
        return [c for c in before(self, *args) if c.kind.value != "UNDO"]

    return mock.patch.object(View, "stable_run", run)


def _rec_done_at_once() -> Any:
    before = View.stable_run

    def run(self: View, bucket: int, end: int, output: Any) -> Any:
        changes = before(self, bucket, end, output)
        if any(c.kind is Kind.UNDO for c in changes):
            changes.append(Change(Kind.REC_DONE, self.shown, self.shown))
        return changes

    return mock.patch.object(View, "stable_run", run)


def _outbox_without_bound() -> Any:
    return mock.patch.object(Speaking, "room", property(lambda self: 1_000_000))


def _says_none(kind: type) -> Any:
    """Replicas do not say records of this kind."""
    kept = Manager.handle

    def handle(self: Manager, turn: Any) -> Any:
        return [e for e in kept(self, turn) if not isinstance(getattr(e, "record", None), kind)]

    return mock.patch.object(Manager, "handle", handle)


BUGS = (
    Bug(
        "A3 tentative results are labelled",
        "safety",
        _label_dropped,
        Worlds(SOURCES, ("stable", "hole", "exception"), found=3),
    ),
    Bug(
        "B17 a tentative result says what it lacks",
        "safety",
        _lacks_nothing,
        Worlds(SOURCES, ("label",), found=3),
    ),
    Bug(
        "B17 completeness is about the window",
        "quality",
        _complete_by_bucket,
        Worlds(SOURCES, ("label",), found=3, seeds=30),
    ),
    Bug(
        "B17 lacked is about the window",
        "quality",
        _lacked_by_bucket,
        Worlds(SOURCES, ("label",), found=3, seeds=30),
    ),
    Bug(
        "A11 S never sees tentative input",
        "safety",
        _tentative_taints_stable,
        Worlds(SOURCES, ("stable", "exception"), found=3),
        script=Script(
            "tests/protocol/test_scenarios.py::test_one_failure",
            "is called stable and differs",
        ),
    ),
    Bug(
        "A3 a range ends where its buckets do",
        "safety",
        _range_one_too_far,
        Worlds((), ("stable", "client", "exception"), found=1),
    ),
    Bug(
        "B21 a range is found by its last bucket",
        "liveness",
        _range_found_by_its_first,
        Worlds(SOURCES, ("retention", "convergence", "end", "exception", "corrected", "stable"), found=10, seeds=40),
    ),
    Bug(
        "A3 a bucket counts when its last part is read",
        "safety",
        _first_part_is_all,
        Worlds(("big",), ("client", "stable"), found=1, seeds=30),
    ),
    Bug(
        "B4 a late redo result does not count",
        "safety",
        _late_redo_counts,
        # The late answer must fall into the reconciliation that went on without it.
        Worlds((*SOURCES, "redos", "redo_zombie"), ("stable", "exception", "hole", "convergence"), found=16, seeds=80),
        script=Script(
            "tests/protocol/test_scenarios.py::test_a_redo_that_fails_or_hangs_runs_inline[hold]",
            "is called stable and differs",
        ),
    ),
    Bug(
        "R4 a failed redo is no result",
        "safety",
        _failed_redo_counts,
        Worlds((*SOURCES, "jvm"), ("stable", "exception"), found=3, seeds=30),
    ),
    Bug(
        "R4 a job has a deadline",
        "liveness",
        _hangs_with_its_job,
        Worlds((*SOURCES, "redos"), ("convergence",), found=6, seeds=40),
    ),
    Bug(
        "R4 jobs do not chase the live frontier",
        "liveness",
        _jobs_chase_for_ever,
        Worlds((*SOURCES, "redos"), ("convergence",), found=3, seeds=60, change=_small_buckets_on_spark),
    ),
    Bug(
        "R6 what comes during a last job stays",
        "liveness",
        _evicts_what_a_chase_needs,
        Worlds((*SOURCES, "redos"), ("convergence",), found=58, seeds=60, change=_hardly_any_memory),
    ),
    Bug(
        "B40 UNDO comes from the view",
        "safety",
        _no_undo,
        Worlds(SOURCES, ("undo",), found=3),
        script=Script("tests/protocol/test_scenarios.py::test_one_failure", "corrects tentative rows without UNDO"),
    ),
    Bug(
        "B40 UNDO names what was shown",
        "safety",
        _undo_of_what_was_never_shown,
        script=Script("tests/sunion/test_view.py::test_undo_names_the_first_bucket_that_was_shown"),
    ),
    Bug(
        "B40 REC_DONE waits for all below it",
        "safety",
        _rec_done_at_once,
        Worlds(SOURCES, ("rec_done",), found=3, seeds=30),
    ),
    Bug(
        "B43 no more than 80 records ahead of the acks",
        "liveness",
        _outbox_without_bound,
        Worlds(
            (*SOURCES, "cut_own", "one_way"), ("buffers", "outbox"), found=6, seeds=60, change=_small_buckets_on_spark
        ),
    ),
    Bug(
        "A11 a replica says where its corrections start",
        "quality",
        lambda: _says_none(Undo),
        scene="lost_input",
    ),
    Bug(
        "A11 a replica says where its corrections end",
        "quality",
        lambda: _says_none(RecDone),
        scene="lost_during_stabilization",
    ),
)
