"""The verdict: records of the topics against the truth. Pure; where the records come from is somebody else's business.

Numbers of the report count result rows unless they say otherwise. Doubles from different programs agree within
`RELATIVE`; replicas of one program agree to the bit.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from borealis_py.demo.checker.history import CorrectedRecord, HistoryRecord, ReplicaHistory
from borealis_py.demo.checker.truth import SOURCES, FlightRow, FlightsTruth, FlightValue, PartialRows

RELATIVE = 1e-9
ABSOLUTE = 1e-12
"""Below this, two sums of the same numbers in different order may differ where the true value is zero."""
TEXTS_MAX = 10


@dataclass
class ContentReport:
    """What the records say about content. All good: every count is 0 and every flag True (see `ok`)."""

    stable_results: int = 0
    stable_results_changed: int = 0
    unlabelled_partial_results: int = 0
    tentative_results: int = 0
    tentative_buckets: int = 0
    tentative_wrong: int = 0
    tentative_content_right: bool = True
    tentative_with_part_of_lacked: int = 0
    """Tentative buckets that hold the first rows of a source they lacked: it was cut amid a bucket. Not wrong."""
    tentative_lacking_others: int = 0
    """Tentative buckets that lacked another source than the failed one. For people: not wrong in itself."""
    tentative_outside_failure: int = 0
    """Tentative buckets that lacked the failed source and lie outside the failure. For people: not wrong in itself."""
    replicas_identical: bool = True
    corrected_results: int = 0
    corrected_missing: int = 0
    corrected_duplicated: int = 0
    corrected_different: int = 0
    unreadable_records: int = 0
    tuples_expected: int = 0
    tuples_published: int = 0
    published_different: int = 0
    differences: list[str] = field(default_factory=list)
    """The first few of each kind, for people."""

    @property
    def ok(self) -> bool:
        """Nothing is wrong. Says nothing about whether tentative results were seen."""
        wrong = (
            self.stable_results_changed,
            self.unlabelled_partial_results,
            self.tentative_wrong,
            self.corrected_missing,
            self.corrected_duplicated,
            self.corrected_different,
            self.unreadable_records,
            self.published_different,
        )
        return not any(wrong) and self.replicas_identical and self.tentative_content_right


@dataclass(frozen=True)
class JudgedCase:
    """Everything read about one query. `replicas[k]` is the topic of replica k."""

    truth: FlightsTruth
    replicas: Sequence[ReplicaHistory]
    corrected: Sequence[CorrectedRecord]


@dataclass(frozen=True)
class Failure:
    """The cut that the run made: `source` from wall time `start_us` to `end_us`, microseconds."""

    source: str
    start_us: int
    end_us: int


def judge(cases: Iterable[JudgedCase], failure: Failure | None = None) -> ContentReport:
    """Judge all queries into one report."""
    report = ContentReport()
    for case in cases:
        expected = case.truth.stable()
        _CorrectedRows(report, case, expected).judge()
        histories = [_Stable(report, case, k, expected).judge() for k in range(len(case.replicas))]
        _replicas(report, case, histories)
        report.stable_results += max((h.results for h in histories), default=0)
        seen: dict[int, int] = {}
        for k in range(len(case.replicas)):
            _Tentative(report, case, k, failure, seen).judge()
        report.tentative_buckets += len(seen)
        report.tentative_results += sum(seen.values())
    return report


def judge_published(
    report: ContentReport, expected: Mapping[str, Sequence[int]], found: Mapping[str, Sequence[int]]
) -> None:
    """Compare the stimes of each source's log with those of its flights, in order."""
    for source, stimes in expected.items():
        got = found.get(source, ())
        report.tuples_expected += len(stimes)
        report.tuples_published += len(got)
        wrong = abs(len(stimes) - len(got)) + sum(a != b for a, b in zip(stimes, got, strict=False))
        if wrong:
            report.published_different += wrong
            _say(report, f"source {source}: {wrong} of {len(stimes)} tuples are missing, extra or have another stime")


def same(a: FlightValue, b: FlightValue) -> bool:
    """Equal: doubles within the tolerance, everything else exactly, types included."""
    if isinstance(b, float) and isinstance(a, int | float) and not isinstance(a, bool):
        return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return type(a) is type(b) and a == b


def bits(rows: Sequence[FlightRow]) -> tuple[tuple[FlightValue | bytes, ...], ...]:
    """Rows in a form whose `==` compares doubles by their bits."""
    return tuple(tuple(struct.pack("<d", v) if isinstance(v, float) else v for v in row) for row in rows)


def _unequal(a: Sequence[FlightRow], b: Sequence[FlightRow]) -> int:
    """How many places differ, rows too many or too few included."""
    pairs = sum(len(x) != len(y) or not all(map(same, x, y)) for x, y in zip(a, b, strict=False))
    return pairs + abs(len(a) - len(b))


def _say(report: ContentReport, text: str) -> None:
    kind = text.split(":", 1)[0]
    if sum(t.startswith(kind) for t in report.differences) < TEXTS_MAX:
        report.differences.append(text)


class _CorrectedRows:
    """The corrected topic: every row once, in order, right, under its id."""

    def __init__(self, report: ContentReport, case: JudgedCase, expected: Mapping[int, list[FlightRow]]) -> None:
        self._report, self._case = report, case
        self._name = f"corrected {case.truth.query.name}"
        self._expected = {f"{b}:{i}": row for b, rows in sorted(expected.items()) for i, row in enumerate(rows)}

    def judge(self) -> None:
        report = self._report
        seen: set[str | None] = set()
        place = {name: i for i, name in enumerate(self._expected)}
        last = -1
        for n, record in enumerate(self._case.corrected):
            report.corrected_results += 1
            if record.id in seen:
                report.corrected_duplicated += 1
                _say(report, f"{self._name}: id {record.id} twice")
                continue
            wrong = self._wrong(record)
            if record.id in place:
                seen.add(record.id)
                if place[record.id] < last and not wrong:
                    wrong = "out of order"
                last = max(last, place[record.id])
            if wrong:
                report.corrected_different += 1
                _say(report, f"{self._name}: record {n}, id {record.id}: {wrong}")
        missing = [name for name in self._expected if name not in seen]
        report.corrected_missing += len(missing)
        for name in missing[:TEXTS_MAX]:
            _say(report, f"{self._name}: id {name} is missing, expected {self._expected[name]}")

    def _wrong(self, record: CorrectedRecord) -> str:
        expected = self._expected.get(record.id or "")
        if expected is None:
            return "no such result"
        if record.stime != str(expected[-1]):
            return f"stime {record.stime}, expected {expected[-1]}"
        wanted = dict(zip(self._case.truth.query.columns, expected[:-1], strict=True))
        if record.row is None or record.row.keys() != wanted.keys():
            return f"columns {record.row and sorted(record.row)}, expected {sorted(wanted)}"
        for name, value in wanted.items():
            if not same(record.row[name], value):
                return f"{name} is {record.row[name]!r}, expected {value!r}"
        return ""


class _Stable:
    """What one replica called stable: against the truth, and against what it had said before."""

    def __init__(
        self, report: ContentReport, case: JudgedCase, k: int, expected: Mapping[int, list[FlightRow]]
    ) -> None:
        self._report, self._replay, self._expected = report, case.replicas[k], expected
        self._name = f"{case.truth.query.name}.r{k}"
        self._with_results = sorted(expected)
        self.first: dict[int, tuple[FlightRow, ...]] = {}
        self.start: int | None = None
        self.next = 0
        self.holes: list[tuple[int, int]] = []

    @property
    def results(self) -> int:
        return sum(map(len, self.first.values()))

    def judge(self) -> _Stable:
        for text in self._replay.unreadable:
            self._report.unreadable_records += 1
            _say(self._report, f"unreadable {self._name}: {text}")
        for record in self._replay.records:
            if record.kind in ("STABLE", "BOUNDARY"):
                self._against_truth(record)
                self._against_past(record)
        return self

    def _against_truth(self, record: HistoryRecord) -> None:
        at = bisect_left(self._with_results, record.bucket)
        buckets = {record.bucket} if record.rows else set()
        while at < len(self._with_results) and self._with_results[at] < record.end:
            buckets.add(self._with_results[at])
            at += 1
        for b in sorted(buckets):
            expected = self._expected.get(b, [])
            if wrong := _unequal(record.rows, expected):
                self._report.unlabelled_partial_results += wrong
                _say(self._report, f"stable but wrong {self._name}: bucket {b} is {record.rows}, expected {expected}")

    def _against_past(self, record: HistoryRecord) -> None:
        if self.start is None:
            self.start = self.next = record.bucket
        if record.bucket > self.next:
            self.holes.append((self.next, record.bucket))
        before = [b for b in self.first if record.bucket <= b < record.end]
        if record.bucket < self.next and record.rows and record.bucket not in self.first:
            before.append(record.bucket)
        for b in before:
            if b < self.next and bits(self.first.get(b, ())) != bits(record.rows):
                self._report.stable_results_changed += max(1, _bit_changes(self.first.get(b, ()), record.rows))
                _say(
                    self._report, f"stable changed {self._name}: bucket {b} was {self.first.get(b)}, now {record.rows}"
                )
        if record.rows and record.bucket >= self.next:
            self.first[record.bucket] = record.rows
        self.next = max(self.next, record.end)


def _bit_changes(a: Sequence[FlightRow], b: Sequence[FlightRow]) -> int:
    return sum(x != y for x, y in zip(bits(a), bits(b), strict=False)) + abs(len(a) - len(b))


def _replicas(report: ContentReport, case: JudgedCase, histories: Sequence[_Stable]) -> None:
    """Replicas said the same first, to the bit, from the same start and without holes."""
    name = f"replicas {case.truth.query.name}"
    texts = [
        f"{name}: r{k} never says buckets {a} to {b - 1}"
        for k, history in enumerate(histories)
        for a, b in history.holes
    ]
    if len({h.start for h in histories}) > 1:
        texts.append(f"{name}: they start at buckets {[h.start for h in histories]}")
    for b in sorted(set().union(*(h.first for h in histories))):
        said = [h.first.get(b, ()) for h in histories]
        if len({bits(rows) for rows in said}) > 1:
            texts.append(f"{name}: bucket {b} is {' / '.join(map(str, said))}")
    if texts:
        report.replicas_identical = False
        for text in texts[:TEXTS_MAX]:
            _say(report, text)


class _Tentative:
    """What one replica said tentatively: right for the sources that it says it lacked, bucket by bucket.

    A live state diverges at the first tentative bucket (an episode begins there, complete until then) and is replaced
    when the stable frontier has caught up, or with the incarnation. Within an episode a source's rows of bucket b are
    in exactly if the record of b does not list it as missing; a record's `missing_sources` are all that were missing in
    the buckets that its result can depend on.
    """

    def __init__(
        self, report: ContentReport, case: JudgedCase, k: int, failure: Failure | None, seen: dict[int, int]
    ) -> None:
        self._report, self._case, self._failure, self._seen = report, case, failure, seen
        self._records = case.replicas[k].records
        self._name = f"tentative {case.truth.query.name}.r{k}"

    def judge(self) -> None:
        for record, missing in self._episodes():
            self._judge(record, missing)

    def _episodes(self) -> list[tuple[HistoryRecord, dict[int, tuple[str, ...]]]]:
        """Each tentative record with what was missing in the buckets of its whole episode."""
        found = []
        inc, stable, live = -1, -1, -1
        missing: dict[int, tuple[str, ...]] = {}
        for record in self._records:
            if record.inc < inc:
                continue  # a zombie's: readers ignore what it says tentatively
            if record.inc > inc:
                inc, stable, live = record.inc, -1, -1
            if record.kind in ("STABLE", "BOUNDARY"):
                stable = max(stable, record.end)
            elif record.kind == "TENTATIVE":
                if stable >= live:
                    missing = {}
                missing[record.bucket] = record.missing
                live = record.end
                found.append((record, missing))
        return found

    def _judge(self, record: HistoryRecord, missing: Mapping[int, tuple[str, ...]]) -> None:
        b = record.bucket
        self._seen[b] = max(self._seen.get(b, 0), len(record.rows))
        self._count(record)
        wrong = self._labels(record, missing) or self._content(record, missing)
        if wrong:
            self._report.tentative_wrong += 1
            self._report.tentative_content_right = False
            _say(
                self._report,
                f"{self._name}: bucket {b}, lacking {', '.join(record.missing_sources) or 'nothing'}: {wrong}",
            )

    def _content(self, record: HistoryRecord, missing: Mapping[int, tuple[str, ...]]) -> str:
        truth, b = self._case.truth, record.bucket
        expected = truth.tentative(b, missing) if truth.has_results(b) else []
        if not _unequal(record.rows, expected):
            return ""
        if truth.has_results(b) and self._report.tentative_wrong < TEXTS_MAX:  # the search is slow where it is in vain
            for partial in self._partials(b, missing):
                if not _unequal(record.rows, truth.tentative(b, missing, partial)):
                    self._report.tentative_with_part_of_lacked += 1
                    return ""
        return f"is {record.rows}, expected {tuple(expected)}"

    def _partials(self, bucket: int, missing: Mapping[int, tuple[str, ...]]) -> Iterator[PartialRows]:
        """What may have been there of missing sources: first rows of the bucket in which one went or came back."""
        edges = [
            [{(b, source): n} for n in range(1, self._case.truth.count(b, source) + 1)]
            for b in sorted(missing)
            if self._case.truth.reach(bucket) <= b <= bucket
            for source in missing[b]
            if not all(source in missing.get(near, ()) for near in (b - 1, b + 1))
        ]
        for edge in edges:
            yield from edge
        for one, other in combinations(edges, 2):
            for a, b in product(one, other):
                yield a | b

    def _labels(self, record: HistoryRecord, missing: Mapping[int, tuple[str, ...]]) -> str:
        episode = min(missing)
        if unknown := set(record.missing_sources) - set(SOURCES):
            return f"lacks unknown sources {sorted(unknown)}"
        if not 0.0 <= record.completeness <= 1.0 or bool(record.missing_sources) != (record.completeness < 1.0):
            return f"completeness {record.completeness}"
        if record.diverged_from != episode:
            return f"diverged from {record.diverged_from}, but the state was complete until {episode}"
        since = max(episode, self._case.truth.reach(record.bucket))
        if holes := [c for c in range(since, record.bucket) if c not in missing]:
            return f"no record tells what bucket {holes[0]} lacked"
        depends = {name for c in self._case.truth.depends(record.bucket) if c >= episode for name in missing[c]}
        if set(record.missing_sources) != depends:
            return f"says that it lacked {sorted(record.missing_sources)}, its buckets lacked {sorted(depends)}"
        return ""

    def _count(self, record: HistoryRecord) -> None:
        failure, width = self._failure, self._case.truth.bucket_us
        if failure is None:
            return
        if set(record.missing_sources) - {failure.source}:
            self._report.tentative_lacking_others += 1
        inside = record.end * width > failure.start_us and record.bucket * width < failure.end_us
        if failure.source in record.missing and not inside:
            self._report.tentative_outside_failure += 1
