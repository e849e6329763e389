"""What the demo reports of content: the verdicts on its queries in figures, for report.json and the promises."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from borealis_py.verify.anomalies import AnomalyKind, Subject, Verdict

TEXTS_MAX = 10


@dataclass
class ContentReport:
    """What the records say about content. All good: every count is 0 and every flag True (see `ok`).

    `anomalies` counts all of them, whichever figure they are in. `differences`: the first few of each kind, for people.
    """

    stable_results: int = 0
    stable_results_changed: int = 0
    unlabelled_partial_results: int = 0
    tentative_results: int = 0
    tentative_buckets: int = 0
    tentative_wrong: int = 0
    tentative_content_right: bool = True
    tentative_undecided: int = 0
    replicas_identical: bool = True
    corrected_results: int = 0
    corrected_missing: int = 0
    corrected_duplicated: int = 0
    corrected_different: int = 0
    unreadable_records: int = 0
    tuples_expected: int = 0
    tuples_published: int = 0
    published_different: int = 0
    anomalies: int = 0
    differences: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Nothing is wrong. Says nothing about whether tentative results were seen."""
        return not self.anomalies and not self.published_different and self.tentative_content_right


def content_of(verdicts: Iterable[Verdict]) -> ContentReport:
    """The figures of all queries together. Tuples are those of the sources, which all queries read."""
    report = ContentReport()
    for verdict in verdicts:
        _add(report, verdict)
    return report


def _add(report: ContentReport, verdict: Verdict) -> None:
    looked, count = verdict.looked_at, verdict.count
    report.stable_results += looked["stable results"]
    report.stable_results_changed += count(AnomalyKind.STABLE_CHANGED, about=Subject.STABLE)
    report.unlabelled_partial_results += count(AnomalyKind.UNLABELLED_PARTIAL, about=Subject.STABLE)
    report.tentative_results += looked["tentative results"]
    report.tentative_buckets += looked["tentative buckets"]
    report.tentative_wrong += count(about=Subject.TENTATIVE)
    report.tentative_undecided += len(verdict.undecided)
    report.tentative_content_right = not (report.tentative_wrong or report.tentative_undecided)
    holes = count(AnomalyKind.INCONSISTENT_OFFSETS, about=Subject.STABLE)
    report.replicas_identical &= not (count(about=Subject.AGREEMENT) or holes)
    report.corrected_results += looked["corrected rows"]
    lost = count(AnomalyKind.LOST_WRITE, about=Subject.CORRECTED)
    repeated = count(AnomalyKind.DUPLICATE, about=Subject.CORRECTED)
    report.corrected_missing += lost
    report.corrected_duplicated += repeated
    report.corrected_different += count(about=Subject.CORRECTED) - lost - repeated
    report.unreadable_records += count(about=Subject.RECORD)
    report.tuples_expected, report.tuples_published = looked["tuples given"], looked["source tuples"]
    report.published_different = max(report.published_different, count(about=Subject.SOURCE))
    report.anomalies += count()
    for kind in AnomalyKind:
        report.differences += [f"{a.where}: {a.what}" for a in verdict.of(kind)[:TEXTS_MAX]]
    report.differences += verdict.undecided[:TEXTS_MAX]
