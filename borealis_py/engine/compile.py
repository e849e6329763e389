"""From a node's plan to operators: expressions checked and typed, stateless chains fused into one statement each.

Everything that can be wrong with one is found here, when it is loaded, as a QueryError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa

from borealis_py.engine import aggregates as agg
from borealis_py.engine.duck import REFUSALS, Duck, Statement, first_line, with_feed
from borealis_py.engine.expressions import (
    Expression,
    ExpressionPlace,
    Tree,
    bound,
    check_outside,
    describe,
    parse,
    sql_of,
)
from borealis_py.engine.operators import (
    MergeOperator,
    PartitionFilter,
    SourceOperator,
    StatementOperator,
    UnionOperator,
    WindowOperator,
)
from borealis_py.engine.partitioner import KEY_TYPES
from borealis_py.engine.rows import column_type, segment_schema
from borealis_py.query.errors import QueryError
from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START, base_name
from borealis_py.query.plan import (
    CutOp,
    FilterOp,
    MapOp,
    MergeOp,
    Op,
    PartOp,
    SourceOp,
    UnionOp,
    WindowOp,
    inputs_of,
)
from borealis_py.query.spec import AppSpec

Sql = Callable[[str], str]
Operator = SourceOperator | PartitionFilter | MergeOperator | UnionOperator | StatementOperator | WindowOperator

_INT = pa.int64()


@dataclass(frozen=True)
class Relation:
    """Rows of operator `slot` seen through a chain of filters and maps: `sql(feed)`; None where there is no chain."""

    slot: int
    base: pa.Schema
    schema: pa.Schema
    chain: Sql | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.schema.names)

    def select(self, feed: str) -> str:
        return self.chain(feed) if self.chain else f"SELECT * FROM {feed}"


@dataclass(frozen=True)
class Compiled:
    """Operators in topological order, the last one's rows are the result. `inputs`: their rows' schemas."""

    operators: tuple[Operator, ...]
    schema: pa.Schema
    inputs: Mapping[str, pa.Schema]


def compile_plan(app: AppSpec, name: str, duck: Duck) -> Compiled:
    """Compile one node. Raises QueryError."""
    return _Compiler(app, name, _known(app, name), duck).run()


def _known(app: AppSpec, name: str) -> dict[str, pa.Schema]:
    """Rows of every source, as declared, and of every node upstream, found by compiling it."""
    known = {source: segment_schema(columns) for source, columns in app.sources.items()}
    *upstream, _ = app.upstream_of(name)
    if upstream:
        duck = Duck()
        try:
            for node in upstream:
                known[node] = _Compiler(app, node, known, duck).run().schema
        finally:
            duck.close()
    return known


def q(name: str) -> str:
    """An identifier in SQL."""
    return '"' + name.replace('"', '""') + '"'


class _Compiler:
    def __init__(self, app: AppSpec, name: str, known: Mapping[str, pa.Schema], duck: Duck) -> None:
        self.app, self._spec, self._known, self._duck = app, app.node(name), known, duck
        self.node = name  # of the operator being compiled: a flattened plan has several nodes' one after the other
        self._nodes = _owners(self._spec.plan, name)
        self._operators: list[Operator] = []
        self._relations: list[Relation] = []
        self._uses = [0] * len(self._spec.plan)
        for op in self._spec.plan:
            for i in inputs_of(op):
                self._uses[i] += 1

    @property
    def label(self) -> str:
        return self.app.label(self.node)

    def run(self) -> Compiled:
        for number, op in enumerate(self._spec.plan):
            self.node = self._nodes[number]
            relation = self._relation(op)
            last = number == len(self._spec.plan) - 1
            # A chain that several operators read is computed once; the result's is computed at the end.
            self._relations.append(self._materialised(relation) if last or self._uses[number] > 1 else relation)
        if self._spec.exchange is not None:
            self._keyed(self._relations[-1], self._spec.exchange.by)
        inputs = {name: self._known[name] for name in self._spec.inputs}
        return Compiled(tuple(self._operators), self._relations[-1].schema, inputs)

    def _relation(self, op: Op) -> Relation:
        if isinstance(op, SourceOp):
            return self._add(SourceOperator(self._spec.inputs.index(op.name)), self._known[op.name])
        if isinstance(op, UnionOp):
            return self._union(op)
        if isinstance(op, FilterOp):
            return self._filter(op, self._relations[op.input])
        if isinstance(op, MapOp):
            return self._map(op, self._relations[op.input])
        if isinstance(op, CutOp):
            return self._materialised(self._relations[op.input])
        if isinstance(op, PartOp):
            whole = self._keyed(self._relations[op.input], op.by)
            return self._add(PartitionFilter(whole.slot, op.by, op.count, op.index), whole.schema)
        if isinstance(op, MergeOp):
            parts = [self._keyed(self._relations[i], op.by) for i in op.inputs]
            return self._add(MergeOperator(tuple(r.slot for r in parts), op.by), parts[0].schema)
        return self._window(op, self._relations[op.input])

    def _add(self, operator: Operator, schema: pa.Schema) -> Relation:
        self._operators.append(operator)
        return Relation(len(self._operators) - 1, schema, schema)

    def _materialised(self, relation: Relation) -> Relation:
        if relation.chain is None:
            return relation
        statement = self.statement(relation.select, relation.base, self.label)
        return self._add(StatementOperator(base_name(self.node), relation.slot, statement), relation.schema)

    def _keyed(self, relation: Relation, by: Sequence[str]) -> Relation:
        for name in by:
            kind = relation.schema.field(name).type
            if kind not in KEY_TYPES:
                raise QueryError(
                    f"{self.label}: its rows are partitioned by {name!r}, a {kind}; a key is one value: partition by "
                    "another column, or make one with map()"
                )
        return self._materialised(relation)

    def _union(self, op: UnionOp) -> Relation:
        inputs = [self._materialised(self._relations[i]) for i in op.inputs]
        first = inputs[0].schema
        for other in inputs[1:]:
            for field in first:
                theirs = other.schema.field(field.name).type
                if theirs != field.type:
                    raise QueryError(
                        f"union of {self.label}: column {field.name!r} is {field.type} in one input and "
                        f"{theirs} in another; make them alike with map()"
                    )
        return self._add(UnionOperator(tuple(r.slot for r in inputs), tuple(first.names)), first)

    def _filter(self, op: FilterOp, source: Relation) -> Relation:
        expression = parse(op.predicate, ExpressionPlace(self.label, "filter", source.columns), aggregate=False)
        predicate = sql_of(expression)
        kind = self.type_of(source, predicate, expression)
        if kind != "BOOLEAN":
            raise expression.error(f"a filter must be true or false, this is {kind}")
        predicate = sql_of(self.guarded(source, expression))
        self.probe(source, predicate, expression)
        chain: Sql = lambda feed: f"SELECT * FROM ({source.select(feed)}) WHERE {predicate}"  # noqa: E731
        return Relation(source.slot, source.base, source.schema, chain)

    def _map(self, op: MapOp, source: Relation) -> Relation:
        selected, fields = [], []
        for name, text in op.columns:
            place = ExpressionPlace(self.label, f"map({name})", source.columns)
            expression = parse(text, place, aggregate=False)
            sql = sql_of(expression)
            cast, arrow = self.column(self.type_of(source, sql, expression), expression)
            sql = sql_of(self.guarded(source, expression))
            self.probe(source, sql, expression)
            selected.append(f"CAST({sql} AS {cast}) AS {q(name)}")
            fields.append(pa.field(name, arrow))
        columns = ", ".join([*selected, f"r.{q(STIME)}"])
        chain: Sql = lambda feed: f"SELECT {columns} FROM ({source.select(feed)}) r"  # noqa: E731
        schema = pa.schema([*fields, pa.field(STIME, _INT)])
        return Relation(source.slot, source.base, schema, chain)

    def _window(self, op: WindowOp, source: Relation) -> Relation:
        expressions = [
            parse(text, ExpressionPlace(self.label, f"agg({name})", source.columns), aggregate=True)
            for name, text in op.aggregates
        ]
        for expression in expressions:
            check_outside(expression, op.keys)
        builder = _WindowBuilder(self, op, source, expressions)
        operator = builder.build()
        return self._add(operator, operator.schema)

    def probe(self, source: Relation, sql: str, expression: Expression, group: str = "") -> None:
        """Find what fails whatever the row: `i > 'abc'`. One row of nulls and one of plain values are tried alone."""
        errors = []
        for row in (_null_row(source.schema), _plain_row(source.schema)):

            def run(connection: duckdb.DuckDBPyConnection, feed: str) -> None:
                connection.execute(f"SELECT {sql} FROM {feed}{group}").fetchall()

            try:
                with_feed(self._duck, source.schema, run, row)
                return
            except REFUSALS as exc:
                errors.append(first_line(exc))
        raise expression.error(f"fails for every row: {errors[-1]}")

    def type_of(self, source: Relation, sql: str, expression: Expression, group: str = "") -> str:
        """DuckDB's type of an expression over a relation. Raises the user's error."""

        def bind(connection: duckdb.DuckDBPyConnection, feed: str) -> str:
            return describe(connection, f"SELECT {sql} AS c FROM ({source.select(feed)}){group}", expression.error)["c"]

        return with_feed(self._duck, source.base, bind)

    def guarded(self, source: Relation, expression: Expression, group: str = "") -> Expression:
        """The expression as it runs: what one value can make the engine do is bounded."""

        def kind(sql: str, aggregated: bool) -> str:
            return self.type_of(source, sql, expression, group if aggregated else "")

        def plan(sql: str, columns: str, aggregated: bool) -> str:
            def bind(connection: duckdb.DuckDBPyConnection, feed: str) -> str:
                rows = f"SELECT {columns} FROM ({source.select(feed)}){group if aggregated else ''}"
                return bound(connection, f"SELECT {sql} FROM ({rows})", expression.error)

            return with_feed(self._duck, source.base, bind)

        return expression.guarded(kind, plan)

    def column(self, duck_type: str, expression: Expression) -> tuple[str, pa.DataType]:
        found = column_type(duck_type)
        if found is None:
            raise expression.error(
                f"its type is {duck_type}, columns are string, int64, double or bool (or lists of them); "
                "CAST it, or take epoch_us(...) of a time"
            )
        return found

    def statement(self, sql: Sql, schema: pa.Schema, where: str) -> Statement:
        try:
            return self._duck.statement(sql, schema)
        except REFUSALS as exc:
            raise QueryError(f"{where}: {first_line(exc)}") from exc


class _WindowBuilder:
    """One window operator: chooses partials or rows, writes the statements."""

    def __init__(self, compiler: _Compiler, op: WindowOp, source: Relation, expressions: list[Expression]) -> None:
        self._c, self._op, self._source, self._expressions = compiler, op, source, expressions
        self._keys = [q(k) for k in op.keys]
        self._group = _group_by(self._keys)

    def build(self) -> WindowOperator:
        c, op = self._c, self._op
        for expression in self._expressions:  # the user's own words first: type errors are about them
            c.type_of(self._source, sql_of(expression), expression, self._group)
        self._expressions = [c.guarded(self._source, e, self._group) for e in self._expressions]
        for expression in self._expressions:
            c.probe(self._source, sql_of(expression), expression, self._group)
        calls = agg.Calls()
        outers = [calls.outer(e) for e in self._expressions]
        types = [self._argument_type(tree) for tree in calls.trees]
        found = [agg.decompose(tree, kind) for tree, kind in zip(calls.trees, types, strict=True)]
        parts = [d for d in found if d is not None]
        positions = len(parts) != len(found)
        collect: Statement | None
        columns: tuple[str, ...] = ()
        if positions:
            collect, columns, partial_schema = self._rows()
            inner = [agg.over_rows(tree, kind) for tree, kind in zip(calls.trees, types, strict=True)]
        else:
            collect, inner = self._partials(parts)
            partial_schema = collect.output.remove(0)
        feed_schema = partial_schema.insert(0, pa.field(agg.WINDOW, _INT))
        feed_schema = feed_schema.append(pa.field(agg.POSITION, _INT)) if positions else feed_schema
        close, fields = self._close(inner, outers, feed_schema)
        schema = pa.schema([(WINDOW_START, _INT), (WINDOW_END, _INT), *fields, (STIME, _INT)])
        bucket = c.app.bucket_us
        return WindowOperator(
            node=base_name(c.node),
            input=self._source.slot,
            size=op.size_us // bucket,
            every=op.every_us // bucket,
            width_us=bucket,
            keys=op.keys,
            columns=columns,
            collect=collect,
            close=close,
            rank=self._rank(partial_schema),
            positions=positions,
            partial_schema=partial_schema,
            schema=schema,
        )

    def _argument_type(self, call: Tree) -> str:
        sql = agg.argument(call)
        return self._c.type_of(self._source, sql, self._expressions[0]) if sql else ""

    def _partials(self, parts: list[agg.Decomposed]) -> tuple[Statement, list[str]]:
        by, inner = [agg.BUCKET, *self._keys], []
        selected = list(by)
        for part in parts:
            names = [f"__p{len(selected) + i}" for i in range(len(part.parts))]
            selected += [f"{sql} AS {name}" for sql, name in zip(part.parts, names, strict=True)]
            inner.append(part.combine(names))
        columns, group, order = ", ".join(selected), _group_by(by), _order_by(by)
        sql: Sql = lambda feed: f"SELECT {columns} FROM ({self._bucketed(feed)}){group}{order}"  # noqa: E731
        return self._c.statement(sql, self._source.base, self._where), inner

    def _bucketed(self, feed: str) -> str:
        """The window's rows with their bucket in front."""
        width = self._c.app.bucket_us
        return f"SELECT {q(STIME)} // {width} AS {agg.BUCKET}, * FROM ({self._source.select(feed)})"

    def _rows(self) -> tuple[Statement | None, tuple[str, ...], pa.Schema]:
        used = set(self._op.keys).union(*(e.columns() for e in self._expressions))
        columns = tuple(n for n in self._source.schema.names if n in used) or (STIME,)
        schema = pa.schema([self._source.schema.field(n) for n in columns])
        if self._source.chain is None:
            return None, columns, schema
        selected = ", ".join([agg.BUCKET, *(q(n) for n in columns)])
        sql: Sql = lambda feed: f"SELECT {selected} FROM ({self._bucketed(feed)})"  # noqa: E731
        return self._c.statement(sql, self._source.base, self._where), columns, schema

    def _close(self, inner: list[str], outers: list[str], feed: pa.Schema) -> tuple[Statement, list[pa.Field]]:
        by = [agg.WINDOW, *self._keys]
        combined = ", ".join([*by, *(f"{sql} AS __a{i}" for i, sql in enumerate(inner))])
        nested: Sql = lambda name: f"SELECT {combined} FROM {name}{_group_by(by)}"  # noqa: E731
        selected, fields = list(by), [feed.field(k) for k in self._op.keys]
        relation = Relation(-1, feed, feed, nested)
        for expression, (name, _), outer in zip(self._expressions, self._op.aggregates, outers, strict=True):
            kind = self._c.type_of(relation, outer, expression)
            cast, arrow = self._c.column(kind, expression)
            selected.append(f"CAST({outer} AS {cast}) AS {q(name)}")
            fields.append(pa.field(name, arrow))
        columns = ", ".join(selected)
        sql: Sql = lambda name: f"SELECT {columns} FROM ({nested(name)}){_order_by(by)}"  # noqa: E731
        return self._c.statement(sql, feed, self._where), fields

    def _rank(self, partial: pa.Schema) -> Statement | None:
        if not self._op.keys:
            return None
        schema = pa.schema([*(partial.field(k) for k in self._op.keys), (agg.POSITION, _INT)])
        over = _order_by(self._keys)
        sql: Sql = lambda feed: f"SELECT {agg.POSITION}, dense_rank() OVER ({over}) - 1 FROM {feed}"  # noqa: E731
        return self._c.statement(sql, schema, self._where)

    @property
    def _where(self) -> str:
        return f"window of {self._c.label}"


def _group_by(columns: Sequence[str]) -> str:
    return f" GROUP BY {', '.join(columns)}" if columns else ""


def _order_by(columns: Sequence[str]) -> str:
    return " ORDER BY " + ", ".join(f"{k} ASC NULLS LAST" for k in columns)


def _owners(plan: Sequence[Op], name: str) -> list[str]:
    """The node of each operator: the one whose cut comes next, else `name`."""
    owners = []
    for op in reversed(plan):
        name = op.name if isinstance(op, CutOp) else name
        owners.append(name)
    return owners[::-1]


def _null_row(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(1, f.type) for f in schema], schema=schema)


def _plain_row(schema: pa.Schema) -> pa.RecordBatch:
    plain: dict[pa.DataType, object] = {pa.string(): "1", pa.int64(): 1, pa.float64(): 1.0, pa.bool_(): True}
    arrays = [pa.array([plain.get(f.type, [])], f.type) for f in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
