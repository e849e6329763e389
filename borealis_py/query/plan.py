"""The operators of a plan, as values, and how several fragments are combined into one plan.

A plan is in topological order: an operator's inputs are indices of earlier operators; the last one gives the result.
This module knows no engine: expressions are strings that the engine checks when it loads a plan.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer

from borealis_py.query.units import DURATION_MAX_US

WITHIN_MAX_US = DURATION_MAX_US
"""Rows are kept for a year at most: the state has room for hours, and times must not overflow."""
LAST_MAX = 1_000
"""A frame has at most this many rows: each row is computed from all of its frame."""
WINDOW_ROWS_MAX = 100_000
"""A count window has at most this many rows: they are kept until it closes, and are computed together."""
StyleName = Literal["arrow", "pandas"]
"""What a function takes and returns: a `pyarrow.Table` or a `pandas.DataFrame`."""


class Value(BaseModel):
    """Base class of the parts of an app's description: immutable, unknown fields forbidden."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class SourceOp(Value):
    """Rows of one input of the fragment: a source's by (stime, seq), or another node's in their order.

    `name`: of that source or node. `op`, here and below: tells operators apart in JSON.
    """

    op: Literal["source"] = "source"
    name: str


class FilterOp(Value):
    """The rows of operator `input` for which `predicate`, an SQL expression over its columns, is true. `op`: as in
    `SourceOp`."""

    op: Literal["filter"] = "filter"
    input: int
    predicate: str


class MapOp(Value):
    """Replaces the columns of operator `input` by `columns`: (name, SQL expression) each. `stime` stays. `op`: as in
    `SourceOp`."""

    op: Literal["map"] = "map"
    input: int
    columns: tuple[tuple[str, str], ...]


class UnionOp(Value):
    """Rows of all `inputs` (indices of operators), by (stime, input, position). `op`: as in `SourceOp`."""

    op: Literal["union"] = "union"
    inputs: tuple[int, ...]


class TimeWindows(Value):
    """Base class of what is computed over windows by time."""

    @model_serializer(mode="wrap")
    def _as_before(self, others: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without a zone where there is none: such a description is what it was before there could be one."""
        found: dict[str, Any] = others(self)
        if found.get("zone") is None:
            found.pop("zone", None)
        return found


class WindowOp(TimeWindows):
    """Aggregates over windows [s, s + `size_us`) of operator `input` that end `offset_us` after multiples of `every_us`
    since 1970, all in microseconds and multiples of the bucket width; with a `zone`, as its clocks show them, and all
    but the offset whole days.

    `keys`: columns to group by; empty: one group. `aggregates`: (name, SQL expression) of each result column. `op`: as
    in `SourceOp`.
    """

    op: Literal["window"] = "window"
    input: int
    size_us: int
    every_us: int
    offset_us: int = 0
    zone: str | None = None
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str], ...]


class CountWindowOp(Value):
    """Aggregates over windows of `rows` rows of operator `input` that agree in the columns `keys`, each after the one
    before. `aggregates`: as in `WindowOp`. `op`: as in `SourceOp`."""

    op: Literal["count_window"] = "count_window"
    input: int
    rows: int = Field(ge=1, le=WINDOW_ROWS_MAX)
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str], ...]


class SessionWindowOp(Value):
    """Aggregates over windows of rows of operator `input` that agree in the columns `keys` and are less than `gap_us`
    microseconds apart, each window shorter than `most_us`. `aggregates`: as in `WindowOp`. `op`: as in `SourceOp`."""

    op: Literal["session_window"] = "session_window"
    input: int
    gap_us: int = Field(ge=1, le=WITHIN_MAX_US)
    most_us: int = Field(ge=1, le=WITHIN_MAX_US)
    keys: tuple[str, ...]
    aggregates: tuple[tuple[str, str], ...]


class CutOp(Value):
    """The rows of operator `input`, as node `name` returns them. Occurs only in a flattened plan. `op`: as in
    `SourceOp`.

    It keeps the part before the cut separate: an engine that optimises across the cut may add, skip and fail
    differently.
    """

    op: Literal["cut"] = "cut"
    input: int
    name: str


class PartOp(Value):
    """The rows of operator `input` whose columns `by` hash to partition `index`, from 0, of `count`. `op`: as in
    `SourceOp`."""

    op: Literal["part"] = "part"
    input: int
    by: tuple[str, ...]
    count: int
    index: int


class MergeOp(Value):
    """Rows of all partitions of a node in the order of a partitioned stream: (stime, columns `by`, position).

    Rows that agree in `by` come from one partition, so the order does not depend on the number of partitions. `inputs`:
    indices of the operators that give the partitions' rows. `op`: as in `SourceOp`.
    """

    op: Literal["merge"] = "merge"
    inputs: tuple[int, ...]
    by: tuple[str, ...]


class JoinOp(Value):
    """Pairs of a row of the first of `inputs` (left) and one of the second (right) that agree in the columns `on`,
    where the right one's stime is `low_us` to `high_us` microseconds after the left one's (before it, if negative).

    `how`: "inner": pairs only; "left": also each left row without a pair. `op`: as in `SourceOp`.
    """

    op: Literal["join"] = "join"
    inputs: tuple[int, int]
    on: tuple[str, ...]
    low_us: int = Field(ge=-WITHIN_MAX_US, le=WITHIN_MAX_US)
    high_us: int = Field(ge=-WITHIN_MAX_US, le=WITHIN_MAX_US)
    how: Literal["inner", "left"]


class DistinctOp(Value):
    """The rows of operator `input` before which, for `within_us` microseconds, no row had the same columns `by`. `op`:
    as in `SourceOp`."""

    op: Literal["distinct"] = "distinct"
    input: int
    by: tuple[str, ...]
    within_us: int = Field(ge=1, le=WITHIN_MAX_US)


class TopOp(TimeWindows):
    """The first `limit` rows of each group (`keys`) of a window of operator `input`, in the order `by`, an SQL ORDER BY
    list over its columns. `size_us`, `every_us`, `offset_us`, `zone`: as in `WindowOp`. `op`: as in `SourceOp`."""

    op: Literal["top"] = "top"
    input: int
    size_us: int
    every_us: int
    offset_us: int = 0
    zone: str | None = None
    keys: tuple[str, ...]
    limit: int = Field(ge=1)
    by: str


class OverOp(Value):
    """One row for each row of operator `input`, with `columns` ((name, SQL expression) each) computed over its frame:
    itself and the rows before it that agree in the columns `keys` and came at most `within_us` microseconds before,
    `last` rows at most. `op`: as in `SourceOp`."""

    op: Literal["over"] = "over"
    input: int
    keys: tuple[str, ...]
    last: int = Field(ge=2, le=LAST_MAX)
    within_us: int = Field(ge=1, le=WITHIN_MAX_US)
    columns: tuple[tuple[str, str], ...]


class LookupOp(Value):
    """Each row of the first of `inputs`, with the columns of a table at the row's stime, or nulls. The rows of the
    second one are the table's changes: each replaces the earlier one that agrees in the columns `on`.

    `deleted`: SQL condition over the table's columns: a change for which it is true deletes its key; None: none does.
    `op`: as in `SourceOp`.
    """

    op: Literal["lookup"] = "lookup"
    inputs: tuple[int, int]
    on: tuple[str, ...] = Field(min_length=1)
    deleted: str | None = None


class TableFile(Value):
    """A file with the rows of a table. `path`: the same on every machine. `format`: of its content. `columns`: (name,
    type) each. `sha256`: of its content, in hex; empty: it has not been read yet. `table`: the table's name, for
    messages. `nulls`: of csv, values that are null, as an empty one is."""

    path: str
    format: Literal["csv", "json", "parquet"]
    columns: tuple[tuple[str, str], ...]
    sha256: str = ""
    table: str = ""
    nulls: tuple[str, ...] = ()

    @model_serializer(mode="wrap")
    def _as_before(self, others: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without `nulls` where there are none: such a description is what it was before there could be any."""
        found: dict[str, Any] = others(self)
        if not self.nulls:
            found.pop("nulls", None)
        return found

    @property
    def place(self) -> str:
        """Of the table, for messages."""
        return f"table {self.table!r}, file {self.path}"


class FileLookupOp(Value):
    """Each row of operator `input`, with the columns of the row of `file` that agrees with it in the columns `on`, or
    nulls. `op`: as in `SourceOp`."""

    op: Literal["file_lookup"] = "file_lookup"
    input: int
    on: tuple[str, ...] = Field(min_length=1)
    file: TableFile


class CodeFile(Value):
    """A file of code: functions of an app are in it. `name`: of its module. `path`: where it lay when the app
    was described. `sha256`: of its content, in hex; empty: it has not been read yet."""

    name: str
    path: str
    sha256: str = ""


class Requirement(Value):
    """What a function needs besides its code: `version` of the `distribution` that a top-level `module` is in. Of
    Python itself the module's name is empty."""

    module: str
    distribution: str
    version: str


class Function(Value):
    """A Python function `qualname` of a `module`.

    `files`: of the app; if the module is one of them, all of them count, since they may import each other. Empty: the
    module is installed. `requirements`: empty: not found out yet.
    """

    module: str
    qualname: str
    files: tuple[CodeFile, ...] = ()
    requirements: tuple[Requirement, ...] = ()

    @property
    def name(self) -> str:
        """For messages."""
        return f"{self.module}.{self.qualname}"


class ApplyOp(Value):
    """One row for each row of operator `input`: its columns `keep`, then `columns` ((name, type) each), which
    `function` computes of one bucket's rows at once. `style`: what it takes and returns. `op`: as in `SourceOp`."""

    op: Literal["apply"] = "apply"
    input: int
    function: Function
    keep: tuple[str, ...]
    columns: tuple[tuple[str, str], ...] = Field(min_length=1)
    style: StyleName = "arrow"


class WindowApplyOp(TimeWindows):
    """What `function` makes of the rows of each window and group (`keys`) of operator `input`: `columns` ((name, type)
    each). `size_us`, `every_us`, `offset_us`, `zone`: as in `WindowOp`. `style`: what it takes and returns. `op`: as in
    `SourceOp`."""

    op: Literal["window_apply"] = "window_apply"
    input: int
    size_us: int
    every_us: int
    offset_us: int = 0
    zone: str | None = None
    keys: tuple[str, ...]
    function: Function
    columns: tuple[tuple[str, str], ...] = Field(min_length=1)
    style: StyleName = "arrow"


Op = Annotated[
    SourceOp
    | FilterOp
    | MapOp
    | UnionOp
    | WindowOp
    | CountWindowOp
    | SessionWindowOp
    | CutOp
    | PartOp
    | MergeOp
    | JoinOp
    | DistinctOp
    | TopOp
    | OverOp
    | LookupOp
    | FileLookupOp
    | ApplyOp
    | WindowApplyOp,
    Field(discriminator="op"),
]
Plan = tuple[Op, ...]


def inputs_of(op: Op) -> tuple[int, ...]:
    """The indices of the operators that this one reads."""
    if isinstance(op, SourceOp):
        return ()
    return op.inputs if isinstance(op, UnionOp | MergeOp | JoinOp | LookupOp) else (op.input,)


def columns_of(op: Op) -> tuple[str, ...]:
    """The names of the columns that an operator creates or partitions by."""
    if isinstance(op, MapOp | OverOp):
        return tuple(name for name, _ in op.columns)
    if isinstance(op, WindowOp | CountWindowOp | SessionWindowOp):
        return (*op.keys, *(name for name, _ in op.aggregates))
    if isinstance(op, ApplyOp | WindowApplyOp):
        return (*(op.keep if isinstance(op, ApplyOp) else op.keys), *(name for name, _ in op.columns))
    if isinstance(op, JoinOp | LookupOp | FileLookupOp):
        return op.on
    if isinstance(op, TopOp):
        return op.keys
    return op.by if isinstance(op, PartOp | MergeOp | DistinctOp) else ()


def inlined(fragments: Mapping[str, Plan], ordered: Mapping[str, tuple[str, ...]]) -> Plan:
    """Combine several fragments into one plan that reads only sources: a fragment read by another becomes a `CutOp`.

    Args:
        fragments: plans by node, each after those it reads; the last one gives the result.
        ordered: by node, the columns by which a partitioned node's stream is ordered.
    """
    plan: list[Op] = []
    sources: dict[str, int] = {}
    results: dict[str, int] = {}
    for node, fragment in fragments.items():
        at: list[int] = []
        for op in fragment:
            if isinstance(op, SourceOp) and op.name in results:
                at.append(results[op.name])
                continue
            if isinstance(op, SourceOp) and op.name in sources:
                at.append(sources[op.name])
                continue
            if isinstance(op, SourceOp):
                sources[op.name] = len(plan)
            at.append(len(plan))
            plan.append(moved(op, at))
        result = at[-1]
        if node in ordered:
            plan.append(MergeOp(inputs=(result,), by=ordered[node]))
            result = len(plan) - 1
        results[node] = len(plan)
        plan.append(CutOp(input=result, name=node))
    return tuple(plan[:-1])


def moved(op: Op, at: Sequence[int]) -> Op:
    """The same operator with each input index i replaced by `at[i]`."""
    if isinstance(op, SourceOp):
        return op
    if isinstance(op, UnionOp | MergeOp | JoinOp | LookupOp):
        return op.model_copy(update={"inputs": tuple(at[i] for i in op.inputs)})
    return op.model_copy(update={"input": at[op.input]})
