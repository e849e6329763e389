"""An app's topics checked without a model, while it runs: what was committed against what replicas said, replicas
against each other, and all of it against what the sources closed.

Topics grow while they are read, so they are read against the way of the data: first what was published, then what
replicas said, the last node first, then the sources. Whatever a later topic must hold for an earlier one was written
before that was. What must have been published is what the progress said before anything else was read.

Rows pass by: of each bucket that holds rows a hash is kept, of each tuple of a source its number.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from borealis_py.verify.anomalies import AnomalyKind, Subject, Verdict
from borealis_py.verify.committed import CommittedBuckets
from borealis_py.verify.description import CheckedApp, CheckedNode, place
from borealis_py.verify.envelope import Raw, life_of
from borealis_py.verify.evidence import CommittedRow, DeadLetterRecord, corrected_rows, dead_letters, gap_of, progress
from borealis_py.verify.history import Rejection, ReplicaHistory, statements
from borealis_py.verify.kafka_reader import Told
from borealis_py.verify.replicas import StreamJudge, StreamRules
from borealis_py.verify.source_log import SourceHistory, SourceRules, fold
from borealis_py.verify.spans import Spans
from borealis_py.verify.stable import PublishedDigest, StableBuckets
from borealis_py.verify.values import in_json

JUDGED = frozenset(AnomalyKind) - {AnomalyKind.UNSEEN, AnomalyKind.BOUND_BROKEN}
"""All kinds but those that only a subscriber's own notes can show."""
GRACE_S = 10.0
"""How much later than the corrected stream a replica's own topic may get a bucket."""
AGAIN_S = 0.5


class TopicStreams(Protocol):
    """Where records are read from, such as `kafka_reader.TopicReader`."""

    def stream(self, topic: str, partition: int = 0, committed: bool = True, told: Told | None = None) -> Iterator[Raw]:
        """Every record of a partition, one by one, to what is written now."""

    def beginning(self, topic: str, partition: int = 0) -> int:
        """Offset of the first record that was not deleted."""


def survey(app: CheckedApp, queries: Sequence[str], topics: TopicStreams, told: Told | None = None) -> Verdict:
    """Check these queries of an app, and the nodes and sources that they need.

    Args:
        told: called while a topic is read.

    Raises:
        CannotRead: a topic is missing or cannot be read to its end.
    """
    it = _Survey(app, app.of(queries), topics, told)
    it.read()
    return it.verdict


def reads(app: CheckedApp, queries: Sequence[str]) -> int:
    """How many partitions a survey reads, if nothing is read again."""
    nodes = app.of(queries)
    sources = {i for node in nodes for i in node.inputs if i in app.sources}
    said = sum(node.replicas * node.readers for node in nodes)
    return 1 + 2 * len(nodes) + 2 * sum(node.query for node in nodes) + said + len(sources)


@dataclass
class _Said:
    """What replicas of a node said. `until`: the first bucket that none has called stable in every partition; `holes`:
    none has some bucket below."""

    until: int
    holes: bool
    stable: StableBuckets


@dataclass
class _Survey:
    app: CheckedApp
    nodes: tuple[CheckedNode, ...]
    topics: TopicStreams
    told: Told | None
    verdict: Verdict = field(default_factory=lambda: Verdict(judged=JUDGED))
    published: dict[str, int] = field(default_factory=dict)
    """By node: its progress before anything else was read."""
    progress: dict[str, int] = field(default_factory=dict)
    """After corrected streams and dead letters were read."""
    rows: dict[str, CommittedBuckets] = field(default_factory=dict)
    letters: dict[str, CommittedBuckets] = field(default_factory=dict)
    of_logs: Counter[tuple[str, int, int]] = field(default_factory=Counter)
    """Dead letters of sources: (source, offset, number of what its publisher refused)."""
    gaps: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """By node: the gaps in its progress, as it was read last."""
    lost: dict[str, Spans] = field(default_factory=dict)
    """By node: buckets that were published as lost."""
    told_lost: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    """By node: the same, by its dead letters."""
    closed: dict[str, int] = field(default_factory=dict)
    """By stream: the first bucket that it has not closed."""

    def read(self) -> None:
        """Read all topics, in the order of the module's docstring."""
        quiet = Verdict()
        self.published = {node.name: self._progress(node, quiet) for node in self.nodes}
        self._dead_letters()
        for node in self.nodes:
            if node.query:
                self._corrected(node)
        self.progress = {node.name: self._progress(node, self.verdict) for node in self.nodes}
        for node in self.nodes:
            self._gaps(node)
        for name, stream in self.rows.items():
            self._beyond(name, stream)
        for node in reversed(self.nodes):
            self._node(node)
        logs = {s: self._source(s) for s in self.app.sources if any(s in node.inputs for node in self.nodes)}
        for node in self.nodes:
            self._behind_inputs(node)
        self._letters_of_logs(logs)

    # What was published -----------------------------------------------------------------------------------------------

    def _progress(self, node: CheckedNode, verdict: Verdict) -> int:
        """The last record's bucket; the origin where there is none."""
        name, last = f"{node.name}.progress", self.app.origin
        say = verdict.about(Subject.PROGRESS)
        raw = list(self._stream(name))
        self.gaps[node.name] = [gap for record in raw if (gap := gap_of(record, self.app.app_uid)) is not None]
        for record in progress(raw, self.app.app_uid):
            verdict.looked_at["progress records"] += 1
            if record.bucket < self.app.origin:
                what = f"offset {record.offset}: no progress of this app"
                verdict.say(AnomalyKind.INCONSISTENT_OFFSETS, name, what, Subject.RECORD)
                continue
            if record.bucket < last:
                say(AnomalyKind.INCONSISTENT_OFFSETS, name, f"fell from {last} to {record.bucket}")
            last = record.bucket
        return last

    def _dead_letters(self) -> None:
        topic, known = "deadletter", {node.name for node in self.app.nodes}
        trimmed = self._trimmed(topic)
        for node in self.nodes:
            name = f"dead letters of {node.name}"
            self.letters[node.name] = CommittedBuckets(name, Subject.DEAD_LETTERS, self.verdict, trimmed)
        for record, letter in _numbered(self._stream(topic), dead_letters):
            if letter.node not in known or letter.offset < -1:
                what = f"offset {record.offset}: no dead letter of this app"
                self.verdict.say(AnomalyKind.INCONSISTENT_OFFSETS, topic, what, Subject.RECORD)
            elif letter.gap is not None:
                self.told_lost.setdefault(letter.node, []).append(letter.gap)
            elif letter.node in self.letters:
                self.verdict.looked_at["dead letters"] += 1
                rejection = Rejection(letter.source, letter.offset, letter.reason, letter.raw, letter.seq)
                add = partial(_with_letter, rejection)
                self.letters[letter.node].take(letter.bucket, letter.index, record.offset, add)
                if letter.offset >= 0:
                    self.of_logs[letter.source, letter.offset, letter.seq] += 1

    def _corrected(self, node: CheckedNode) -> None:
        name, partition = place(node.name)
        where = f"corrected {node.name}"
        stream = CommittedBuckets(where, Subject.CORRECTED, self.verdict, self._trimmed(name, partition))
        self.rows[node.name] = stream
        last, seen = -1, 0
        for row in corrected_rows(self._stream(name, partition)):
            last, seen = row.offset, seen + 1
            if row.id is None or row.stime is None or row.row is None:
                what = f"offset {row.offset}: no readable id, stime or row"
                self.verdict.say(AnomalyKind.INCONSISTENT_OFFSETS, where, what, Subject.RECORD)
            elif row.stime // self.app.bucket_us != row.id[0]:
                what = f"offset {row.offset}: id {row.id[0]}:{row.id[1]}, its stime {row.stime} is of another bucket"
                self.verdict.say(AnomalyKind.INCONSISTENT_OFFSETS, where, what, Subject.CORRECTED)
            else:
                stream.take(*row.id, row.offset, partial(_with_row, row, node.columns))
        written = sum(r.offset <= last for r in self._stream(name, partition, committed=False))
        self.verdict.looked_at["corrected rows"] += seen
        self.verdict.looked_at["aborted rows"] += written - seen

    def _gaps(self, node: CheckedNode) -> None:
        """What was published as lost: each bucket once, and with a dead letter."""
        name, spans = f"{node.name}.progress", Spans()
        say = self.verdict.about(Subject.PROGRESS)
        for gap in self.gaps[node.name]:
            if spans.holes(*gap) != [gap]:
                say(AnomalyKind.DUPLICATE, name, f"some of the buckets {gap[0]} to {gap[1] - 1} were lost before")
            spans.add(*gap)
            self.verdict.looked_at["buckets published as lost"] += gap[1] - gap[0]
            if gap[1] <= self.published[node.name] and gap not in self.told_lost.get(node.name, ()):
                say(AnomalyKind.LOST_WRITE, name, f"no dead letter says that buckets {gap[0]} to {gap[1] - 1} are lost")
        self.lost[node.name] = spans

    def _beyond(self, node: str, stream: CommittedBuckets) -> None:
        """Rows lie below the progress that was committed with them."""
        ahead = [bucket for bucket in stream.found if bucket >= self.progress[node]]
        if ahead:
            what = f"rows of {len(ahead)} buckets lie beyond the progress, {self.progress[node]}: bucket {min(ahead)}"
            self.verdict.say(AnomalyKind.INCONSISTENT_OFFSETS, stream.name, what, Subject.CORRECTED)

    # What replicas said -----------------------------------------------------------------------------------------------

    def _node(self, node: CheckedNode) -> None:
        """All replicas of a node; again where they have not yet said what is published, and where a hole in one may lie
        in what another has written since it was read."""
        deadline = time.monotonic() + GRACE_S
        while True:
            verdict = Verdict()
            said = self._said(node, verdict)
            reached = said.until >= self.progress[node.name] and not said.holes
            if reached or time.monotonic() > deadline:
                break
            time.sleep(AGAIN_S)
        self.verdict.and_beside([verdict])
        self.closed[node.name] = said.until
        if self.progress[node.name] > said.until:
            what = f"{self.progress[node.name]}, but no replica says what is stable beyond {said.until}"
            where = f"{node.name}.progress"
            self.verdict.say(AnomalyKind.INCONSISTENT_OFFSETS, where, what, Subject.PROGRESS)
        lost = self.lost[node.name]
        for first, end in lost.all:
            if unsaid := [hole for hole in said.stable.lost.holes(first, end) if hole[0] >= said.stable.start]:
                what = f"buckets {unsaid[0][0]} to {unsaid[0][1] - 1} were published as lost, and no replica said so"
                self.verdict.say(AnomalyKind.ABORTED_READ, f"{node.name}.progress", what, Subject.PROGRESS)
        self.letters[node.name].against(said.stable, True, self.published[node.name], lost)
        if node.query:
            self.rows[node.name].against(said.stable, False, self.published[node.name], lost)

    def _said(self, node: CheckedNode, verdict: Verdict) -> _Said:
        """Each partition of its topics is a stream of its own; dead letters are in the first."""
        depends = partial(_looks_back, node.lookback)
        behind = any(i not in self.app.sources for i in node.inputs)
        may_lose = not any(node.name in other.inputs for other in self.app.nodes)
        sources = frozenset(self.app.called.get(s, s) for s in self.app.sources_of(node.name))
        rules = StreamRules(self.app.origin, sources, behind, depends, node.one_runs, may_lose)
        streams = [StreamJudge(rules, verdict, said=StableBuckets(whole=False)) for _ in range(node.readers)]
        for reader, stream in enumerate(streams):
            where = f"{node.name}.r{{}}" + f"[{reader}]" * (node.readers > 1)
            for k in range(node.replicas):
                name = f"{node.name}.r{k}"
                unreadable: list[str] = []
                records = statements(self._own(name, reader, verdict), node.schema, unreadable)
                stream.judge(where.format(k), ReplicaHistory(records, unreadable, self._trimmed(name, reader)))
            stream.judge_together(where.format("*"))
        verdict.looked_at["tentative buckets"] += len(streams[0].tentative)
        holes = any(stream.holes for stream in streams)
        return _Said(min(stream.until for stream in streams), holes, streams[0].said)

    # What sources hold ------------------------------------------------------------------------------------------------

    def _source(self, source: str) -> SourceHistory:
        name, partition = place(source)
        app, origin_us = self.app, self.app.origin * self.app.bucket_us
        rules = SourceRules(app.sources[source], origin_us, app.bucket_us, app.ahead_max_us, app.row_max_bytes)
        log = fold(self._own(name, partition, self.verdict), rules, keep_rows=False)
        log.trimmed = self._trimmed(name, partition)
        looked = self.verdict.looked_at
        looked["source tuples"] += len(log.seqs)
        looked["repeated or fenced tuples"] += log.repeated + log.fenced
        self.closed[source] = app.origin if log.boundary is None else log.boundary // app.bucket_us
        if log.trimmed:
            self.verdict.not_checked.append(f"source {source}: its beginning was deleted, so its fold cannot be known")
            del self.closed[source]
        elif gaps := log.gaps:
            what = f"no tuples {log.missing[:5]}, {sum(gap.stop - gap.start for gap in gaps)} in all"
            self.verdict.say(AnomalyKind.LOST_WRITE, source, what, Subject.SOURCE)
        return log

    def _behind_inputs(self, node: CheckedNode) -> None:
        """No bucket is stable before every input has closed it."""
        for name in node.inputs:
            closed = self.closed.get(name)
            if closed is not None and self.closed[node.name] > closed:
                what = f"says what is stable below {self.closed[node.name]}, {name} is closed below {closed} only"
                self.verdict.say(AnomalyKind.UNLABELLED_PARTIAL, node.name, what, Subject.STABLE)

    def _letters_of_logs(self, logs: dict[str, SourceHistory]) -> None:
        """Each unusable item in a source's log has one dead letter, from the first node that reads the source."""
        say = self.verdict.about(Subject.DEAD_LETTERS)
        names = {node.name for node in self.nodes}
        for source, log in logs.items():
            teller = self.app.teller(source)
            if log.trimmed or teller not in names or self.letters[teller].trimmed:
                continue
            expected, due = _expected(source, log, self.published[teller], self.lost[teller])
            found = Counter({letter: n for letter, n in self.of_logs.items() if letter[0] == source})
            for (_, offset, seq), n in sorted((found - expected).items()):
                say(AnomalyKind.DUPLICATE, source, f"{_letter(offset, seq)}: {n} dead letters too many")
            for (_, offset, seq), n in sorted((due - found).items()):
                say(AnomalyKind.LOST_WRITE, source, f"{_letter(offset, seq)}: {n} dead letters are missing")

    # Reading ----------------------------------------------------------------------------------------------------------

    def _stream(self, name: str, partition: int = 0, committed: bool = True) -> Iterator[Raw]:
        return self.topics.stream(f"{self.app.name}.{name}", partition, committed, self.told)

    def _own(self, name: str, partition: int, verdict: Verdict) -> Iterator[Raw]:
        """Records of this life, and what is no record of ours."""
        for record in self._stream(name, partition):
            if life_of(record.value) in (None, self.app.app_uid):
                yield record
            else:
                verdict.looked_at["records of another life"] += 1

    def _trimmed(self, name: str, partition: int = 0) -> bool:
        return self.topics.beginning(f"{self.app.name}.{name}", partition) > 0


def _with_row(row: CommittedRow, columns: Sequence[str], digest: PublishedDigest) -> PublishedDigest:
    found = row.row or {}
    values = list(found.values()) if list(found) == list(columns) else [list(found.items())]
    return digest.with_row([in_json(value) for value in values], row.stime or 0)


def _with_letter(letter: Rejection, digest: PublishedDigest) -> PublishedDigest:
    return digest.with_letter(letter)


def _numbered(
    raw: Iterator[Raw], read: Callable[[list[Raw]], Iterator[DeadLetterRecord]]
) -> Iterator[tuple[Raw, DeadLetterRecord]]:
    for record in raw:
        yield from ((record, letter) for letter in read([record]))


def _looks_back(lookback: int, bucket: int) -> range:
    return range(bucket - lookback, bucket + 1)


Letters = Counter[tuple[str, int, int]]


def _expected(source: str, log: SourceHistory, published: int, lost: Spans) -> tuple[Letters, Letters]:
    """Dead letters that the log gives rise to, and those of them that must be published by now."""
    refused = Counter(log.refused.values())
    letters: Letters = Counter((source, offset, seq) for seq, offset in log.refused.items())
    letters += Counter({(source, offset, -1): n - refused[offset] for offset, n in log.dead.items()})
    of = log.dead_buckets
    due = Counter({x: n for x, n in letters.items() if of[x[1]] < published and of[x[1]] not in lost})
    return letters, due


def _letter(offset: int, seq: int) -> str:
    return f"offset {offset}" if seq < 0 else f"offset {offset}, refused tuple {seq}"
