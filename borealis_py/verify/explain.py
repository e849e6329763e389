"""Whether a tentative bucket follows from what its replica can have had: all input but that of the missing sources.

A replica reads a log in order, so the first stage had a prefix of each bucket's rows of a missing source. A later stage
read one record for each bucket and partition of the stage before: the complete one, a tentative one of either replica
(which may have been deleted since), or none if all sources are missing. Several inputs are possible either way. The
search tries only those whose sums agree with the bucket (`cuts`, `ModelStage.adds`), so it also decides bursts of
hundreds of rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from borealis_py.verify.cuts import TooMany, adding_up
from borealis_py.verify.envelope import Row
from borealis_py.verify.history import KEPT_END, ReplicaHistory
from borealis_py.verify.network import Lacked, Truth, agrees, by_bucket, stime_of
from borealis_py.verify.partitions import Piece, merged

TRIES_MAX = 5_000
"""How many choices with the right sums are computed before a bucket counts as undecided."""

Rows = tuple[Row, ...]


class Answer(Enum):
    """UNDECIDED: the search was given up; no verdict about the rows. DELETED: nor is there one, for what they may have
    been made of is not there any more."""

    YES = "it follows"
    NO = "it does not follow"
    UNDECIDED = "undecided"
    DELETED = "its input was deleted"


@dataclass(frozen=True)
class Statements:
    """What replicas said tentatively, and which sources they said were missing in the bucket: `of` each piece, by
    bucket.

    `start`: of each piece, the first bucket of which nothing was deleted; absent: nothing was.
    """

    of: Mapping[Piece, Mapping[int, Sequence[tuple[Rows, frozenset[str]]]]] = field(default_factory=dict)
    start: Mapping[Piece, int] = field(default_factory=dict)

    @classmethod
    def gathered(cls, replicas: Mapping[Piece, Sequence[ReplicaHistory]]) -> Statements:
        """All there are in these topics."""
        found: dict[Piece, dict[int, list[tuple[Rows, frozenset[str]]]]] = {}
        start: dict[Piece, int] = {}
        for piece, replays in replicas.items():
            of = found.setdefault(piece, {})
            for record in (r for replay in replays for r in replay.records if r.kind == "TENTATIVE"):
                of.setdefault(record.bucket, []).append((record.rows, frozenset(record.missing)))
            for replay in replays:
                if replay.trimmed:
                    kept = max((r.bucket for r in islice(replay.records, KEPT_END)), default=0)
                    start[piece] = max(start.get(piece, 0), kept)
        return cls(found, start)

    def within(self, piece: Piece, bucket: int, missing_sources: frozenset[str]) -> list[Rows]:
        """Those in which no more than this was missing."""
        return [rows for rows, missing in self.of.get(piece, {}).get(bucket, ()) if missing <= missing_sources]


class Explainer:
    """Answers for one query's run."""

    def __init__(self, truth: Truth, statements: Statements) -> None:
        self._truth = truth
        self._network = truth.network
        self._statements = statements
        self._alone: dict[tuple[Piece, Row], dict[int, Rows]] = {}

    def explains(self, piece: Piece, bucket: int, rows: Sequence[Row], missing_sources: Lacked) -> Answer:
        """Whether `rows` is what the piece says of the bucket for some of what its replica can have had.

        Args:
            missing_sources: of every bucket that the result may depend on; a bucket not named lacked nothing.
        """
        if piece.stage:
            found = self._search(piece, bucket, self._said(piece, bucket, missing_sources), tuple(rows))
            if found is Answer.NO and self._deleted(piece, bucket, missing_sources):
                return Answer.DELETED
            return found if isinstance(found, Answer) else Answer.YES
        origin = self._network.stages[0].origin
        if origin is None:
            return self._jointly(piece, bucket, tuple(rows), missing_sources)
        if any(row[origin] not in self._network.sources for row in rows):
            return Answer.NO
        chosen: dict[str, list[Row]] = {}
        answers = set()
        for source in self._network.sources:
            wanted = tuple(row for row in rows if row[origin] == source)
            found = self._search(piece, bucket, self._first_parts(piece, bucket, source, missing_sources), wanted)
            if isinstance(found, Answer):
                answers.add(found)
            else:
                chosen[source] = found
        for answer in (Answer.NO, Answer.UNDECIDED):
            if answer in answers:
                return answer
        said = self._network.keep(self._network.run(chosen, 1), piece)
        whole = by_bucket(said, self._network.bucket_us).get(bucket, ())
        return Answer.YES if agrees(whole, tuple(rows)) else Answer.NO

    def _jointly(self, piece: Piece, bucket: int, wanted: Rows, missing_sources: Lacked) -> Answer:
        """Where nothing tells whose a row is, all sources at once: the likely first, since only the last search counts.

        That is: nothing of what was lacked; then first parts where a source went or came back; then everywhere.
        """
        sources, buckets = self._network.sources, self.buckets(piece, bucket)
        places = [(source, b) for source in sources for b in buckets]
        choices = [of for s in sources for of in self._first_parts(piece, bucket, s, missing_sources)]
        nothing = [of[:1] for of in choices]
        edges = [
            of if any(source not in missing_sources.get(near, ()) for near in (b - 1, b + 1)) else of[:1]
            for (source, b), of in zip(places, choices, strict=True)
        ]
        answer = Answer.NO
        for some in (nothing, edges, choices):
            found = self._search(piece, bucket, some, wanted)
            answer = found if isinstance(found, Answer) else Answer.YES
            if answer is Answer.YES:
                break
        return answer

    # What there may have been -----------------------------------------------------------------------------------------

    def buckets(self, piece: Piece, bucket: int) -> range:
        """Those whose input matters."""
        reach_us, width = self._network.stages[piece.stage].reach_us, self._network.bucket_us
        return range(min(bucket, ((bucket + 1) * width - reach_us) // width), bucket + 1)

    def _first_parts(self, piece: Piece, bucket: int, source: str, missing_sources: Lacked) -> list[list[Rows]]:
        """Of one source, for each bucket."""
        choices = []
        for b in self.buckets(piece, bucket):
            parts = self._truth.parts(source, b)
            there = parts[piece.part] if parts else ()
            cuts = self._cuts(piece, bucket, there) if source in missing_sources.get(b, ()) else [len(there)]
            choices.append([there[:n] for n in cuts])
        return choices

    def _cuts(self, piece: Piece, bucket: int, there: Rows) -> list[int]:
        """Those that differ: where it is known what adds up, a row that alone gives nothing makes no difference."""
        if self._network.stages[0].adds is None:
            return list(range(len(there) + 1))
        return [0, *(n for n, row in enumerate(there, 1) if self._from_one(piece, row).get(bucket))]

    def _said(self, piece: Piece, bucket: int, missing_sources: Lacked) -> list[list[Rows]]:
        """By the stage before, for each bucket and partition of it."""
        before = piece.stage - 1
        choices = []
        for part in range(len(self._network.stages[before].parts)):
            said = Piece(before, part, piece.part)
            for b in self.buckets(piece, bucket):
                rows = [self._truth.stable(said).get(b, ())]
                if b in missing_sources:
                    rows += self._statements.within(said, b, missing_sources[b])
                    rows += [()] if missing_sources[b] >= set(self._network.sources) else []
                choices.append(list(dict.fromkeys(rows)))
        return choices

    def _deleted(self, piece: Piece, bucket: int, missing_sources: Lacked) -> bool:
        """Whether something that the stage before may have said tentatively of its input is not there any more."""
        before, start = piece.stage - 1, self._statements.start
        said = [Piece(before, part, piece.part) for part in range(len(self._network.stages[before].parts))]
        return any(b < start.get(of, b) for b in self.buckets(piece, bucket) if b in missing_sources for of in said)

    # What it gives ----------------------------------------------------------------------------------------------------

    def _gives(self, piece: Piece, rows: Sequence[Row]) -> dict[int, Rows]:
        """What a piece is to hold, by bucket, if this is all that its replica had, in order."""
        said = self._network.stages[piece.stage].says(rows)
        return by_bucket(self._network.keep(said, piece), self._network.bucket_us)

    def _from_one(self, piece: Piece, row: Row) -> dict[int, Rows]:
        """The same of one row alone."""
        key = piece, row
        if key not in self._alone:
            self._alone[key] = self._gives(piece, [row])
        return self._alone[key]

    def _ordered(self, piece: Piece, parts: Sequence[Rows]) -> list[Row]:
        """Rows of several buckets and partitions in the order of the piece's input."""
        rows = [row for part in parts for row in part]
        before = self._network.stages[piece.stage - 1] if piece.stage else None
        if before is not None and before.partitions:
            return [tuple(row) for row in merged(rows, before.by)]
        return sorted(rows, key=stime_of)

    def _search(self, piece: Piece, bucket: int, choices: list[list[Rows]], wanted: Rows) -> list[Row] | Answer:
        """Input that gives `wanted`; NO: there is none; UNDECIDED."""
        tried = 0
        try:
            for choice in islice(self._agreeing(piece, bucket, choices, wanted), TRIES_MAX):
                rows = self._ordered(piece, [of[n] for of, n in zip(choices, choice, strict=True)])
                if agrees(self._gives(piece, rows).get(bucket, ()), wanted):
                    return rows
                tried += 1
        except TooMany:
            return Answer.UNDECIDED
        return Answer.UNDECIDED if tried == TRIES_MAX else Answer.NO

    def _agreeing(self, piece: Piece, bucket: int, choices: list[list[Rows]], wanted: Rows) -> Iterator[Sequence[int]]:
        """Choices that agree with it in what adds up; without knowing that, all of them."""
        adds = self._network.stages[piece.stage].adds or _nothing
        columns: dict[Hashable, int] = {}

        def added(rows: Sequence[Row]) -> Counter[int]:
            total: Counter[int] = Counter()
            for row in rows:
                for name, value in adds(row).items():
                    total[columns.setdefault(name, len(columns))] += value
            return total

        fixed = [of[0] if len(of) == 1 else () for of in choices]
        target = added(wanted)
        target.subtract(added(self._gives(piece, self._ordered(piece, fixed)).get(bucket, ())))
        left = [i for i, of in enumerate(choices) if len(of) > 1]
        there = {row for i in left for rows in choices[i] for row in rows}
        weights = {row: added(self._from_one(piece, row).get(bucket, ())) for row in there}
        tables = [_table(choices[i], weights, len(columns)) for i in left]
        for chosen in adding_up(tables, [target[column] for column in range(len(columns))]):
            choice = [0] * len(choices)
            for i, n in zip(left, chosen, strict=True):
                choice[i] = n
            yield choice


def _nothing(row: Row) -> dict[Hashable, int]:
    return {}


def _table(choices: Sequence[Rows], weights: Mapping[Row, Mapping[int, int]], columns: int) -> NDArray[np.int64]:
    """What the rows of each choice add up to; most are first parts of the longest."""

    def growing(rows: Rows) -> NDArray[np.int64]:
        table = np.zeros((len(rows) + 1, columns), np.int64)
        for n, row in enumerate(rows, 1):
            for column, value in weights[row].items():
                table[n, column] = value
        return table.cumsum(axis=0)

    longest = max(choices, key=len)
    grown = growing(longest)
    return np.stack([grown[len(c)] if c == longest[: len(c)] else growing(c)[-1] for c in choices])
