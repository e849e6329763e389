"""Checks that what was committed of a stream is in order, each once and without holes; keeps a hash per bucket."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from borealis_py.verify.anomalies import AnomalyKind, Subject, Verdict
from borealis_py.verify.spans import Spans
from borealis_py.verify.stable import PublishedDigest, StableBuckets

Adding = Callable[[PublishedDigest], PublishedDigest]


@dataclass
class CommittedBuckets:
    """Rows of a corrected stream, or dead letters of a node, under their ids (bucket, index).

    Attributes:
        name: of the stream, for people. subject, verdict: anomalies are noted in this verdict, about this subject.
        trimmed: its beginning was deleted: it may begin amid a bucket.
        found: by bucket, what was read of it.
    """

    name: str
    subject: Subject
    verdict: Verdict
    trimmed: bool = False
    found: dict[int, PublishedDigest] = field(default_factory=dict)
    _last: int = -1
    _first: int | None = None
    _told: set[int] = field(default_factory=set)
    """Buckets that already have an anomaly; its consequences are not counted again."""

    def take(self, bucket: int, index: int, offset: int, add: Adding) -> None:
        """One of them, in the order of the log. `add`: to the hash of those before it in its bucket."""
        say = self.verdict.about(self.subject)
        if self._first is None:
            self._first = bucket
            if self.trimmed:
                self._told.add(bucket)
                self.found[bucket] = PublishedDigest(index)
        before = self.found.get(bucket, PublishedDigest())
        where = f"offset {offset}: id {bucket}:{index}"
        if index < before.count:
            say(AnomalyKind.DUPLICATE, self.name, f"{where} again")
            return
        if bucket < self._last:
            say(AnomalyKind.NONMONOTONIC_POLL, self.name, f"{where} after bucket {self._last}")
            self._told.add(bucket)
        elif index > before.count:
            say(AnomalyKind.LOST_WRITE, self.name, f"{where}, where {bucket}:{before.count} should be")
            self._told.add(bucket)
        self.found[bucket] = add(PublishedDigest(index, before.digest))
        self._last = max(self._last, bucket)

    def against(self, said: StableBuckets, letters: bool, published: int, lost: Spans | None = None) -> None:
        """Compare with the stable buckets of the replicas.

        Args:
            published: everything below this bucket must be there.
            lost: but for these, which were published as lost, whether or not a replica said them later.
        """
        say, gone = self.verdict.about(self.subject), lost or Spans()
        for bucket in sorted(bucket for bucket in self.found if bucket in gone):
            what = f"bucket {bucket}: {self.found[bucket].count} were committed, and it was published as lost"
            say(AnomalyKind.ABORTED_READ, self.name, what)
            self._told.add(bucket)
        for bucket, content in said.contents.items():
            wanted = content.letters if letters else content.published
            found = self.found.get(bucket, PublishedDigest())
            early = self.trimmed and (self._first is None or bucket <= self._first)
            if bucket in self._told or early or found == wanted or bucket in gone:
                continue
            if found.count > wanted.count or (found.count and found.count == wanted.count):
                what = f"bucket {bucket}: {found.count} were committed that are not the {wanted.count} replicas said"
                say(AnomalyKind.ABORTED_READ, self.name, what)
            elif found.count or bucket < published:
                what = f"bucket {bucket}: {found.count} of {wanted.count} are there, published below {published}"
                say(AnomalyKind.LOST_WRITE, self.name, what)
        for bucket in sorted(self.found.keys() - said.contents.keys() - self._told):
            if bucket >= said.start:
                what = f"bucket {bucket}: {self.found[bucket].count} were committed, no replica said any"
                say(AnomalyKind.ABORTED_READ, self.name, what)
