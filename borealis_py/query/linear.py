"""A stream as the plan of a node: what leads to it, down to sources and cuts."""

from __future__ import annotations

from collections.abc import Mapping

from borealis_py.query.partitions import check_keys
from borealis_py.query.plan import (
    ApplyOp,
    CountWindowOp,
    DistinctOp,
    FileLookupOp,
    FilterOp,
    JoinOp,
    LookupOp,
    MapOp,
    Op,
    OverOp,
    Plan,
    SessionWindowOp,
    SourceOp,
    TopOp,
    UnionOp,
    WindowApplyOp,
    WindowOp,
)
from borealis_py.query.spec import Partitioning
from borealis_py.query.stream import Stream

_OPS: Mapping[str, type[Op]] = {
    "source": SourceOp, "filter": FilterOp, "map": MapOp, "union": UnionOp, "window": WindowOp,
    "count_window": CountWindowOp, "session_window": SessionWindowOp, "join": JoinOp, "distinct": DistinctOp,
    "top": TopOp, "over": OverOp, "lookup": LookupOp, "file_lookup": FileLookupOp, "apply": ApplyOp,
    "window_apply": WindowApplyOp,
}  # fmt: skip


def linearised(result: Stream, parts: Partitioning | None, where: str) -> tuple[Plan, tuple[str, ...]]:
    """The operators below `result` down to sources and cuts, inputs first, each once; inputs in order of first use.

    Args:
        parts: how the node is partitioned. where: names the node in messages.

    Raises:
        QueryError: partitioning would change the result.
    """
    at: dict[Stream, int] = {}
    plan: list[Op] = []
    stack = [(result, False)]
    while stack:  # a loop, so that a long chain of operators cannot hit Python's recursion limit
        stream, expanded = stack.pop()
        if stream in at:
            continue
        if not expanded:
            stack.append((stream, True))
            stack.extend((i, False) for i in reversed(stream._inputs))
            continue
        fields = dict(stream._op)
        inputs = tuple(at[i] for i in stream._inputs)
        if stream._op["op"] in ("union", "join", "lookup"):
            fields["inputs"] = inputs
        elif inputs:
            fields["input"] = inputs[0]
        at[stream] = len(plan)
        plan.append(_OPS[fields["op"]](**fields))
    if parts is not None:
        check_keys(tuple(plan), parts.by, [stream.columns for stream in at], where)
    return tuple(plan), tuple(op.name for op in plan if isinstance(op, SourceOp))
