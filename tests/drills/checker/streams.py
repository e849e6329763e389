"""What replicas said: stable once and for all, tentative honestly, without holes."""

from __future__ import annotations

from borealis_py.demo.checker.history import HistoryRecord, ReplicaHistory
from tests.drills.checker.evidence import Evidence
from tests.drills.checker.explain import Answer, Explainer
from tests.drills.checker.network import Row, Truth
from tests.drills.checker.parts import Piece
from tests.drills.checker.words import Verdict, Word

END_BUCKETS = 1_000_000
"""A stretch of empty buckets longer than this is END's."""


def judge_piece(
    evidence: Evidence, truth: Truth, explainer: Explainer, piece: Piece, verdict: Verdict
) -> dict[int, tuple[Row, ...]]:
    """All replicas of one piece of a stage. Returns what was said first of each stable bucket."""
    said: dict[int, tuple[Row, ...]] = {}
    until = evidence.origin
    for k, replay in enumerate(evidence.replicas[piece]):
        name = name_of(evidence, piece, k)
        for text in replay.unreadable:
            verdict.say(Word.INCONSISTENT_OFFSETS, name, f"unreadable record: {text}")
        until = max(until, _Stable(truth.stable(piece), said, name, verdict).judge(replay, evidence.origin))
        _Tentative(truth, explainer, piece, name, verdict).judge(replay)
    if evidence.healed and until < evidence.complete_until:
        what = f"no replica says more than until {until}, complete until {evidence.complete_until}"
        verdict.say(Word.LOST_WRITE, name_of(evidence, piece), what)
    return said


def name_of(evidence: Evidence, piece: Piece, replica: int | None = None) -> str:
    """A topic without its app (or all replicas' at once), and its Kafka partition where there are several."""
    topic = f"{evidence.network.stages[piece.stage].parts[piece.part]}.r{'*' if replica is None else replica}"
    readers = sum(p.part == piece.part for p in evidence.network.pieces(piece.stage))
    return f"{topic}[{piece.reader}]" if readers > 1 else topic


class _Stable:
    """`said`: what any replica of the stage said first of a bucket; every later word must be the same."""

    def __init__(
        self, expected: dict[int, tuple[Row, ...]], said: dict[int, tuple[Row, ...]], name: str, verdict: Verdict
    ) -> None:
        self._expected, self._said, self._name, self._verdict = expected, said, name, verdict
        self._with_rows = sorted(expected)

    def judge(self, replay: ReplicaHistory, origin: int) -> int:
        """Check each stable word in the topic's order, which begins at `origin`. Returns until where there are some."""
        next_ = origin
        for record in replay.records:
            if record.kind not in ("STABLE", "BOUNDARY"):
                continue
            self._verdict.looked_at["stable words"] += 1
            if record.bucket > next_:
                self._verdict.say(
                    Word.INCONSISTENT_OFFSETS, self._name, f"never says buckets {next_} to {record.bucket - 1}"
                )
            next_ = max(next_, record.end)
            for bucket in self._buckets(record):
                self._bucket(bucket, record.rows)
        return next_

    def _buckets(self, record: HistoryRecord) -> list[int]:
        if record.end - record.bucket < END_BUCKETS:
            return list(range(record.bucket, record.end))
        return [b for b in {*self._with_rows, *self._said} if record.bucket <= b < record.end]

    def _bucket(self, bucket: int, rows: tuple[Row, ...]) -> None:
        first = self._said.setdefault(bucket, rows)
        if first != rows:
            self._verdict.say(Word.STABLE_CHANGED, self._name, f"bucket {bucket} was {first}, now {rows}")
        elif rows != (wanted := self._expected.get(bucket, ())):
            self._verdict.say(
                Word.UNLABELLED_PARTIAL, self._name, f"stable bucket {bucket} is {rows}, expected {wanted}"
            )


class _Tentative:
    """A live state diverges at the first tentative bucket (an episode begins) and is complete until then.

    The episode ends when the stable frontier of the same incarnation has caught up, or with the incarnation. Within it
    a source's rows of bucket b are all in unless the record of b lists the source as missing; what a record lacked is
    all that was missing in buckets that it depends on.
    """

    def __init__(self, truth: Truth, explainer: Explainer, piece: Piece, name: str, verdict: Verdict) -> None:
        self._truth, self._explainer = truth, explainer
        self._piece, self._name, self._verdict = piece, name, verdict

    def judge(self, replay: ReplicaHistory) -> None:
        """Check each tentative word with what was missing in the buckets of its whole episode."""
        stable: dict[int, int] = {}
        live: dict[int, int] = {}
        missing: dict[int, dict[int, frozenset[str]]] = {}
        for record in replay.records:
            inc = record.inc
            if record.kind in ("STABLE", "BOUNDARY"):
                stable[inc] = max(stable.get(inc, -1), record.end)
            elif record.kind == "TENTATIVE":
                self._verdict.looked_at["tentative words"] += 1
                if stable.get(inc, -1) >= live.get(inc, -1):
                    missing[inc] = {}
                said = max(stable.get(inc, -1), live.get(inc, -1))
                if -1 < said < record.bucket:
                    what = f"says nothing of buckets {said} to {record.bucket - 1} before tentative {record.bucket}"
                    self._verdict.say(Word.INCONSISTENT_OFFSETS, self._name, what)
                missing[inc][record.bucket] = frozenset(record.missing)
                live[inc] = record.end
                self._record(record, missing[inc])

    def _record(self, record: HistoryRecord, missing: dict[int, frozenset[str]]) -> None:
        if wrong := self._label(record, missing):
            self._say(record, wrong)
            return
        answer = self._explainer.explains(self._piece, record.bucket, record.rows, missing)
        if answer is not Answer.YES:
            lacking = ", ".join(sorted(record.missing_sources)) or "nothing"
            what = f"is {record.rows}, of {self._whole(record)}, lacking {lacking}"
            if answer is Answer.NO:
                self._say(record, what)
            else:
                self._verdict.undecided.append(f"{self._name}: tentative bucket {record.bucket}: {what}")

    def _label(self, record: HistoryRecord, missing: dict[int, frozenset[str]]) -> str:
        """What the label says that cannot be; empty: nothing. `missing`: in each bucket of its episode so far."""
        episode, missing_sources = min(missing), frozenset(record.missing_sources)
        if unknown := set(record.missing_sources) - set(self._truth.network.sources):
            return f"lacks {', '.join(sorted(unknown))}, which is no source"
        if not 0.0 <= record.completeness <= 1.0 or bool(missing_sources) != (record.completeness < 1.0):
            return f"completeness {record.completeness}"
        if record.completeness == 1.0 and record.rows != (whole := self._whole(record)):
            return f"claims to be complete, is {record.rows}, of {whole}"
        behind = self._piece.stage > 0  # then the words that it was made of may have diverged before its own state
        if record.diverged_from != episode and not (behind and record.diverged_from < episode):
            return f"diverged from {record.diverged_from}, but its state was complete until {episode}"
        depends = self._explainer.buckets(self._piece, record.bucket)
        own = frozenset(name for b in depends for name in missing.get(b, ()))
        if missing_sources != own and not (behind and missing_sources > own):  # those words tell of earlier buckets too
            return (
                f"says that it lacked {', '.join(sorted(missing_sources)) or 'nothing'}, not {', '.join(sorted(own))}"
            )
        return ""

    def _whole(self, record: HistoryRecord) -> tuple[Row, ...]:
        return self._truth.stable(self._piece).get(record.bucket, ())

    def _say(self, record: HistoryRecord, what: str) -> None:
        self._verdict.say(Word.UNLABELLED_PARTIAL, self._name, f"tentative bucket {record.bucket}: {what}")
