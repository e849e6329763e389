"""Tuples, ids and records: the data types that every other module uses.

Units: an stime is int microseconds since 1970; a bucket is its number, floor(stime / width). `Rows` is an opaque
segment of rows of one input or output (an Arrow batch in the product, a list in the simulator): this package only
moves it.
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
"""The stime of END: a boundary that closes every bucket (A2.2, B22)."""


class Kind(Enum):
    """What kind of record a replica's stream contains (A3.1)."""

    STABLE = "STABLE"
    TENTATIVE = "TENTATIVE"
    BOUNDARY = "BOUNDARY"
    GAP = "GAP"
    UNDO = "UNDO"
    REC_DONE = "REC_DONE"


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a node: a source (`replicas` 0), or the stream of a node that runs in `replicas` replicas. `name`:
    of that source or node.

    `sources`: the sources its rows come from, as people call them: a source lists itself, perhaps by another name than
    that of its topic. `dead_letters`: this node publishes the input's dead letters; of all nodes that read one source,
    only the first does. `partition`: the partition of the stream's topics to read, if its node writes a separate one
    for each of its readers' partitions.
    """

    name: str
    replicas: int = 0
    sources: tuple[str, ...] = ()
    dead_letters: bool = True
    partition: int = 0

    @classmethod
    def source(cls, name: str) -> Input:
        """A source."""
        return cls(name, 0, (name,))

    @property
    def shown(self) -> str:
        """What people call it."""
        return self.name if self.replicas or not self.sources else self.sources[0]


@dataclass(frozen=True, slots=True, order=True)
class TupleId:
    """Identity of a stable row: `bucket`, and `index` in it, from 0. Replicas agree on it, and it never changes."""

    bucket: int
    index: int

    def __str__(self) -> str:
        return f"{self.bucket}:{self.index}"


RAW_BYTES_MAX = 65_536
"""A dead letter keeps at most this many bytes of the input that could not be used."""
REASON_CHARS_MAX = 2_000
"""A dead letter keeps at most this many characters of the reason: messages quote values."""


@dataclass(frozen=True, slots=True)
class Reject:
    """One tuple or record that could not be used. It goes to the dead-letter topic; nothing is dropped silently.

    `source`: a source, or the query if the kernel refused the row. `offset`: the record's offset in that source; -1:
    none. `raw`: the bytes. `raw` and `reason` are truncated: foreign input can be of any size. `seq`: the position in
    the publisher's input if the publisher refused it; -1: otherwise.
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
    """What a fragment produced for one bucket. `rows` is None if it produced no rows. `rejects`: dead letters of the
    bucket."""

    rows: Rows | None = None
    rejects: tuple[Reject, ...] = ()


class Contents(NamedTuple):
    """The content of a source record: `seqs`, `stimes` and `rows` in parallel, and what of it could not be used."""

    seqs: Sequence[int]
    stimes: Sequence[int]
    rows: Rows | None
    rejects: tuple[Reject, ...]


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """One decoded record of a source's log at `offset`, before the fold (A2.2) judges it.

    `claim`: an EPOCH record, by which the publisher `uid` takes the stream and declares how late its rows may come
    (`lateness_us`). Any other record holds tuples (`seqs`, `stimes` and `rows` run in parallel), then an optional
    `boundary` (END is FOREVER, and no record has a larger one). `rejects`: tuples that did not decode, and those that
    the publisher refused (with a seq, ascending); `late_us`: for each tuple that the publisher refused as late, how
    late it was. `epoch` is -1 for a record without our envelope (only `rejects` counts). `foreign`: the record belongs
    to another life of the app and is ignored.

    With `unpack`, the rows are still bytes, and `seqs` and `stimes` come from the header. The bytes are decoded only
    once the writer is known to own the source, since anyone may have written them.
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
        """The content, with its rows decoded."""
        if self.unpack is None:
            return Contents(self.seqs, self.stimes, self.rows, self.rejects)
        return self.unpack(self)


@dataclass(frozen=True, slots=True)
class StableBucket:
    """STABLE(inc, b, rows, waited) of incarnation `inc`: `output` is final for `bucket`. `waited_us`: how long past its
    end the bucket had waited when it ran, in microseconds (R1.2)."""

    inc: int
    bucket: int
    output: Output
    waited_us: int = 0


@dataclass(frozen=True, slots=True)
class StableRange:
    """BOUNDARY(inc, from, to, waited) of incarnation `inc`: every bucket of [first, end) is STABLE and has no rows.
    `waited_us`: of the last one."""

    inc: int
    first: int
    end: int
    waited_us: int = 0


@dataclass(frozen=True, slots=True)
class GapRange:
    """GAP(inc, from, to) of incarnation `inc`: it will never say the buckets [first, end) as stable: they, or what they
    stand on, are lost (R18.4)."""

    inc: int
    first: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TentativeBucket:
    """TENTATIVE(inc, b, ...) of incarnation `inc`: `output` is not known to be final; replaced by STABLE(b) later.

    `missing_sources`: the sources missing in any bucket that the result depends on, earlier buckets of its windows
    included; `missing`: those missing in bucket b itself. `waited_us`: as in `StableBucket`. `completeness`, 0 to 1:
    the lowest of those buckets. `diverged_from`: the first bucket whose absence affects the state, or the tentative
    input that was used (A3.4, B17). `offset`: where a reader found the record in the log; -1: not read from a
    log. It is not part of the record.
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
    """Corrections of incarnation `inc` start at `bucket`. Informative: readers go by buckets (B40)."""

    inc: int
    bucket: int


@dataclass(frozen=True, slots=True)
class RecDone:
    """Everything below `bucket` is stable, says incarnation `inc`. Informative."""

    inc: int
    bucket: int


StreamRecord = StableBucket | StableRange | GapRange | TentativeBucket | Undo | RecDone


def stable_span(record: StreamRecord) -> tuple[int, int] | None:
    """The buckets [first, end) that it says as stable; None: it says none."""
    if isinstance(record, StableRange):
        return record.first, record.end
    return (record.bucket, record.bucket + 1) if isinstance(record, StableBucket) else None


class RowOps(Protocol):
    """The operations of the data path on row segments, which it does not look into."""

    def take(self, rows: Rows, indices: Sequence[int]) -> Rows:
        """The rows at these positions, in this order."""

    def concat(self, parts: Sequence[Rows]) -> Rows:
        """Concatenate segments of one input, in this order. `parts` has at least one element."""

    def settle(self, groups: Sequence[Sequence[Rows]]) -> Sequence[Rows]:
        """`concat` each group of one input's freshly decoded segments, into a form that can stay in memory."""

    def order(self, parts: Sequence[Rows | None]) -> Ordered:
        """Order one bucket by (stime, input, seq). `parts[i]` holds input i's rows by seq, or None."""

    def count(self, rows: Rows) -> int:
        """Number of rows."""

    def size_bytes(self, rows: Rows) -> int:
        """Approximate size of the rows in memory, in bytes."""

    def digest(self, rows: Rows) -> bytes:
        """Hash of the rows' values in their order: equal for equal rows, however they lie in memory."""


class Fragment(Protocol):
    """A deterministic piece of the query network behind one SUnion. Pure: equal arguments give equal bits."""

    @property
    def lookback_buckets(self) -> int:
        """How many earlier buckets an output may depend on: 0 without windows, size / W - 1 with one."""

    def initial(self) -> State:
        """The state before the first bucket."""

    def step(
        self, state: State, first: int, end: int, buckets: Mapping[int, Ordered]
    ) -> tuple[State, Mapping[int, Output]]:
        """Run buckets [first, end) and return the new state and the outputs of the buckets that have any.

        `buckets` holds the non-empty ones; the others of the range are empty, and a long empty range is cheap.
        One call gives the same result, bit for bit, as any split of it into several calls.
        """
