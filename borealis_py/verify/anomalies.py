"""Kinds of anomalies, and the verdict that is made of them. Knows no Kafka and no query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial

EXAMPLES_MAX = 5
KEPT_MAX = 10_000
"""How many anomalies of one kind are kept; further ones are only counted."""


class AnomalyKind(StrEnum):
    """What can be wrong. The first six are Jepsen's, the others ours; `says` has a sentence for each."""

    DUPLICATE = "duplicate"
    LOST_WRITE = "lost-write"
    INCONSISTENT_OFFSETS = "inconsistent-offsets"
    ABORTED_READ = "aborted-read"
    NONMONOTONIC_POLL = "nonmonotonic-poll"
    UNSEEN = "unseen"
    UNLABELLED_PARTIAL = "unlabelled-partial"
    STABLE_CHANGED = "stable-changed"
    BOUND_BROKEN = "bound-broken"

    @property
    def says(self) -> str:
        """One sentence for people."""
        return _SENTENCES[self]


_SENTENCES = {
    AnomalyKind.DUPLICATE: "The same result, dead letter or stable bucket was committed or delivered more than once.",
    AnomalyKind.LOST_WRITE: (
        "An item in a source, or acknowledged to a publisher, is missing from the committed results."
    ),
    AnomalyKind.INCONSISTENT_OFFSETS: (
        "The log contradicts itself: progress and rows disagree, a replica's stream has a hole, a record is unreadable."
    ),
    AnomalyKind.ABORTED_READ: "A consumer was shown a row that was never committed, or that no replica wrote.",
    AnomalyKind.NONMONOTONIC_POLL: (
        "A later poll went back: rows or buckets out of order, or tentative rows below stable ones."
    ),
    AnomalyKind.UNSEEN: "A committed result was never delivered to a subscriber that stayed until the end.",
    AnomalyKind.UNLABELLED_PARTIAL: "A result is partial without saying so, or its label contradicts itself.",
    AnomalyKind.STABLE_CHANGED: "A bucket that was stable was written again with other rows.",
    AnomalyKind.BOUND_BROKEN: "A bucket reached the live subscriber later than X after its time without failures.",
}


class Subject(StrEnum):
    """What an anomaly is about."""

    SOURCE = "source"
    RECORD = "record"
    STABLE = "stable"
    AGREEMENT = "agreement of replicas"
    TENTATIVE = "tentative"
    CORRECTED = "corrected"
    PROGRESS = "progress"
    DEAD_LETTERS = "dead letters"
    SUBSCRIBER = "subscriber"


@dataclass(frozen=True)
class Anomaly:
    """One thing that is wrong: of which `kind`, `where` (topic or subscriber), `what` was seen, and which statements it
    is about (`subject`)."""

    kind: AnomalyKind
    where: str
    what: str
    subject: Subject


@dataclass(frozen=True)
class Delay:
    """When the first statement about `bucket` of the query's `partition` reached a live subscriber: `at_us`, wall time;
    `added_ms`: how much later than without failures. `end_us`: the bucket's end. `promised`: it met no blackout: X
    counts from its end.

    `late`: later than the bound allows.
    """

    bucket: int
    partition: int
    end_us: int
    at_us: int
    added_ms: float
    promised: bool
    late: bool = False


@dataclass
class Verdict:
    """All anomalies, and what was looked at: a verdict over nothing is no good verdict."""

    anomalies: list[Anomaly] = field(default_factory=list)
    """The first `KEPT_MAX` of each kind."""
    looked_at: Counter[str] = field(default_factory=Counter)
    """How many of each thing, by its name in the report."""
    delays: list[Delay] = field(default_factory=list)
    """Of each bucket that the bound was judged for."""
    undecided: list[str] = field(default_factory=list)
    """Tentative buckets for which the search could not decide whether they follow from a part of the input."""
    not_checked: list[str] = field(default_factory=list)
    """What could not be checked, and why."""
    judged: frozenset[AnomalyKind] = frozenset(AnomalyKind)
    """The kinds that were looked for."""
    counts: Counter[tuple[AnomalyKind, Subject]] = field(default_factory=Counter)
    """How many of each kind about each subject; unlike `anomalies`, all of them."""

    def say(self, kind: AnomalyKind, where: str, what: str, subject: Subject) -> None:
        """Note an anomaly."""
        if self.count(kind) < KEPT_MAX:
            self.anomalies.append(Anomaly(kind, where, what, subject))
        self.counts[kind, subject] += 1

    def about(self, subject: Subject) -> Callable[[AnomalyKind, str, str], None]:
        """`say` of one subject."""
        return partial(self._say, subject)

    def _say(self, subject: Subject, kind: AnomalyKind, where: str, what: str) -> None:
        self.say(kind, where, what, subject)

    def and_beside(self, others: Iterable[Verdict]) -> Verdict:
        """Add the findings of other apps; their added delays are left out."""
        for other in others:
            self.anomalies += other.anomalies
            self.undecided += other.undecided
            self.not_checked += other.not_checked
            self.looked_at += other.looked_at
            self.counts += other.counts
        return self

    @property
    def delays_ms(self) -> list[float]:
        """Added delays."""
        return [delay.added_ms for delay in self.delays]

    @property
    def kinds(self) -> set[AnomalyKind]:
        """Those that apply; none: the history is good."""
        return {kind for kind, _ in self.counts}

    def of(self, kind: AnomalyKind) -> list[Anomaly]:
        """The anomalies of one kind, as far as they are kept."""
        return [a for a in self.anomalies if a.kind is kind]

    def count(self, *kinds: AnomalyKind, about: Subject | None = None) -> int:
        """How many there are of these kinds (none named: of all), about one subject or any."""
        return sum(n for (k, s), n in self.counts.items() if (not kinds or k in kinds) and about in (None, s))
