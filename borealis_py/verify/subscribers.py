"""Checks what subscribers were shown, and when, against the committed rows and the replicas' streams."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from statistics import median
from typing import Any

from borealis_py.verify.anomalies import AnomalyKind, Delay, Subject, Verdict
from borealis_py.verify.envelope import Row
from borealis_py.verify.evidence import Evidence, Saw, SubscriberHistory
from borealis_py.verify.history import KEPT_END, ReplicaHistory
from borealis_py.verify.partitions import Piece
from borealis_py.verify.published import show
from borealis_py.verify.stable import StableBuckets

Dict = Mapping[str, Any]
END_BUCKETS = 1_000_000
"""A stretch of empty buckets longer than this is END's."""
TURN_US = 50_000
"""A10: within X of its failure-free time, plus one turn."""


Said = Mapping[Piece, StableBuckets]
"""By piece: the stable buckets as replicas said them first."""


def judge_subscriber(evidence: Evidence, history: SubscriberHistory, said: Said, verdict: Verdict) -> None:
    """One subscriber, from its start to its end or death; of each partition it has a view of its own."""
    verdict.looked_at[f"{history.view} changes"] += len(history.seen)
    for piece in evidence.result:
        if history.view == "corrected":
            _Corrected(evidence, history, piece, verdict).judge()
        else:
            _Live(evidence, history, piece, said.get(piece, StableBuckets()), verdict).judge()


def _name(evidence: Evidence, history: SubscriberHistory, piece: Piece) -> str:
    return history.name if len(evidence.result) == 1 else f"{history.name}, partition {piece.part}"


class _Corrected:
    """The corrected view: rows as they are committed, in order, each once."""

    def __init__(self, evidence: Evidence, history: SubscriberHistory, piece: Piece, verdict: Verdict) -> None:
        self._seen = history.of(piece.part)
        self._complete = history.complete
        self._name = _name(evidence, history, piece)
        self._say = verdict.about(Subject.SUBSCRIBER)
        rows = (r for r in evidence.corrected if r.partition == piece.part)
        self._committed = {r.id: r.row for r in rows if r.id is not None}
        self._aborted = {r.id for r in evidence.aborted if r.partition == piece.part}

    def judge(self) -> None:
        """Check row by row, then look for rows that never came."""
        seen: set[tuple[int, int]] = set()
        last = (-1, -1)
        name = self._name
        for saw in self._seen:
            row_id = (saw.bucket, saw.index)
            if row_id in seen:
                self._say(AnomalyKind.DUPLICATE, name, f"id {show(row_id)} delivered again")
                continue
            if row_id < last:
                self._say(AnomalyKind.NONMONOTONIC_POLL, name, f"{show(row_id)} after {show(last)}")
            seen.add(row_id)
            last = max(last, row_id)
            if row_id not in self._committed:
                how = "was aborted" if row_id in self._aborted else "was never written"
                self._say(AnomalyKind.ABORTED_READ, name, f"id {show(row_id)} {how}: {saw.rows[0]}")
            elif saw.rows[0] != self._committed[row_id]:
                self._say(
                    AnomalyKind.STABLE_CHANGED, name, f"{show(row_id)} is {saw.rows[0]}, was {self._committed[row_id]}"
                )
        unseen = [i for i in self._committed if i not in seen]
        if self._complete and unseen:
            self._say(AnomalyKind.UNSEEN, name, f"{len(unseen)} rows, the first is {show(min(unseen))}")


class _Live:
    """The live view: `next` its first bucket not stable, `live` the end of what it was shown, `open` tentative ones."""

    def __init__(
        self,
        evidence: Evidence,
        history: SubscriberHistory,
        piece: Piece,
        stable: StableBuckets,
        verdict: Verdict,
    ) -> None:
        self._seen = history.of(piece.part)
        self._complete = history.complete
        self._verdict = verdict
        self._name = _name(evidence, history, piece)
        self._columns = evidence.network.stages[-1].columns
        self._stable_rows = stable
        rows = (r for r in evidence.corrected if r.partition == piece.part)
        self._committed = {r.id[0] for r in rows if r.id is not None}
        self._trimmed = max((_whole_from(of) for of in evidence.replicas[piece] if of.trimmed), default=0)
        """What replicas said of buckets below may be deleted."""
        self._said: dict[int, list[tuple[frozenset[str], list[Dict]]]] = {}
        for record in (r for replay in evidence.replicas[piece] for r in replay.records if r.kind == "TENTATIVE"):
            said = frozenset(record.missing_sources), self._dicts(record.rows)
            self._said.setdefault(record.bucket, []).append(said)
        self._stable: set[int] = set()
        self._skipped: set[int] = set()
        self._next: int | None = None
        self._live = -1
        self._open: set[int] = set()

    def judge(self) -> None:
        """Check change by change, then look for rows that never came."""
        for saw in self._seen:
            if saw.kind in ("STABLE", "BOUNDARY"):
                self._stable_run(saw)
            elif saw.kind == "GAP":
                self._gap(saw)
            elif saw.kind == "TENTATIVE":
                self._tentative(saw)
            elif saw.kind == "REC_DONE" and (left := sorted(b for b in self._open if b < saw.bucket)):
                self._say(AnomalyKind.UNLABELLED_PARTIAL, f"REC_DONE({saw.bucket}), but {left[0]} is still tentative")
        if skipped := sorted(self._skipped - self._stable):
            self._say(AnomalyKind.UNSEEN, f"{len(skipped)} buckets were passed over, the first is {skipped[0]}")
        if not self._complete:
            return
        begins = min(self._seen[0].bucket if self._seen else 0, self._trimmed)  # with what was kept when it came
        unseen = sorted(bucket for bucket in self._committed - self._stable if bucket >= begins)
        if unseen:
            self._say(AnomalyKind.UNSEEN, f"{len(unseen)} buckets with rows were never stable, first {unseen[0]}")
        elif self._open:
            self._say(AnomalyKind.UNSEEN, f"bucket {min(self._open)} stays tentative")

    def _stable_run(self, saw: Saw) -> None:
        ended = saw.end - saw.bucket >= END_BUCKETS
        if self._next is not None:
            self._skipped.update(range(self._next, min(saw.bucket, self._next + END_BUCKETS)))
        buckets = {b for b in self._committed if saw.bucket <= b < saw.end} if ended else range(saw.bucket, saw.end)
        for bucket in sorted(buckets):
            if bucket in self._stable:
                self._say(AnomalyKind.DUPLICATE, f"bucket {bucket} is stable again")
            elif self._next is not None and bucket < self._next:
                self._say(AnomalyKind.NONMONOTONIC_POLL, f"bucket {bucket} after {self._next - 1}")
            self._stable.add(bucket)
            self._content(bucket, list(saw.rows))
        self._next = max(self._next or saw.end, saw.end)
        self._live = max(self._live, saw.end)
        self._open = {b for b in self._open if not saw.bucket <= b < saw.end}

    def _gap(self, saw: Saw) -> None:
        """It was told that these are lost; of what a replica says of them all the same it is not told."""
        if unsaid := self._stable_rows.lost.holes(saw.bucket, saw.end):
            self._say(AnomalyKind.ABORTED_READ, f"bucket {unsaid[0][0]} is lost, and no replica said so")
        self._stable.update(range(saw.bucket, min(saw.end, saw.bucket + END_BUCKETS)))
        self._next = max(self._next or saw.end, saw.end)
        self._live = max(self._live, saw.end)
        self._open = {b for b in self._open if not saw.bucket <= b < saw.end}

    def _content(self, bucket: int, rows: list[Dict]) -> None:
        stable = self._stable_rows.rows(bucket)
        said = None if stable is None else self._dicts(stable)
        if said is None and bucket >= self._trimmed:
            self._say(AnomalyKind.ABORTED_READ, f"stable bucket {bucket}: no replica said {rows}")
        elif said is not None and rows != said:
            self._say(AnomalyKind.STABLE_CHANGED, f"stable bucket {bucket} is {rows}, was {said}")

    def _tentative(self, saw: Saw) -> None:
        if saw.bucket < (self._next or 0) or saw.bucket < self._live:
            self._say(
                AnomalyKind.NONMONOTONIC_POLL, f"tentative bucket {saw.bucket} after {max(self._next or 0, self._live)}"
            )
        self._live = max(self._live, saw.end)
        self._open.add(saw.bucket)
        said = self._said.get(saw.bucket, ())
        if (frozenset(saw.missing_sources), list(saw.rows)) not in said and saw.bucket >= self._trimmed:
            self._say(AnomalyKind.ABORTED_READ, f"tentative bucket {saw.bucket}: no replica said {saw.rows}")

    def _dicts(self, rows: Sequence[Row]) -> list[Dict]:
        return [dict(zip(self._columns, row[:-1], strict=True)) for row in rows]

    def _say(self, kind: AnomalyKind, what: str) -> None:
        self._verdict.about(Subject.SUBSCRIBER)(kind, self._name, what)


def _whole_from(history: ReplicaHistory) -> int:
    """The bucket from which on a topic that was trimmed has all that its replica said."""
    return max((record.bucket for record in islice(history.records, KEPT_END)), default=0)


def judge_bound(evidence: Evidence, verdict: Verdict) -> None:
    """Every bucket's first statement at a live subscriber, of each partition, against its end by publishers' clocks."""
    if evidence.threshold_us is None:
        return
    say = verdict.about(Subject.SUBSCRIBER)
    width = evidence.network.bucket_us
    first: dict[tuple[int, int], int] = {}
    for history in evidence.subscribers:
        for saw in history.seen if history.view == "live" else ():
            if saw.kind in ("TENTATIVE", "STABLE", "BOUNDARY", "GAP") and saw.end - saw.bucket < END_BUCKETS:
                for bucket in range(saw.bucket, saw.end):
                    key = bucket, saw.partition
                    first[key] = min(first.get(key, saw.at_us), saw.at_us)
    low, high = evidence.quiet_us
    quiet = [at - (b + 1) * width for (b, _), at in first.items() if low <= (b + 1) * width < high]
    if not quiet:
        say(AnomalyKind.BOUND_BROKEN, "live", "no bucket arrived while nothing failed: nothing to compare")
        return
    usual_us = median(quiet)
    verdict.looked_at["buckets timed"] = len(first)
    for (bucket, partition), at in sorted(first.items()):
        end = (bucket + 1) * width
        if end < low:
            continue  # start-up
        due = allowed(end, usual_us, evidence, partition)
        promised = due == end + usual_us + evidence.threshold_us + TURN_US
        verdict.delays.append(Delay(bucket, partition, end, at, (at - end - usual_us) / 1000, promised, at > due))
        if at > due:
            say(
                AnomalyKind.BOUND_BROKEN,
                "live" if len(evidence.result) == 1 else f"live, partition {partition}",
                f"bucket {bucket}: {(at - end - usual_us) / 1e6:.3f} s beyond failure-free, {(at - due) / 1e6:.3f} s "
                f"more than allowed, X is {evidence.threshold_us / 1e6:g} s",
            )


def allowed(end_us: int, usual_us: float, evidence: Evidence, partition: int = 0) -> float:
    """By when a bucket must have arrived: X after its failure-free time, counted anew after each blackout it met."""
    assert evidence.threshold_us is not None
    start = end_us + usual_us
    span = evidence.threshold_us + TURN_US
    for blackout in sorted((b for b in evidence.blackouts if b.meets(partition)), key=lambda b: b.from_us):
        if blackout.from_us < start + span and blackout.until_us > start:
            start = blackout.until_us
    return start + span
