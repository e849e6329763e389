"""Compares the dead letters of a query's nodes with recomputed ones: missing, extra or different. Pure.

The topic grows while it is read. So recomputed dead letters below the progress before the read must be in it; those
below the progress after the read may be in it.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from borealis_py.log.base import Record
from reconcile.compare import Difference
from sunion.model import Reject


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """One dead letter.

    Attributes:
        node: the node that wrote it. source: where the unusable item came from.
        offset: of the item in its source; -1: none. seq: in its publisher's input; -1: no publisher refused it.
        reason: why it could not be used. raw: hash of its bytes. bucket: the one it was written with.
        at: the partition of the node and the number in its bucket; only those read from the topic have it.
    """

    node: str
    source: str
    offset: int
    reason: str
    raw: str
    bucket: int
    seq: int
    at: tuple[str, int] = field(default=("", -1), compare=False)

    def __str__(self) -> str:
        seq = "" if self.seq < 0 else f", seq {self.seq}"
        return (
            f"{self.reason} (written by {self.node}, source {self.source}, offset {self.offset}{seq}, "
            f"bucket {self.bucket})"
        )

    @property
    def of(self) -> tuple[str, str, int]:
        return self.node, self.source, self.offset


def parse_letter(record: Record) -> DeadLetter | None:
    """Parse a record of the dead-letter topic; None: it names a gap, or its headers are not those of a dead letter of a
    bucket."""
    headers = {name: value.decode(errors="replace") for name, value in record.headers}
    if "gap" in headers:
        return None
    try:
        return DeadLetter(
            headers["query"],
            headers["source"],
            int(headers["offset"]),
            headers["reason"],
            _hash(record.value),
            int(headers["bucket"]),
            int(headers.get("seq", "-1")),
            (headers["node"], int(headers["index"])),
        )
    except (KeyError, ValueError):
        return None


def _hash(raw: bytes | None) -> str:
    return hashlib.blake2b(raw or b"", digest_size=16).hexdigest()


@dataclass(slots=True)
class Recomputed:
    """Recomputed dead letters: those that nodes must have written (`expected`), and those that they may have
    (`allowed`).

    Args:
        readers: for each source, the nodes that write its dead letters.
        query: the node to which other dead letters belong, unless their source is the name of a node.
        must: by node, the first bucket whose dead letters need not be in the topic.
        may: by node, the first bucket whose dead letters cannot be in the topic.
        lost: the gaps of `query`, of each of its partitions: in these its dead letters need not be in the topic.
    """

    readers: Mapping[str, tuple[str, ...]]
    query: str
    must: Mapping[str, int]
    may: Mapping[str, int]
    lost: tuple[range, ...] = ()
    expected: Counter[DeadLetter] = field(default_factory=Counter)
    allowed: Counter[DeadLetter] = field(default_factory=Counter)

    def add(self, bucket: int, rejects: Iterable[Reject]) -> None:
        """Add the dead letters of one bucket: those of its sources and those of the nodes themselves."""
        lost = any(bucket in gap for gap in self.lost)
        for reject in rejects:
            own = reject.source if reject.source in self.must else self.query
            for node in self.readers.get(reject.source, (own,)):
                raw = _hash(reject.raw)
                letter = DeadLetter(node, reject.source, reject.offset, reject.reason, raw, bucket, reject.seq)
                self.expected[letter] += bucket < self.must[node] and not (lost and node == self.query)
                self.allowed[letter] += bucket < self.may[node]

    def compare(self, found: Iterable[DeadLetter]) -> tuple[int, int, Difference | None]:
        """How many are right, how many differ, and the first difference by name; None: there is none."""
        told = [letter for letter in found if letter.node in self.must]
        there = Counter(told)
        missing, extra = self.expected - there, there - self.allowed
        differences = [*_paired(missing, extra), *([] if missing or extra else _misnumbered(told))]
        return (there & self.allowed).total(), len(differences), min(differences, key=lambda d: d.id, default=None)


def _paired(missing: Counter[DeadLetter], extra: Counter[DeadLetter]) -> Iterable[Difference]:
    left = list(extra.elements())
    for want in missing.elements():
        like = next((letter for letter in left if letter.of == want.of), None)
        if like is None:
            yield Difference("missing", _name(want), str(want), None)
        else:
            left.remove(like)
            yield Difference("different", _name(want), str(want), str(like))
    for letter in left:
        yield Difference("extra", _name(letter), None, str(letter))


def _misnumbered(told: Iterable[DeadLetter]) -> Iterable[Difference]:
    """Check the numbering of dead letters that are all right: in a node's bucket, numbers are 0, 1, ..."""
    buckets: dict[tuple[str, int], list[DeadLetter]] = {}
    for letter in told:
        buckets.setdefault((letter.at[0], letter.bucket), []).append(letter)
    for letters in buckets.values():
        for index, letter in enumerate(sorted(letters, key=lambda one: one.at[1])):
            if letter.at[1] != index:
                yield Difference("different", _name(letter), f"number {index} of its bucket", f"number {letter.at[1]}")


def _name(letter: DeadLetter) -> str:
    return f"{letter.node}/{letter.source}@{letter.offset}"
