"""The audit: recompute a corrected stream from its sources and compare it with what was published, bit for bit.

It uses the same kernel and fold, but starts from the beginning of the log, without any replica's state. So it proves
that failures, redos, restarts and take-overs left no trace. For a query that is cut into nodes it reads no node's
stream, but computes the whole as one. It runs anywhere; on Spark as one task per query.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, Lookup
from borealis_py.log.corrected import read_progress
from borealis_py.log.description import Life
from borealis_py.protocol.redo import SourceRange
from borealis_py.protocol.settings import ROW_MAX_BYTES
from borealis_py.query.code import CodeStore
from borealis_py.query.names import base_name
from borealis_py.query.partitions import flattened, parts_of, physical
from borealis_py.query.spec import AppSpec
from reconcile.compare import CorrectedRow, Difference, compare, parse_row
from reconcile.dead_letters import DeadLetter, Recomputed, parse_letter
from reconcile.redo_job import describe
from reconcile.replay import Replay, ReplayError
from reconcile.replay_context import OpenReplayContext, ReplayContext, node_context
from sunion.model import TupleId
from sunion.source import SourceFold
from sunion.units import Offset


@dataclass(frozen=True, slots=True)
class DeadLetterSpec:
    """Where to find the dead letters of a query, and which nodes write them.

    Attributes:
        feed: the app's dead-letter topic.
        progress: for each node that the query's rows come through, the progress topics of its partitions.
        readers: for each source, or partition of one, those of these nodes that write its dead letters; none if a node
            of another query does.
    """

    feed: Feed
    progress: Mapping[str, tuple[Feed, ...]]
    readers: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class AuditSpec:
    """What to audit. Picklable.

    Args:
        work: computes the query from its sources.
        corrected: the corrected stream. progress: its progress.
        origin: first bucket of the app.
        whole: compare as far as the sources close buckets, not only up to the recorded progress: rows that were never
            published then count as missing.
        dead_letters: None: dead letters are not compared (those of a partitioned query are, with its first partition).
    """

    work: ReplayContext
    corrected: Feed
    progress: Feed
    origin: int
    whole: bool = False
    dead_letters: DeadLetterSpec | None = None


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of an audit.

    Attributes:
        query: the query, or its partition.
        origin, upto: buckets [origin, upto) were compared.
        rows: how many rows were compared. differences: how many differ, are missing or extra.
        first: the first difference; None: there is none.
        seconds: how long it took.
        error: why nothing could be compared; None: it could.
        dead_letters: how many dead letters are right; None: they were not compared.
        dead_letter_differences: how many of them differ, are missing or extra. first_dead_letter: the first of them.
    """

    query: str
    origin: int
    upto: int
    rows: int
    differences: int
    first: Difference | None
    seconds: float
    error: str | None = None
    dead_letters: int | None = None
    dead_letter_differences: int = 0
    first_dead_letter: Difference | None = None

    @property
    def clean(self) -> bool:
        """Whether it compared everything and found no difference."""
        return self.error is None and self.differences == self.dead_letter_differences == 0


def audit_specs(
    app: AppSpec,
    query: str,
    log: Log,
    origin: int,
    ahead_max_us: int,
    app_uid: str,
    whole: bool = False,
    row_max_bytes: int = ROW_MAX_BYTES,
    code: CodeStore | None = None,
) -> list[AuditSpec]:
    """The audits of one query of an app, one for each of its partitions.

    Args:
        origin: first bucket of the app. whole: see `AuditSpec`.
        ahead_max_us, row_max_bytes: as the app's timing has them.
        app_uid: of the app's life to read.
        code: where the files of its functions are read from; None: it has none.

    Raises:
        QueryError: the app has no such query.
    """
    specs = []
    letters: DeadLetterSpec | None = _letters(app, query)
    for part, flat in zip(parts_of(app, query), flattened(app, query), strict=True):
        work = node_context(flat, part, log, ahead_max_us, app_uid, row_max_bytes, code=code)
        progress = Feed(topics.progress(app.name, part))
        specs.append(AuditSpec(work, topics.corrected(app.name, part), progress, origin, whole, letters))
        letters = None  # each of them computes the whole query and takes its partition only at the end
    return specs


def audit(spec: AuditSpec) -> AuditResult:
    """Audit in this process. Failures of the log or the query are not raised, but returned in `error`."""
    started = time.monotonic()
    try:
        with closing(spec.work.open()) as on, closing(spec.work.log.lookup()) as corrected:
            upto, counts, letters = _compare(spec, on, corrected)
    except Exception as exc:
        error = describe(exc)
        return AuditResult(spec.work.node, spec.origin, spec.origin, 0, 0, None, time.monotonic() - started, error)
    return AuditResult(spec.work.node, spec.origin, upto, *counts, time.monotonic() - started, None, *letters)


def audit_on_spark(context: Any, specs: Iterable[AuditSpec]) -> list[AuditResult]:
    """Audit on Spark, one task per query. Results are in the order of `specs`. Raises whatever Spark raises."""
    todo = list(specs)
    if not todo:
        return []
    results: list[AuditResult] = context.parallelize(todo, len(todo)).mapPartitions(_audit_partition).collect()
    return results


def _audit_partition(specs: Iterable[AuditSpec]) -> Iterator[AuditResult]:
    for spec in specs:
        yield audit(spec)


_Counts = tuple[int, int, Difference | None]


def _compare(
    spec: AuditSpec, on: OpenReplayContext, lookup: Lookup
) -> tuple[int, _Counts, _Counts | tuple[None, int, Difference | None]]:
    upto = None if spec.whole else _reached(spec, spec.progress, lookup)
    first, end = lookup.bounds(spec.corrected)  # looked up after the progress, so every row below it is there
    told, recomputed = _told(spec, on, lookup)
    target = None if upto is None else max([upto, *(recomputed.may.values() if recomputed else ())])
    replay = Replay(on, spec.origin, on.kernel.initial(), whole_ranges(on, spec.origin))
    found = (parse_row(record) for record in lookup.read(spec.corrected, first, end))
    limit = on.buckets.last if upto is None else upto
    counts = compare(_expected(replay, on, target, limit, recomputed), found, limit)
    letters = (None, 0, None) if recomputed is None else recomputed.compare(told)
    return replay.frontier if upto is None else upto, (counts.rows, counts.differences, counts.first), letters


def _told(spec: AuditSpec, on: OpenReplayContext, lookup: Lookup) -> tuple[list[DeadLetter], Recomputed | None]:
    """The dead letters in the topic, read between two looks at the progress of the nodes that write them."""
    letters = spec.dead_letters
    if letters is None:
        return [], None

    def reached() -> dict[str, list[int]]:
        """Progress by node, one value per partition: a dead letter does not name the partition that wrote it."""
        return {
            node: [on.buckets.last if spec.whole else _reached(spec, feed, lookup) for feed in feeds]
            for node, feeds in letters.progress.items()
        }

    must = {node: min(parts) for node, parts in reached().items()}
    records = lookup.read(letters.feed, *lookup.bounds(letters.feed))
    told = [letter for letter in map(parse_letter, records) if letter is not None]
    may = {node: max(parts) for node, parts in reached().items()}
    return told, Recomputed(letters.readers, base_name(spec.work.node), must, may)


def _letters(app: AppSpec, query: str) -> DeadLetterSpec:
    nodes = app.upstream_of(query)
    running = physical(app)
    parts = {n: parts_of(app, n) for n in nodes}
    tells = {n: {of.name for part in parts[n] for of in running.inputs_of(part) if of.dead_letters} for n in nodes}
    sources = {s for part in parts[query] for s in running.sources_of(part)}
    readers = {s: tuple(n for n in nodes if s in tells[n]) for s in sources}
    progress = {n: tuple(Feed(topics.progress(app.name, part)) for part in parts[n]) for n in nodes}
    return DeadLetterSpec(Feed(topics.deadletter(app.name)), progress, readers)


def _expected(
    replay: Replay, on: OpenReplayContext, target: int | None, limit: int, letters: Recomputed | None
) -> Iterator[CorrectedRow]:
    """Recomputed rows below bucket `limit`; buckets from there to `target` run only for their dead letters."""
    for chunk in replay.run(target):
        for bucket, output in chunk.outputs.items():
            if letters is not None:
                letters.add(bucket, output.rejects)
            if output.rows is None or bucket >= limit:
                continue
            for index, (value, stime) in enumerate(on.kernel.published(output.rows)):
                yield CorrectedRow(TupleId(bucket, index), stime, value)


def whole_ranges(on: OpenReplayContext, origin: int) -> list[SourceRange]:
    """Every source of a node from its beginning to its present end.

    Args:
        origin: first bucket of the app.

    Raises:
        ReplayError: retention has deleted the beginning of one.
    """
    start = SourceFold(on.buckets.start(origin))
    ranges = []
    for index, (feed,) in enumerate(on.work.feeds):
        first, end = on.lookup.bounds(feed)
        if first > 0:
            raise ReplayError(
                f"source {on.work.inputs[index].name} no longer has its beginning (first kept offset is {first}): "
                "an audit needs the whole log"
            )
        ranges.append(SourceRange(index, Offset(first), Offset(end), start))
    return ranges


def _reached(spec: AuditSpec, progress: Feed, lookup: Lookup) -> int:
    """The bucket of a node's last progress record, searched backwards: the log may end with markers only."""
    first, end = lookup.bounds(progress)
    life = Life(spec.work.app_uid)
    back = 16
    while True:
        start = max(first, end - back)
        records = list(lookup.read(progress, start, end))
        for record in reversed(records):
            bucket = read_progress(record, life, spec.origin)
            if bucket is not None:
                return bucket
        if start == first:
            return spec.origin
        back *= 16
