"""The judge of replica streams: stable once and for all, tentative honestly, without holes; with a model or without.

Where one replica runs and others stand by, a hole in one's topic must lie in another's.

Without one, replicas are held against each other and every label against the others of its divergence. With one, every
row is held against what the model computes.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from borealis_py.verify.anomalies import AnomalyKind, Subject, Verdict
from borealis_py.verify.explain import Answer, Explainer
from borealis_py.verify.history import KEPT_END, HistoryRecord, ReplicaHistory
from borealis_py.verify.network import Truth, agrees
from borealis_py.verify.partitions import Piece
from borealis_py.verify.spans import Spans
from borealis_py.verify.stable import Rows, StableBuckets


@dataclass(frozen=True)
class StreamRules:
    """What holds for one node's stream, or a piece of it.

    Attributes:
        origin: the app's first bucket.
        sources: all that its rows come from.
        behind: it reads other nodes' streams, so that what it says may have diverged before its own state.
        depends: the buckets whose input a result in a bucket depends on; None: not known.
        one_runs: one of its replicas runs and the others stand by: who takes over begins where a checkpoint of any of
            them was.
        may_lose: a replica that starts may say a gap.
    """

    origin: int
    sources: frozenset[str]
    behind: bool
    depends: Callable[[int], range] | None = None
    one_runs: bool = False
    may_lose: bool = False


@dataclass(frozen=True)
class PieceModel:
    """What a model says of one `piece` of a stream: its rows on complete input (`truth`), and whether tentative rows
    follow from a part of the input (`explainer`)."""

    truth: Truth
    explainer: Explainer
    piece: Piece

    def rows(self, bucket: int) -> Rows:
        """On complete input."""
        return self.truth.stable(self.piece).get(bucket, ())


@dataclass
class StreamJudge:
    """All replicas of one piece of a stream, one after the other, and then what they say between them.

    Attributes:
        rules: of the stream. verdict: anomalies are noted there.
        model: what it must say; None: unknown, only consistency is judged.
        said: what any replica said first of each stable bucket; every later statement must be the same.
        tentative: of each bucket that was said tentatively, how many rows at most.
    """

    rules: StreamRules
    verdict: Verdict
    model: PieceModel | None = None
    said: StableBuckets = field(default_factory=StableBuckets)
    tentative: dict[int, int] = field(default_factory=dict)
    until: int = 0
    """The first bucket of which no replica has said that it is stable."""
    holes: bool = False
    """No topic has some bucket below that, though one may have a hole where another has it."""
    skipped: list[tuple[str, int, int]] = field(default_factory=list)
    """Topic, bucket, bucket: it began anew with the second, tentative. Others must call stable what lies between."""
    standing: list[tuple[str, int]] = field(default_factory=list)
    """Topic, bucket: it says that its tentative result stands on lost buckets. It must be lost, too, unless a replica
    that had been taken for dead says it."""
    called: dict[str, Spans] = field(default_factory=lambda: defaultdict(Spans))
    """By topic: what it calls stable."""

    def __post_init__(self) -> None:
        self.said.start = self.until = self.rules.origin

    def judge(self, name: str, history: ReplicaHistory) -> int:
        """One replica's topic, in its order. `name`: of the topic. Returns until where it says what is stable."""
        stable = _Stable(self, name, history.trimmed)
        tentative = _Tentative(self, name, history.trimmed)
        for n, record in enumerate(history.records):
            if history.trimmed and n < KEPT_END:
                self.said.start = max(self.said.start, record.bucket)
            if record.kind in ("STABLE", "BOUNDARY"):
                stable.add_record(record)
            elif record.kind == "GAP":
                stable.add_gap(record)
            tentative.add_record(record)
        say = self.verdict.about(Subject.RECORD)
        for text in history.unreadable:
            say(AnomalyKind.INCONSISTENT_OFFSETS, name, f"unreadable record: {text}")
        self.until = max(self.until, stable.next)
        return stable.next

    def judge_together(self, name: str) -> None:
        """All topics were judged: whether a hole in one lies in another. `name`: of all of them."""
        spans, start = self.said.spans.and_those(self.said.lost), self.said.start
        for topic, bucket in self.standing:
            elsewhere = any(bucket in calls for name, calls in self.called.items() if name != topic)
            if start <= bucket < self.until and bucket not in self.said.lost and not elsewhere:
                what = f"tentative bucket {bucket} stands on lost ones, and nobody says that it is lost"
                self.verdict.say(AnomalyKind.UNLABELLED_PARTIAL, topic, what, Subject.TENTATIVE)
        if not self.rules.one_runs:
            return
        for first, end in spans.holes(start, self.until):
            what = f"no replica says buckets {first} to {end - 1}"
            self.verdict.say(AnomalyKind.INCONSISTENT_OFFSETS, name, what, Subject.STABLE)
            self.holes = True
        for topic, first, end in self.skipped:
            for hole in spans.holes(max(first, start), end)[:1]:
                what = f"begins anew with tentative {end}, and nobody says buckets {hole[0]} to {hole[1] - 1}"
                self.verdict.say(AnomalyKind.INCONSISTENT_OFFSETS, topic, what, Subject.TENTATIVE)


class _Stable:
    """The stable statements of one replica."""

    def __init__(self, judge: StreamJudge, name: str, trimmed: bool) -> None:
        self._judge = judge
        self._name = name
        self._trimmed = trimmed
        self._say = judge.verdict.about(Subject.STABLE)
        model = judge.model
        self._expected = [] if model is None else sorted(model.truth.stable(model.piece))
        self.next = judge.rules.origin

    def add_record(self, record: HistoryRecord) -> None:
        """Each in the topic's order, which begins at the origin, or with what was not deleted."""
        self._judge.verdict.looked_at["stable statements"] += 1
        if self._trimmed:
            self._trimmed, self.next = False, record.bucket
        if record.end < record.bucket:
            what = f"a range that ends before it begins: {record.bucket} to {record.end}"
            self._say(AnomalyKind.INCONSISTENT_OFFSETS, self._name, what)
            return
        if record.bucket > self.next and not self._judge.rules.one_runs:
            what = f"never says buckets {self.next} to {record.bucket - 1}"
            self._say(AnomalyKind.INCONSISTENT_OFFSETS, self._name, what)
        changed, before, self.next = set(), self.next, max(self.next, record.end)
        for bucket, was, now in self._judge.said.take(record.bucket, record.end, record.rows, record.rejections):
            changed.add(bucket)
            about = Subject.STABLE if bucket < before else Subject.AGREEMENT
            what = f"bucket {bucket} was {was}, now {now}"
            self._judge.verdict.say(AnomalyKind.STABLE_CHANGED, self._name, what, about)
        self._judge.called[self._name].add(record.bucket, record.end)
        if self._judge.model is not None:
            self._against(self._judge.model, record, changed)

    def add_gap(self, record: HistoryRecord) -> None:
        """Buckets that it will never call stable. Another topic may have one of them all the same."""
        if self._trimmed:
            self._trimmed, self.next = False, record.bucket
        self._judge.verdict.looked_at["lost buckets"] += max(0, record.end - record.bucket)
        if record.end <= record.bucket or not self._judge.rules.may_lose:
            self._say(AnomalyKind.LOST_WRITE, self._name, f"says buckets {record.bucket} to {record.end - 1} are lost")
            return
        self._judge.said.lost.add(record.bucket, record.end)
        if record.bucket > self.next and not self._judge.rules.one_runs:
            what = f"never says buckets {self.next} to {record.bucket - 1}"
            self._say(AnomalyKind.INCONSISTENT_OFFSETS, self._name, what)
        self.next = max(self.next, record.end)

    def _against(self, model: PieceModel, record: HistoryRecord, changed: set[int]) -> None:
        at = bisect_left(self._expected, record.bucket)
        buckets = {record.bucket} if record.rows else set()
        while at < len(self._expected) and self._expected[at] < record.end:
            buckets.add(self._expected[at])
            at += 1
        for bucket in sorted(buckets - changed):
            if not agrees(record.rows, wanted := model.rows(bucket)):
                what = f"stable bucket {bucket} is {record.rows}, expected {wanted}"
                self._say(AnomalyKind.UNLABELLED_PARTIAL, self._name, what)


class _Tentative:
    """A live state diverges at the first tentative bucket (an episode begins) and is complete until then.

    The episode ends when the stable frontier of the same incarnation has caught up, or with the incarnation, or when a
    replica that has stood by meanwhile begins anew. Within it
    a source's rows of bucket b are all in unless the record of b lists the source as missing; what a record lacked is
    all that was missing in buckets that it depends on.

    A topic that lost its beginning may begin amid an episode, of which less is known then: it may have begun earlier,
    and lacked more. So may an incarnation that could not read all of what had been said before its start (R17.15).
    """

    def __init__(self, judge: StreamJudge, name: str, trimmed: bool) -> None:
        self._judge = judge
        self._rules = judge.rules
        self._name = name
        self._trimmed = trimmed
        self._amid: int | None = None
        """The incarnation whose episode may have begun before the first record of it."""
        self._stable: dict[int, int] = {}
        self._live: dict[int, int] = {}
        self._missing: dict[int, dict[int, frozenset[str]]] = {}
        self._bare: dict[int, bool | None] = {}
        """By incarnation: it has said a gap and nothing stable yet; None: nothing but tentative results."""

    def add_record(self, record: HistoryRecord) -> None:
        """Each statement; tentative ones with what was missing in the buckets of the whole episode so far."""
        inc = record.inc
        if self._trimmed:
            self._trimmed, self._amid = False, inc
        if record.kind in ("STABLE", "BOUNDARY", "GAP"):
            self._stable[inc] = max(self._stable.get(inc, -1), record.end)
            self._bare[inc] = record.kind == "GAP" and inc not in self._bare
        elif record.kind == "TENTATIVE" and self._rules.may_lose and self._begins_bare(inc, record):
            self._judge.verdict.looked_at["tentative statements"] += 1
            if self._bare[inc]:
                self._judge.standing.append((self._name, record.bucket))
            self._live[inc], self._amid = record.end, inc  # of an episode that begins meanwhile less is known
            self._missing.setdefault(inc, {})
        elif record.kind == "TENTATIVE":
            verdict = self._judge.verdict
            verdict.looked_at["tentative statements"] += 1
            rows = self._judge.tentative
            rows[record.bucket] = max(rows.get(record.bucket, 0), len(record.rows))
            stable, live = self._stable.get(inc, -1), self._live.get(inc, -1)
            if max(stable, live) < 0 and record.diverged_from < record.bucket:
                self._amid = inc
            anew = self._begins_anew(record, stable, live)
            if anew:
                complete = stable if stable > -1 else min(self._missing[inc], default=record.bucket)
                self._judge.skipped.append((self._name, complete, record.bucket))
            if anew or inc not in self._missing or stable >= live:
                self._missing[inc] = {}
                if inc == self._amid and (live > -1 or stable == record.bucket):
                    self._amid = None  # it begins here
            said = max(stable, live)
            if -1 < said < record.bucket and not anew and not (inc == self._amid and live < 0):
                what = f"says nothing of buckets {said} to {record.bucket - 1} before tentative {record.bucket}"
                verdict.say(AnomalyKind.INCONSISTENT_OFFSETS, self._name, what, Subject.TENTATIVE)
            self._missing[inc][record.bucket] = frozenset(record.missing)
            self._live[inc] = record.end
            self._record(record, self._missing[inc])

    def _begins_bare(self, inc: int, record: HistoryRecord) -> bool:
        if inc not in self._bare and self._rules.one_runs and self._live.get(inc, -1) < 0:
            self._bare[inc] = None  # what it began with shows later, if it says that this is lost
        return inc in self._bare and self._bare[inc] is not False and self._stands_on_lost(record)

    def _stands_on_lost(self, record: HistoryRecord) -> bool:
        """Whether it says that nobody knows what it lacks, since an incarnation has begun with nothing (R18.4)."""
        says = frozenset(record.missing_sources) == self._rules.sources and record.completeness == 0.0
        own = frozenset(record.missing) == self._rules.sources
        return says and (self._bare[record.inc] or not own)

    def _begins_anew(self, record: HistoryRecord, stable: int, live: int) -> bool:
        """Whether its replica has stood by since it spoke last, and begins with a state that is complete up to this
        bucket: it skips some, goes back, or says that it diverges here. All below must be stable in some topic."""
        if not self._rules.one_runs or max(stable, live) < 0:
            return False
        return record.bucket != max(stable, live) or record.diverged_from == record.bucket

    def _record(self, record: HistoryRecord, missing: dict[int, frozenset[str]]) -> None:
        if wrong := self._label(record, missing):
            self._say(record, wrong)
            return
        model = self._judge.model
        if model is None or record.inc == self._amid:
            return
        answer = model.explainer.explains(model.piece, record.bucket, record.rows, missing)
        if answer not in (Answer.YES, Answer.DELETED):
            lacking = ", ".join(sorted(record.missing_sources)) or "nothing"
            what = f"is {record.rows}, of {model.rows(record.bucket)}, lacking {lacking}"
            if answer is Answer.NO:
                self._say(record, what)
            else:
                self._judge.verdict.undecided.append(f"{self._name}: tentative bucket {record.bucket}: {what}")

    def _label(self, record: HistoryRecord, missing: dict[int, frozenset[str]]) -> str:
        """What the label says that cannot be; empty: nothing. `missing`: in each bucket of its episode so far."""
        episode, missing_sources = min(missing), frozenset(record.missing_sources)
        if unknown := (missing_sources | set(record.missing)) - self._rules.sources:
            return f"lacks {', '.join(sorted(unknown))}, which is no source of it"
        if not 0.0 <= record.completeness <= 1.0 or bool(missing_sources) != (record.completeness < 1.0):
            return f"completeness {record.completeness}"
        model, behind = self._judge.model, self._rules.behind or record.inc == self._amid
        if model is not None and record.completeness == 1.0:
            whole = model.rows(record.bucket)
            if not agrees(record.rows, whole):
                return f"claims to be complete, is {record.rows}, of {whole}"
        if record.diverged_from != episode and not (behind and record.diverged_from < episode):
            return f"diverged from {record.diverged_from}, but its state was complete until {episode}"
        return self._sources(record, missing_sources, missing)

    def _sources(
        self, record: HistoryRecord, missing_sources: frozenset[str], missing: dict[int, frozenset[str]]
    ) -> str:
        """What is wrong with the sources that it says it lacked: those missing in the buckets that it depends on."""
        depends, behind = self._rules.depends, self._rules.behind or record.inc == self._amid
        buckets = missing if depends is None else depends(record.bucket)  # a lookup's are more than anyone can count
        own = frozenset(name for b, names in missing.items() if b in buckets for name in names)
        least = own if depends is not None else frozenset(record.missing)
        lacked = ", ".join(sorted(missing_sources)) or "nothing"
        if not least <= missing_sources:
            return f"says that it lacked {lacked}, not {', '.join(sorted(least))}"
        if missing_sources - own and not behind:  # what it was made of may tell of earlier buckets too
            return f"says that it lacked {lacked}, which was there"
        return ""

    def _say(self, record: HistoryRecord, what: str) -> None:
        text = f"tentative bucket {record.bucket}: {what}"
        self._judge.verdict.say(AnomalyKind.UNLABELLED_PARTIAL, self._name, text, Subject.TENTATIVE)
