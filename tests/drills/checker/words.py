"""The words of a verdict, and the verdict itself. Knows no Kafka and no query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

EXAMPLES_MAX = 5


class Word(StrEnum):
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
    Word.DUPLICATE: "The same result, dead letter or stable bucket was committed or delivered more than once.",
    Word.LOST_WRITE: "What the sources hold, or a publisher was told is in the log, is in no committed result.",
    Word.INCONSISTENT_OFFSETS: (
        "The log contradicts itself: progress and rows disagree, a replica's stream has a hole, a record is unreadable."
    ),
    Word.ABORTED_READ: "A consumer was shown what was never committed, or what no replica said.",
    Word.NONMONOTONIC_POLL: "A later poll went back: rows or buckets out of order, or tentative below what is stable.",
    Word.UNSEEN: "A committed result was never delivered to a subscriber that stayed until the end.",
    Word.UNLABELLED_PARTIAL: "A result differs from the truth, and its label does not say so.",
    Word.STABLE_CHANGED: "A bucket that was called stable was later said with other rows.",
    Word.BOUND_BROKEN: "A bucket reached the live subscriber later than the threshold beyond failure-free.",
}


@dataclass(frozen=True)
class Anomaly:
    """One thing that is wrong, where (topic or subscriber), and what was seen."""

    word: Word
    where: str
    what: str


@dataclass(frozen=True)
class Delay:
    """When a bucket's first word reached a live subscriber. `promised`: it met no blackout: X counts from its end.

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
    looked_at: Counter[str] = field(default_factory=Counter)
    delays: list[Delay] = field(default_factory=list)
    """Of each bucket that the bound was judged for."""
    undecided: list[str] = field(default_factory=list)
    """Tentative words of which it could not be found out whether they follow from a part of the input."""

    def say(self, word: Word, where: str, what: str) -> None:
        """Note an anomaly."""
        self.anomalies.append(Anomaly(word, where, what))

    def and_beside(self, others: Iterable[Verdict]) -> Verdict:
        """What was found and looked at in other apps, too; how long their buckets took is theirs alone."""
        for other in others:
            self.anomalies += other.anomalies
            self.undecided += other.undecided
            self.looked_at += other.looked_at
        return self

    @property
    def delays_ms(self) -> list[float]:
        """Added delays."""
        return [delay.added_ms for delay in self.delays]

    @property
    def words(self) -> set[Word]:
        """Those that apply; none: the history is good."""
        return {a.word for a in self.anomalies}

    def of(self, word: Word) -> list[Anomaly]:
        """The anomalies of one word."""
        return [a for a in self.anomalies if a.word is word]
