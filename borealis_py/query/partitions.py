"""Partitioned nodes: which ones are valid, and their expansion into one physical node per partition.

Each partition is a node of its own, with its own frontiers, control log, grant and checkpoints, so that the failure or
redo of one does not affect the others (Flux: Shah et al., SIGMOD 2004, section 5). It selects its rows of a source by
key; its readers read the streams of all partitions and merge them into an order that does not depend on the number of
partitions (`MergeOp`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from borealis_py.query.errors import QueryError, unknown_column
from borealis_py.query.names import STIME, part_name
from borealis_py.query.plan import (
    ApplyOp,
    CountWindowOp,
    DistinctOp,
    JoinOp,
    LookupOp,
    MapOp,
    MergeOp,
    Op,
    OverOp,
    PartOp,
    Plan,
    SessionWindowOp,
    SourceOp,
    TopOp,
    UnionOp,
    WindowApplyOp,
    WindowOp,
    moved,
)
from borealis_py.query.spec import AppSpec, N, Partitioning

PARTITIONS_MAX = 64


def checked(count: object, by: object, result: Sequence[str], where: str) -> Partitioning | None:
    """The partitioning that `partitions=` and `by=` of a node or query define; None: not partitioned.

    Args:
        result: the columns of the node's result.

    Raises:
        QueryError: one argument without the other, an invalid number, or an unknown column.
    """
    if count is None and by is None:
        return None
    if count is None or by is None:
        raise QueryError(f'{where}: partitions and by go together: partitions=4, by="carrier"')
    number = checked_count(count, where)
    columns = (by,) if isinstance(by, str) else by
    if not isinstance(columns, Sequence) or not columns or not all(isinstance(c, str) for c in columns):
        raise QueryError(f"{where}: by={by!r}; give the name of a column, or several")
    known = {c.lower(): c for c in result}
    for column in columns:
        if column.lower() == STIME:
            raise QueryError(f"{where}: by={STIME!r} would spread every key over all partitions; choose a key column")
        if column.lower() not in known:
            raise unknown_column(column, f"by of {where}", result)
    if len({c.lower() for c in columns}) < len(columns):
        raise QueryError(f"{where}: by={by!r} names a column twice")
    return Partitioning(by=tuple(known[c.lower()] for c in columns), count=number)


def checked_count(count: object, where: str) -> int:
    """Check a number of partitions. Raises QueryError."""
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= PARTITIONS_MAX:
        raise QueryError(f"{where}: partitions={count!r}; choose 1 to {PARTITIONS_MAX}")
    return count


def checked_replicas(replicas: object, where: str) -> int:
    """The number of replicas of a node. Raises QueryError."""
    if isinstance(replicas, bool) or not isinstance(replicas, int) or not 1 <= replicas <= 9:
        raise QueryError(f"{where}: replicas={replicas!r}; choose 1 to 9")
    return replicas


def check_keys(plan: Plan, by: Iterable[str], columns: Sequence[Sequence[str]], where: str) -> None:
    """Check that partitioning changes no result: rows that are combined agree in the columns `by`.

    Args:
        columns: of each operator's rows.

    Raises:
        QueryError: an operator of the plan lacks one of the columns, changes it, or groups without it.
    """
    checked = sorted(zip(plan, columns, strict=True), key=lambda one: not isinstance(one[0], JoinOp | LookupOp))
    for op, has in checked:  # a join or lookup first: what it is not on may well be missing on one side
        for key in by:
            _check_key(op, key, has, where)


def _check_key(op: Op, key: str, has: Sequence[str], where: str) -> None:
    if isinstance(op, JoinOp) and key not in op.on:
        raise QueryError(
            f"{where} is partitioned by {key!r}, but a join of it is on ({', '.join(op.on)}): the rows of a pair would "
            f"be in different partitions. Partition by a column that it joins on, or use .node() to cut the join off"
        )
    if isinstance(op, LookupOp) and key not in op.on:
        raise QueryError(
            f"{where} is partitioned by {key!r}, but a lookup of it is on ({', '.join(op.on)}): a row and what it "
            f"looks up would be in different partitions. Partition by a column of the table's key, or use .node() to "
            f"cut the lookup off"
        )
    if isinstance(op, DistinctOp) and key not in op.by:
        raise QueryError(
            f"{where} is partitioned by {key!r}, but distinct({', '.join(op.by)}) of it compares rows that would be in "
            f"different partitions. Partition by a column of distinct(), or use .node() to cut it off"
        )
    if isinstance(op, OverOp) and key not in op.keys:
        raise QueryError(
            f"{where} is partitioned by {key!r}, but over({', '.join(op.keys)}) of it puts rows together that would be "
            f"in different partitions. Add {key!r} to over(), or use .node() to cut it off"
        )
    if isinstance(op, WindowOp | CountWindowOp | SessionWindowOp | TopOp | WindowApplyOp) and key not in op.keys:
        keys = f"({', '.join(op.keys)})" if op.keys else "all rows together"
        raise QueryError(
            f"{where} is partitioned by {key!r}, but a window of it groups {keys}: the rows of a group would be in "
            f"several partitions. Add {key!r} to group_by(), or use .node() and partition only what is grouped by it"
        )
    if isinstance(op, ApplyOp) and key not in op.keep:
        raise QueryError(
            f"{where} is partitioned by {key!r}, but apply({op.function.name}) of it does not keep that column: a "
            f"function could change it. Pass keep=({key!r}, ...), which copies it from the row"
        )
    if isinstance(op, MapOp | OverOp) and not _keeps(dict(op.columns).get(key, "").strip(), key):
        raise QueryError(
            f"{where} is partitioned by {key!r}, but a map of it drops or changes that column: keep it with "
            f"map({key}={_kept(key)!r}, ...), or cut with .node() after the map"
        )
    if isinstance(op, SourceOp) and key not in has:
        raise QueryError(
            f"{where} is partitioned by {key!r}, but {op.name!r}, which it reads, has no such column "
            f"({', '.join(has)}): cut with .node() after the operator that creates it, and partition what follows"
        )


VALUES = frozenset({"true", "false", "null"})
"""Column names that are values in SQL unless they are quoted."""


def _kept(key: str) -> str:
    """An expression that is the column as it was."""
    return f'"{key}"' if key.lower() in VALUES else key


def _keeps(expression: str, key: str) -> bool:
    return expression.lower() in (_kept(key).lower(), f'"{key.lower()}"')


def physical(app: AppSpec) -> AppSpec:
    """The app as it runs: each partition is a separate node or source. Without partitions the app is returned
    unchanged.
    """
    if not app.source_partitions and not any(node.partitions for node in app.all_nodes.values()):
        return app
    return AppSpec(
        name=app.name,
        bucket_us=app.bucket_us,
        sources={part: columns for name, columns in app.sources.items() for part in source_parts(app, name)},
        nodes={part: node for name, spec in app.nodes.items() for part, node in _parts(app, name, spec)},
        queries={part: query for name, spec in app.queries.items() for part, query in _parts(app, name, spec)},
        retain=app.retain,
        beginnings=app.beginnings,
        input_names={
            part_name(source, i): part_name(source, name)
            for source, ingress in app.ingresses.items()
            for i, name in enumerate(ingress.input_names() if ingress.by is not None else ())
        },
    )


def parts_of(app: AppSpec, name: str) -> list[str]:
    """The nodes that run a node or query: one per partition. Raises QueryError for an unknown name."""
    partitions = app.node(name).partitions
    return [name] if partitions is None else [part_name(name, i) for i in range(partitions.count)]


def flattened(app: AppSpec, query: str) -> list[AppSpec]:
    """For each partition of a query, an app of one node that reads only sources and gives the same rows, bit for bit.

    Raises:
        QueryError: an unknown query.
    """
    flat, partitions = app.flattened(query), app.node(query).partitions
    if partitions is None:
        return [physical(flat)]
    spec = flat.query(query)
    found = []
    for index in range(partitions.count):
        op = PartOp(input=len(spec.plan) - 1, by=partitions.by, count=partitions.count, index=index)
        part = spec.model_copy(update={"plan": (*spec.plan, op)})
        found.append(physical(flat.model_copy(update={"queries": {part_name(query, index): part}})))
    return found


def _exchange(app: AppSpec, name: str) -> Partitioning | None:
    """The partitioning of a node's readers, if they all have the same one."""
    readers = [node.partitions for node in app.all_nodes.values() if name in node.inputs]
    return readers[0] if readers and all(p == readers[0] for p in readers) else None


def _parts(app: AppSpec, name: str, spec: N) -> list[tuple[str, N]]:
    spec = spec.model_copy(update={"exchange": _exchange(app, name)})
    if spec.partitions is None:
        return [(name, _rewritten(app, spec, None))]
    count = spec.partitions.count
    parts = ((part_name(name, i), PartOp(input=0, by=spec.partitions.by, count=count, index=i)) for i in range(count))
    return [(part, _rewritten(app, spec, op)) for part, op in parts]


def _rewritten(app: AppSpec, spec: N, part: PartOp | None) -> N:
    """The node on its physical inputs: the streams of all partitions, and only its own part of them."""
    plan: list[Op] = []
    at: list[int] = []
    for op in spec.plan:
        if isinstance(op, SourceOp):
            _read(app, op, plan)
            if part is not None and not (op.name in app.nodes and _exchange(app, op.name)):
                plan.append(part.model_copy(update={"input": len(plan) - 1}))
        else:
            plan.append(moved(op, at))
        at.append(len(plan) - 1)
    if part is not None:
        plan.append(MergeOp(inputs=(len(plan) - 1,), by=part.by))  # each partition is in the order of the whole
    inputs = dict.fromkeys(op.name for op in plan if isinstance(op, SourceOp))
    return spec.model_copy(update={"plan": tuple(plan), "inputs": tuple(inputs), "partitions": None})


def source_parts(app: AppSpec, source: str) -> list[str]:
    count = app.source_partitions.get(source)
    return [source] if count is None else [part_name(source, i) for i in range(count)]


def _read(app: AppSpec, op: SourceOp, plan: list[Op]) -> None:
    first = len(plan)
    if op.name in app.source_partitions:
        plan += [SourceOp(name=part) for part in source_parts(app, op.name)]
        plan.append(UnionOp(inputs=tuple(range(first, len(plan)))))
        return
    of = app.nodes[op.name].partitions if op.name in app.nodes else None
    if of is None:
        plan.append(op)
        return
    plan += [SourceOp(name=part_name(op.name, i)) for i in range(of.count)]
    plan.append(MergeOp(inputs=tuple(range(first, first + of.count)), by=of.by))
