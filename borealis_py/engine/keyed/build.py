"""Compiles a plan's joins, lookups and distincts to their operators: keys checked, columns of the result, how rows are
kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.engine.keyed.distinct import DistinctOperator
from borealis_py.engine.keyed.join import JoinOperator
from borealis_py.engine.keyed.kept_rows import KeptRows, usable
from borealis_py.engine.keyed.kept_table import DELETED, KeptTable
from borealis_py.engine.keyed.lookup import FileLookupOperator, FoundRows, LookupOperator
from borealis_py.engine.keyed.table_file import rows_of
from borealis_py.engine.sql.duck_statement import Statement
from borealis_py.engine.sql.expressions import ExpressionPlace, parse, sql_of
from borealis_py.engine.sql.statements import Relation, Sql, StatementCompiler, part_of, q
from borealis_py.query.errors import QueryError
from borealis_py.query.names import STIME, base_name
from borealis_py.query.plan import DistinctOp, FileLookupOp, JoinOp, LookupOp
from borealis_py.types.arrow import said, type_of


def join_operator(c: StatementCompiler, op: JoinOp, left: Relation, right: Relation) -> JoinOperator:
    """The operator of a join of these relations, which are operators' rows. Raises QueryError."""
    other_on = _other_keys(c, op, left, right.schema)
    rest = [field for field in right.schema if field.name not in (*other_on, STIME)]
    ours_and_theirs = [*left.schema.remove(len(left.schema) - 1), *rest]
    schema = pa.schema([*ours_and_theirs, pa.field(STIME, pa.int64())])
    width_us, after_us, before_us = c.app.bucket_us, max(op.high_us, 0), -op.low_us
    outer = op.how == "left"
    right_kept = pa.schema([*(right.schema.field(name) for name in other_on), *rest, right.schema.field(STIME)])
    return JoinOperator(
        node=base_name(c.node),
        inputs=(left.slot, right.slot),
        on=op.on,
        other_on=other_on,
        low_us=op.low_us,
        high_us=op.high_us,
        outer=outer,
        hash=hash_statement(c, left.schema, op.on, "join"),
        left=KeptRows.of(left.schema, op.on, after_us, width_us),
        right=KeptRows.of(right_kept, other_on, max(before_us + (after_us if outer else 0), 0), width_us),
        schema=schema,
        row_max_bytes=c.row_max_bytes,
        memory_bytes=c.memory_bytes,
        whole_us=c.whole_us,
    )


def lookup_operator(c: StatementCompiler, op: LookupOp, left: Relation, changes: Relation) -> LookupOperator:
    """The operator of a lookup by these rows, which are operators' rows: the second one's as `with_deletions` gives
    them. Raises QueryError."""
    return LookupOperator((left.slot, changes.slot), _found_rows(c, op, left, changes.schema))


def file_lookup_operator(c: StatementCompiler, op: FileLookupOp, left: Relation) -> FileLookupOperator:
    """The operator of a lookup in a file, which is read here. Raises QueryError."""
    schema = segment_schema(dict(op.file.columns))
    schema = schema.remove(len(schema) - 1)
    found = _found_rows(c, op, left, schema)
    rows = usable(rows_of(op.file, schema), found.kept.by)
    rows = schema.empty_table().to_batches()[0] if rows is None else rows
    deleted = pa.array(np.zeros(rows.num_rows, dtype=bool))
    rows = pa.RecordBatch.from_arrays([*rows.columns, deleted], names=[*rows.schema.names, DELETED])
    block = found.kept.whole(rows, found.hashes(rows))
    if block.num_rows < rows.num_rows:
        keys = list(zip(*(said(rows.column(name)) for name in found.kept.by), strict=True))
        twice = Counter(map(repr, keys)).most_common(1)[0][0]
        raise QueryError(
            f"{op.file.place}: {rows.num_rows - block.num_rows} rows have a key ({', '.join(found.kept.by)}) that is "
            f"there already, such as {twice}; a table has one row for each"
        )
    return FileLookupOperator((left.slot,), found, block)


def _found_rows(c: StatementCompiler, op: LookupOp | FileLookupOp, left: Relation, table: pa.Schema) -> FoundRows:
    by = _other_keys(c, op, left, table)
    columns = pa.schema([field for field in table if field.name not in (DELETED, STIME)])
    rest = [field for field in columns if field.name not in by]
    return FoundRows(
        node=base_name(c.node),
        on=op.on,
        hash=hash_statement(c, left.schema, op.on, "lookup"),
        kept=KeptTable.of(columns, by, c.app.bucket_us),
        schema=pa.schema([*left.schema.remove(len(left.schema) - 1), *rest, pa.field(STIME, pa.int64())]),
        row_max_bytes=c.row_max_bytes,
        memory_bytes=c.memory_bytes,
    )


def with_deletions(c: StatementCompiler, op: LookupOp, source: Relation) -> Relation:
    """The changes of a table, with whether each deletes its key. Raises QueryError."""
    deletes, stages = "false", source.stages
    if op.deleted is not None:
        place = ExpressionPlace(c.label, "deleted of table()", tuple(n for n in source.columns if n != STIME))
        expression = parse(op.deleted, place, aggregate=False)
        kind = c.type_of(source, sql_of(expression), expression)
        if kind != "BOOLEAN":
            raise expression.error(f"a condition must be true or false, this is {kind}")
        deletes = sql_of(c.guarded(source, expression))
        c.probe(source, deletes, expression)
        stages = (*stages, source.stage([part_of(expression, deletes)]))
    added = f"coalesce({deletes}, false) AS {DELETED}"
    chain: Sql = lambda feed: f"SELECT *, {added} FROM ({source.select(feed)})"  # noqa: E731
    schema = source.schema.append(pa.field(DELETED, pa.bool_()))
    return Relation(source.slot, source.base, schema, chain, stages)


def _other_keys(
    c: StatementCompiler, op: JoinOp | LookupOp | FileLookupOp, left: Relation, right: pa.Schema
) -> tuple[str, ...]:
    """The columns `on`, as the right side spells them. Raises QueryError where the types differ."""
    spelled = {name.lower(): name for name in right.names}
    other_on = tuple(spelled[name.lower()] for name in op.on)
    for ours, theirs in zip(op.on, other_on, strict=True):
        one, other = left.schema.field(ours).type, right.field(theirs).type
        if one != other:
            what, there = ("join", "the other") if isinstance(op, JoinOp) else ("lookup", "the table")
            raise QueryError(
                f"{what} of {c.label}: column {ours!r} is {one} in one stream and {other} in {there}; make them alike "
                "with map()"
            )
    return other_on


def distinct_operator(c: StatementCompiler, op: DistinctOp, source: Relation) -> DistinctOperator:
    """The operator of a distinct over an operator's rows. Raises QueryError."""
    columns = pa.schema([*(source.schema.field(name) for name in op.by), source.schema.field(STIME)])
    return DistinctOperator(
        inputs=(source.slot,),
        within_us=op.within_us,
        hash=hash_statement(c, source.schema, op.by, "distinct"),
        kept=KeptRows.of(columns, op.by, op.within_us, c.app.bucket_us),
    )


def is_key(kind: pa.DataType) -> bool:
    """Whether values of this type can be compared and sorted as keys: single ones, not lists."""
    return type_of(kind) is not None


def hash_statement(c: StatementCompiler, schema: pa.Schema, by: Sequence[str], what: str) -> Statement:
    """Hashes the columns `by` of rows. Raises QueryError where one of them is no key of `what`."""
    for name in by:
        kind = schema.field(name).type
        if not is_key(kind):
            raise QueryError(
                f"{what} of {c.label}: column {name!r} is a {kind}; a key is one value: take another column, or make "
                "one with map()"
            )
    columns = ", ".join(q(name) for name in by)
    keys = pa.schema([schema.field(name) for name in by])
    return c.statement(lambda feed: f"SELECT hash({columns}) FROM {feed}", keys, f"{what} of {c.label}")
