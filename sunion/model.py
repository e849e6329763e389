"""Tuples, ids and records: the nouns that every other module uses.

Units: an stime is int microseconds since 1970; a bucket is its number, floor(stime / width). `Rows` is an opaque
segment of rows of one input or output (the product: an Arrow batch; the simulator: a list): this package only moves it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

Rows = Any
"""An opaque segment of rows. Never inspected by the pure parts."""
Ordered = Any
"""The rows of one bucket, all inputs, in total order. Opaque."""
State = Any
"""A fragment's state: an immutable value, so that a checkpoint is a reference."""

FOREVER = 2**62
"""The stime of END: a boundary that closes every bucket (PROTOCOL 1.2, B22)."""


class Kind(Enum):
    """What a record of a replica's stream says (PROTOCOL 1.3)."""

    STABLE = "STABLE"
    TENTATIVE = "TENTATIVE"
    BOUNDARY = "BOUNDARY"
    UNDO = "UNDO"
    REC_DONE = "REC_DONE"


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a node: a source (`replicas` 0), or the stream of a node that runs in so many replicas.

    `sources`: all that its rows come from; of a source only itself. `letters`: its dead letters are this node's to
    tell; of all nodes that read one source, the first one's. `partition`: of the stream's topics, if its node
    writes what each of its readers' partitions is to get apart.
    """

    name: str
    replicas: int = 0
    sources: tuple[str, ...] = ()
    letters: bool = True
    partition: int = 0

    @classmethod
    def source(cls, name: str) -> Input:
        """A source."""
        return cls(name, 0, (name,))


@dataclass(frozen=True, slots=True, order=True)
class TupleId:
    """Identity of a stable row: replicas agree on it, and it never changes."""

    bucket: int
    index: int

    def __str__(self) -> str:
        return f"{self.bucket}:{self.index}"


RAW_BYTES_MAX = 65_536
"""A dead letter keeps this much of what could not be used."""
REASON_CHARS_MAX = 2_000
"""And this much of why: messages quote values."""


@dataclass(frozen=True, slots=True)
class Reject:
    """One tuple or record that could not be used: it goes to the dead-letter topic, never away silently.

    `source` names a source, or the query for what the kernel refused; `offset` is the record's offset in that source
    (-1: none); `raw` holds its bytes. Both texts are cut: what somebody else has sent is of any size. `seq`: of what a
    publisher refused, its position in the publisher's input; -1: something else refused it.
    """

    source: str
    offset: int
    reason: str
    raw: bytes = b""
    seq: int = -1

    def __post_init__(self) -> None:
        if len(self.raw) > RAW_BYTES_MAX:
            object.__setattr__(self, "raw", self.raw[:RAW_BYTES_MAX])
        if len(self.reason) > REASON_CHARS_MAX:
            object.__setattr__(self, "reason", f"{self.reason[:REASON_CHARS_MAX]} ...")


@dataclass(frozen=True, slots=True)
class Output:
    """What a fragment produced for one bucket. `rows` is None when there are none."""

    rows: Rows | None = None
    rejects: tuple[Reject, ...] = ()


class Contents(NamedTuple):
    """The tuples of a source's record, `seqs`, `stimes` and `rows` in parallel, and what of it could not be used."""

    seqs: Sequence[int]
    stimes: Sequence[int]
    rows: Rows | None
    rejects: tuple[Reject, ...]


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One decoded record of a source's log, before the fold of PROTOCOL 1.2 judges it.

    `claim`: an EPOCH record, by which a publisher takes the stream and says how late its rows may come (`lateness_us`).
    Otherwise tuples (`seqs`, `stimes` and `rows` run in parallel) followed by an optional `boundary`. `rejects` are the
    tuples that did not decode, and what the publisher refused (with a seq, ascending); `late_us`: how late those of the
    latter came that came too late. `epoch` is -1 for a record that is no envelope of ours at all (then only `rejects`
    counts). `foreign`: it belongs to another life of the app, and says nothing.

    With `unpack` its rows lie in it as bytes still, and `seqs` and `stimes` are those of its header: what the bytes are
    is looked at only once the writer is known to own the source, since anybody may have written them.
    """

    offset: int
    epoch: int
    uid: str
    claim: bool = False
    seqs: Sequence[int] = ()
    stimes: Sequence[int] = ()
    rows: Rows | None = None
    boundary: int | None = None
    rejects: tuple[Reject, ...] = ()
    foreign: bool = False
    lateness_us: int = 0
    late_us: tuple[int, ...] = ()
    unpack: Callable[[SourceRecord], Contents] | None = field(default=None, compare=False, repr=False)

    def opened(self) -> Contents:
        """What it holds, with its rows taken out of their bytes."""
        if self.unpack is None:
            return Contents(self.seqs, self.stimes, self.rows, self.rejects)
        return self.unpack(self)


@dataclass(frozen=True, slots=True)
class StableBucket:
    """STABLE(inc, b, rows, held). `waited_us` in microseconds (R1)."""

    inc: int
    bucket: int
    output: Output
    waited_us: int = 0


@dataclass(frozen=True, slots=True)
class StableRange:
    """BOUNDARY(inc, from, to, held): every bucket of [first, end) is STABLE and has no rows."""

    inc: int
    first: int
    end: int
    waited_us: int = 0


@dataclass(frozen=True, slots=True)
class TentativeBucket:
    """TENTATIVE(inc, b, ...): not known to be final; replaced by STABLE(b) later.

    `missing_sources`: missing in some bucket that the result depends on, earlier ones of its windows too; `missing`:
    those that bucket b itself had not. `completeness` in 0..1: the lowest of those buckets'. `diverged_from`: the first
    bucket whose absence the state, or a word that it was made of, carries (PROTOCOL 1.3, B17). `offset`: where a reader
    found it in the log, -1: nowhere; no part of what is said.
    """

    inc: int
    bucket: int
    output: Output
    missing_sources: tuple[str, ...]
    missing: tuple[str, ...]
    waited_us: int
    completeness: float
    diverged_from: int
    offset: int = field(default=-1, compare=False)


@dataclass(frozen=True, slots=True)
class Undo:
    """Corrections start at this bucket. Informative: readers go by buckets (B40)."""

    inc: int
    bucket: int


@dataclass(frozen=True, slots=True)
class RecDone:
    """Everything below this bucket is stable. Informative."""

    inc: int
    bucket: int


StreamRecord = StableBucket | StableRange | TentativeBucket | Undo | RecDone


class RowOps(Protocol):
    """What the data path may do to segments it does not understand."""

    def take(self, rows: Rows, indices: Sequence[int]) -> Rows:
        """The rows at these positions, in this order."""

    def concat(self, parts: Sequence[Rows]) -> Rows:
        """Segments of one input, one after the other. At least one part."""

    def settle(self, groups: Sequence[Sequence[Rows]]) -> Sequence[Rows]:
        """What `concat` makes of each group of one input's segments, fresh from their bytes, in a form to be kept."""

    def order(self, parts: Sequence[Rows | None]) -> Ordered:
        """One bucket: part i holds input i's rows by seq. Result: by (stime, input, seq)."""

    def count(self, rows: Rows) -> int:
        """How many rows."""

    def size_bytes(self, rows: Rows) -> int:
        """About how many bytes they take in memory."""


class Fragment(Protocol):
    """A deterministic piece of the query network behind one SUnion. Pure: same arguments, same bits."""

    @property
    def lookback_buckets(self) -> int:
        """How many earlier buckets an output may depend on: 0 without windows, size / W - 1 with one."""

    def initial(self) -> State:
        """The state before the first bucket."""

    def step(
        self, state: State, first: int, end: int, buckets: Mapping[int, Ordered]
    ) -> tuple[State, Mapping[int, Output]]:
        """Run buckets [first, end) and return the new state and the outputs of the buckets that have any.

        `buckets` holds the non-empty ones; the others of the range are empty, and a long empty range costs nothing.
        One call equals any split of it into several, bit for bit.
        """
