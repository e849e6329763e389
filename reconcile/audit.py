"""The audit: recompute a corrected stream from its sources and compare it with what was published, bit for bit.

It uses the same kernel and fold, but starts from the beginning of the log, without any replica's state, or where an
earlier audit ended, with the state that this one computed itself. So it proves that failures, redos, restarts and
take-overs left no trace. For a query that is cut into nodes it reads no node's stream, but computes the whole as one.
It runs anywhere; on Spark as one task per query.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, LogError, Lookup
from borealis_py.log.corrected import read_gap, read_progress
from borealis_py.log.description import Life
from borealis_py.protocol.redo import SourceRange
from borealis_py.protocol.settings import ROW_MAX_BYTES
from borealis_py.query.functions import CodeStore
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
from sunion.union import Mark
from sunion.units import Offset

HIDES = "a transaction that has not ended hides"
PATIENCE_S = 30.0
_AGAIN_S = 0.02


class Hidden(LogError):
    """A transaction hides records of a topic, and may do so for longer than an audit waits."""


@dataclass(frozen=True, slots=True)
class Audited:
    """Where an audit ended that found no difference; the next one may start here.

    Attributes:
        bucket: the first that it has not verified: all rows and dead letters below it are right.
        state: of the fragment there, encoded by its kernel.
        marks: where to read each source from, in the order of its inputs.
        corrected: offset in the corrected stream behind the last row below `bucket`.
        letters: end of the dead-letter topic when it was read. What comes later is of no bucket below `bucket`.
    """

    bucket: int
    state: bytes
    marks: tuple[Mark, ...]
    corrected: int = 0
    letters: int = 0


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
        start: where an earlier audit ended; None: at the beginning. advance: the result says where this one ended.
        patience_s: how long to wait for transactions to end that hide what the progress counts.
    """

    work: ReplayContext
    corrected: Feed
    progress: Feed
    origin: int
    whole: bool = False
    dead_letters: DeadLetterSpec | None = None
    start: Audited | None = None
    advance: bool = False
    patience_s: float = PATIENCE_S

    @property
    def first(self) -> int:
        """The first bucket that it compares."""
        return self.origin if self.start is None else self.start.bucket


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
        resumed: whether it began where an earlier audit ended.
        lost: [first, end) of the gaps among these buckets, as its progress names them: they were not compared (R18.7).
        reached: where the next one may start, if that was asked for, nothing differs, and it is further than before.
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
    resumed: bool = False
    lost: tuple[tuple[int, int], ...] = ()
    reached: Audited | None = None

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
    started, resumed = time.monotonic(), spec.start is not None
    try:
        with closing(spec.work.open()) as on, closing(spec.work.log.lookup()) as corrected:
            found = _Comparing(spec, on, corrected).compare()
    except Exception as exc:
        error, seconds = describe(exc), time.monotonic() - started
        return AuditResult(spec.work.node, spec.first, spec.first, 0, 0, None, seconds, error, resumed=resumed)
    return replace(found, seconds=time.monotonic() - started, resumed=resumed)


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


class _Comparing:
    """One audit at work."""

    def __init__(self, spec: AuditSpec, on: OpenReplayContext, lookup: Lookup) -> None:
        self._spec = spec
        self._on = on
        self._lookup = lookup
        self._behind = 0
        """Offset in the corrected stream behind the last row below the bucket at which the next audit may start."""
        self._reached: Audited | None = None
        self._lost: tuple[range, ...] = ()

    def compare(self) -> AuditResult:
        """The result, without the time that it took. Raises ReplayError, LogError and what a query raises."""
        spec, on, start = self._spec, self._on, self._spec.start
        upto = None if spec.whole else max(spec.first, _reached(spec, spec.progress, self._lookup))
        self._lost = _lost(spec, spec.progress, self._lookup)
        first, end = self._visible(spec.corrected)  # looked up after the progress, so every row below it is there
        first = self._behind = first if start is None else max(first, start.corrected)
        told, recomputed, letters_end = self._told()
        target = None if upto is None else max([upto, *(recomputed.may.values() if recomputed else ())])
        stop = None if upto is None else min([upto, *(recomputed.must.values() if recomputed else ())])
        state = on.kernel.initial() if start is None else on.kernel.decode_state(start.state)
        ranges = whole_ranges(on, spec.origin) if start is None else _ranges_from(on, start)
        replay = Replay(on, spec.first, state, ranges)
        limit = on.buckets.last if upto is None else upto
        rows = compare(self._expected(replay, target, limit, stop, recomputed), self._found(first, end, stop), limit)
        letters = None if recomputed is None else recomputed.compare(told)
        ended = replay.frontier if upto is None else upto
        result = AuditResult(spec.work.node, spec.first, ended, rows.rows, rows.differences, rows.first, 0.0)
        result = replace(result, lost=self._lost_in(spec.first, ended))
        if letters is not None:
            result = replace(
                result, dead_letters=letters[0], dead_letter_differences=letters[1], first_dead_letter=letters[2]
            )
        if self._reached is None or not result.clean:
            return result
        return replace(result, reached=replace(self._reached, corrected=self._behind, letters=letters_end))

    def _lost_in(self, first: int, end: int) -> tuple[tuple[int, int], ...]:
        return tuple((gap.start, gap.stop) for gap in self._lost if gap.stop > first and gap.start < end)

    def _found(self, first: int, end: int, stop: int | None) -> Iterator[CorrectedRow]:
        for record in self._lookup.read(self._spec.corrected, first, end):
            row = parse_row(record)
            if row.id is not None and stop is not None and row.id.bucket < stop:
                self._behind = row.offset + 1
            yield row

    def _told(self) -> tuple[list[DeadLetter], Recomputed | None, int]:
        """The dead letters in the topic, read between two looks at the progress of the nodes that write them, and where
        the topic ended. Of those that an earlier audit has read only what it has not verified."""
        spec, letters, lookup = self._spec, self._spec.dead_letters, self._lookup
        if letters is None:
            return [], None, 0

        def reached() -> dict[str, list[int]]:
            """Progress by node, one value per partition: a dead letter does not name the partition that wrote it."""
            return {
                node: [self._on.buckets.last if spec.whole else _reached(spec, feed, lookup) for feed in feeds]
                for node, feeds in letters.progress.items()
            }

        must = {node: min(parts) for node, parts in reached().items()}
        read = 0 if spec.start is None else spec.start.letters
        first, end = self._visible(letters.feed)
        told = [
            letter
            for record in lookup.read(letters.feed, first, end)
            if (letter := parse_letter(record)) is not None and (record.offset >= read or letter.bucket >= spec.first)
        ]
        for feed in {feed for feeds in letters.progress.values() for feed in feeds}:
            self._visible(feed)  # what these dead letters count for is there, too
        may = {node: max(parts) for node, parts in reached().items()}
        query = base_name(spec.work.node)
        lost = tuple(gap for feed in letters.progress.get(query, ()) for gap in _lost(spec, feed, lookup))
        return told, Recomputed(letters.readers, query, must, may, lost), end

    def _visible(self, feed: Feed) -> tuple[int, int]:
        """A topic's bounds, once all can be seen that is written there by now: of a transaction each topic learns for
        itself that it has ended, and behind one that is open nothing can be seen. Raises Hidden."""
        written, deadline = self._lookup.written(feed), time.monotonic() + self._spec.patience_s
        while (bounds := self._lookup.bounds(feed))[1] < written:
            if time.monotonic() >= deadline:
                raise Hidden(
                    f"{feed.topic}[{feed.partition}]: {HIDES} what lies behind offset {bounds[1]}. "
                    "Audit again when it has: a replica's that died ends within minutes, and "
                    "`kafka-transactions.sh find-hanging` names any other"
                )
            time.sleep(_AGAIN_S)
        return bounds

    def _expected(
        self, replay: Replay, target: int | None, limit: int, stop: int | None, letters: Recomputed | None
    ) -> Iterator[CorrectedRow]:
        """Recomputed rows below bucket `limit`; buckets from there to `target` run only for their dead letters. At
        `stop` everything below is known."""
        kernel = self._on.kernel
        for chunk in replay.run(target, stop if self._spec.advance else None):
            for bucket, output in chunk.outputs.items():
                if letters is not None:
                    letters.add(bucket, output.rejects)
                if output.rows is None or bucket >= limit or any(bucket in gap for gap in self._lost):
                    continue
                for index, (value, stime) in enumerate(kernel.published(output.rows)):
                    yield CorrectedRow(TupleId(bucket, index), stime, value)
            if self._spec.advance and chunk.end == stop:
                self._reached = Audited(stop, kernel.encode_state(replay.state), replay.marks)


def _letters(app: AppSpec, query: str) -> DeadLetterSpec:
    nodes = app.upstream_of(query)
    running = physical(app)
    parts = {n: parts_of(app, n) for n in nodes}
    tells = {n: {of.name for part in parts[n] for of in running.inputs_of(part) if of.dead_letters} for n in nodes}
    sources = {s for part in parts[query] for s in running.sources_of(part)}
    readers = {s: tuple(n for n in nodes if s in tells[n]) for s in sources}
    progress = {n: tuple(Feed(topics.progress(app.name, part)) for part in parts[n]) for n in nodes}
    return DeadLetterSpec(Feed(topics.deadletter(app.name)), progress, readers)


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
            why = f"its beginning (first kept offset is {first}), and no end of an audit with --advance is kept here"
            raise ReplayError(_gone(on, index, why))
        ranges.append(SourceRange(index, Offset(first), Offset(end), start))
    return ranges


def _ranges_from(on: OpenReplayContext, start: Audited) -> list[SourceRange]:
    """Every source from where an earlier audit ended to its present end. Raises ReplayError: that is deleted."""
    ranges = []
    for index, ((feed,), mark) in enumerate(zip(on.work.feeds, start.marks, strict=True)):
        first, end = on.lookup.bounds(feed)
        if first > mark.offset:
            why = f"offset {mark.offset}, where the last audit with --advance ended (first kept offset is {first})"
            raise ReplayError(_gone(on, index, why))
        ranges.append(SourceRange(index, Offset(mark.offset), Offset(max(end, mark.offset)), mark.fold))
    return ranges


def _gone(on: OpenReplayContext, index: int, why: str) -> str:
    return (
        f"source {on.work.inputs[index].shown} no longer has {why}: what {on.work.node} made of that cannot be "
        'recomputed. retain="audited" deletes of a source only what audits have verified; `borealis verify` checks '
        "without sources"
    )


def _lost(spec: AuditSpec, progress: Feed, lookup: Lookup) -> tuple[range, ...]:
    """The gaps that a progress topic names, in order."""
    life = Life(spec.work.app_uid)
    told = (read_gap(record, life) for record in lookup.read(progress, *lookup.bounds(progress)))
    return tuple(sorted((range(of.first, of.end) for of in told if of is not None), key=lambda gap: gap.start))


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
