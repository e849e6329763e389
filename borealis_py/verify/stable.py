"""What replicas of one stream called stable, whoever said it first; bits of rows in short. Knows no Kafka, no query."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from borealis_py.verify.envelope import Row, bits
from borealis_py.verify.history import RAW_BYTES_MAX, Rejection
from borealis_py.verify.spans import Spans
from borealis_py.verify.values import in_json

Rows = tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class PublishedDigest:
    """How many rows or dead letters were published of a bucket (`count`), and a hash of them all, in their order
    (`digest`; empty: there are none)."""

    count: int = 0
    digest: bytes = b""

    def with_row(self, values: Sequence[Any], stime: int) -> PublishedDigest:
        """And a corrected row, as JSON has it."""
        return self._with(json.dumps([*values, stime]).encode())

    def with_letter(self, letter: Rejection) -> PublishedDigest:
        """And a dead letter."""
        reason = letter.reason.encode(errors="replace")
        head = f"{letter.source}|{letter.offset}|{letter.seq}|{len(reason)}|".encode()
        return self._with(head + reason + letter.raw[:RAW_BYTES_MAX])

    def _with(self, one: bytes) -> PublishedDigest:
        return PublishedDigest(self.count + 1, blake2b(self.digest + one, digest_size=16).digest())


NOTHING = PublishedDigest()


@dataclass(frozen=True, slots=True)
class BucketContent:
    """What a stable bucket holds. `hash`: of rows bit for bit and dead letters. `published`: its rows as the corrected
    stream has them; `letters`: its dead letters. `rows`: None where only hashes are kept."""

    hash: bytes
    published: PublishedDigest
    letters: PublishedDigest
    rows: Rows | None = field(default=None, compare=False)

    def __str__(self) -> str:
        if self.rows is not None:
            return f"{self.rows}"
        return f"{self.published.count} rows, {self.letters.count} dead letters, hash {self.hash.hex()[:12]}"


def content(rows: Rows, rejections: Sequence[Rejection], whole: bool) -> BucketContent | None:
    """None: there is nothing in the bucket."""
    if not rows and not rejections:
        return None
    published = letters = NOTHING
    for row in rows:
        published = published.with_row([in_json(value) for value in row[:-1]], _stime(row))
    for letter in rejections:
        letters = letters.with_letter(letter)
    text = repr((bits(rows), letters.digest)).encode()
    return BucketContent(blake2b(text, digest_size=16).digest(), published, letters, rows if whole else None)


def _stime(row: Row) -> int:
    return row[-1] if isinstance(row[-1], int) else 0


@dataclass
class StableBuckets:
    """By bucket what was said first; those without rows and dead letters take no room.

    Attributes:
        whole: rows are kept as they are, not only their hashes.
        start: what was said of buckets below may be deleted.
        contents: of each bucket that holds something.
        spans: all buckets that were called stable. lost: those that were said to be lost.
    """

    whole: bool = True
    start: int = 0
    contents: dict[int, BucketContent] = field(default_factory=dict)
    spans: Spans = field(default_factory=Spans)
    lost: Spans = field(default_factory=Spans)

    def take(self, first: int, end: int, rows: Rows, rejections: Sequence[Rejection]) -> Iterator[tuple[int, str, str]]:
        """Buckets [first, end) are stable. Gives those that were something else before: bucket, what it was, what now.

        A range of several buckets has no rows.
        """
        now = content(rows, rejections, self.whole)
        for bucket in self._spoken_of(first, end) if now is None else [first]:
            before = self.contents.get(bucket)
            if before is None and not self.covers(bucket):
                if now is not None:
                    self.contents[bucket] = now
            elif before != now:
                yield bucket, str(before or "empty"), str(now or "empty")
        self.spans.add(first, end)

    def covers(self, bucket: int) -> bool:
        """Whether somebody called it stable."""
        return bucket in self.spans

    def rows(self, bucket: int) -> Rows | None:
        """What was said first of it, where all is kept; None: nothing."""
        found = self.contents.get(bucket)
        if found is not None:
            return found.rows
        return () if self.covers(bucket) else None

    def _spoken_of(self, first: int, end: int) -> Iterable[int]:
        """The buckets of [first, end) that hold something."""
        if first >= (self.spans.end or 0):
            return ()
        if end - first < len(self.contents):
            return [b for b in range(first, end) if b in self.contents]
        return sorted(b for b in self.contents if first <= b < end)
