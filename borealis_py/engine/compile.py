"""Compiles a node's plan to operators: expressions checked and typed, stateless chains fused into one statement each.

Everything that can be wrong with a plan is found here, when it is loaded, and raised as a QueryError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from borealis_py.engine.applied.build import apply_operator
from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.engine.keyed.build import (
    distinct_operator,
    file_lookup_operator,
    join_operator,
    lookup_operator,
    with_deletions,
)
from borealis_py.engine.keyed.frames import OverCompiler
from borealis_py.engine.keyed.key_window_build import KeyWindowCompiler
from borealis_py.engine.keyed.top import TopCompiler
from borealis_py.engine.operators.base import (
    MergeOperator,
    Operator,
    PartitionFilter,
    SourceOperator,
    StatementOperator,
    UnionOperator,
)
from borealis_py.engine.operators.windows import WindowCompiler, window_times
from borealis_py.engine.sql.duck_statement import Duck
from borealis_py.engine.sql.expressions import (
    ExpressionPlace,
    check_outside,
    parse,
    sql_of,
)
from borealis_py.engine.sql.statements import Relation, Sql, StatementCompiler, part_of, q
from borealis_py.query.errors import QueryError
from borealis_py.query.functions import CodeStore
from borealis_py.query.names import STIME, base_name
from borealis_py.query.plan import (
    ApplyOp,
    CountWindowOp,
    CutOp,
    DistinctOp,
    FileLookupOp,
    FilterOp,
    JoinOp,
    LookupOp,
    MapOp,
    MergeOp,
    Op,
    OverOp,
    PartOp,
    SessionWindowOp,
    SourceOp,
    TopOp,
    UnionOp,
    WindowApplyOp,
    WindowOp,
    inputs_of,
)
from borealis_py.query.spec import AppSpec
from borealis_py.query.wholeness import left_out_until
from borealis_py.types.arrow import spelled, type_of

_INT = pa.int64()


@dataclass(frozen=True)
class Compiled:
    """A node's `operators` in topological order; the last one's rows are the result, with columns `schema`. `inputs`:
    schema of each input's rows, by the name of the source or node."""

    operators: tuple[Operator, ...]
    schema: pa.Schema
    inputs: Mapping[str, pa.Schema]


def compile_plan(app: AppSpec, name: str, duck: Duck, code: CodeStore | None = None) -> Compiled:
    """Compile one node. `code`: as for `kernel.compile_query`. Raises QueryError."""
    return _Compiler(app, name, _known(app, name), duck, code).run()


def _known(app: AppSpec, name: str) -> dict[str, pa.Schema]:
    """Schemas of every source, as declared, and of every upstream node, found by compiling it."""
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


class _Compiler(StatementCompiler):
    def __init__(
        self, app: AppSpec, name: str, known: Mapping[str, pa.Schema], duck: Duck, code: CodeStore | None = None
    ) -> None:
        super().__init__(app, name, duck)
        self._code = code
        self._spec = app.node(name)
        self._known = known
        self.node = name  # of the operator being compiled: a flattened plan contains several nodes in sequence
        self._nodes = _owners(self._spec.plan, name)
        self._operators: list[Operator] = []
        self._relations: list[Relation] = []
        self._uses = [0] * len(self._spec.plan)
        for op in self._spec.plan:
            for i in inputs_of(op):
                self._uses[i] += 1

    def run(self) -> Compiled:
        width = self.app.bucket_us
        bounds = left_out_until(self.app, self.node, lambda op, since: window_times(self, op).last_end(since, width))
        for number, op in enumerate(self._spec.plan):
            self.node, self.whole_us = self._nodes[number], bounds[number]
            relation = self._relation(op)
            last = number == len(self._spec.plan) - 1
            # A chain that several operators read is computed once; the result's is computed last.
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
            return self._add(PartitionFilter((whole.slot,), op.by, op.count, op.index), whole.schema)
        if isinstance(op, MergeOp):
            parts = [self._keyed(self._relations[i], op.by) for i in op.inputs]
            return self._add(MergeOperator(tuple(r.slot for r in parts), op.by), parts[0].schema)
        if isinstance(op, JoinOp):
            left, right = (self._materialised(self._relations[i]) for i in op.inputs)
            joined = join_operator(self, op, left, right)
            return self._add(joined, joined.schema)
        if isinstance(op, LookupOp):
            rows, table = self._relations[op.inputs[0]], with_deletions(self, op, self._relations[op.inputs[1]])
            found = lookup_operator(self, op, self._materialised(rows), self._materialised(table, partial=True))
            return self._add(found, found.found.schema)
        if isinstance(op, FileLookupOp):
            beside = file_lookup_operator(self, op, self._materialised(self._relations[op.input]))
            return self._add(beside, beside.found.schema)
        if isinstance(op, DistinctOp):
            rows = self._materialised(self._relations[op.input])
            return self._add(distinct_operator(self, op, rows), rows.schema)
        if isinstance(op, TopOp):
            top = TopCompiler(self, op, self._relations[op.input]).build()
            return self._add(top, top.schema)
        if isinstance(op, OverOp):
            frames = OverCompiler(self, op, self._relations[op.input])
            over = frames.build(self._materialised(frames.arguments(), partial=True))
            return self._add(over, over.schema)
        if isinstance(op, ApplyOp | WindowApplyOp):
            applied = apply_operator(self, op, self._materialised(self._relations[op.input]), self._code)
            return self._add(applied, applied.schema)
        return self._window(op, self._relations[op.input])

    def _add(self, operator: Operator, schema: pa.Schema) -> Relation:
        self._operators.append(operator)
        return Relation(len(self._operators) - 1, schema, schema)

    def _materialised(self, relation: Relation, partial: bool = False) -> Relation:
        """The relation as an operator's rows. `partial`: they have columns of ours beside a row, and may be larger."""
        if relation.chain is None:
            return relation
        statement = self.statement(relation.select, relation.base, self.label, partial, relation.stages)
        return self._add(StatementOperator(base_name(self.node), (relation.slot,), statement), relation.schema)

    def _keyed(self, relation: Relation, by: Sequence[str]) -> Relation:
        for name in by:
            kind = relation.schema.field(name).type
            if type_of(kind) is None:
                raise QueryError(
                    f"{self.label}: its rows are partitioned by {name!r}, a {spelled(kind)}; a key is one value: "
                    "partition by another column, or make one with map()"
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
                        f"union of {self.label}: column {field.name!r} is {spelled(field.type)} in one input and "
                        f"{spelled(theirs)} in another; make them alike with map()"
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
        stages = (*source.stages, source.stage([part_of(expression, predicate)]))
        return Relation(source.slot, source.base, source.schema, chain, stages)

    def _map(self, op: MapOp, source: Relation) -> Relation:
        selected, fields, parts = [], [], []
        for name, text in op.columns:
            place = ExpressionPlace(self.label, f"map({name})", source.columns)
            expression = parse(text, place, aggregate=False)
            sql = sql_of(expression)
            cast, arrow = self.column(self.type_of(source, sql, expression), expression)
            sql = sql_of(self.guarded(source, expression))
            self.probe(source, sql, expression)
            parts.append(part_of(expression, f"CAST({sql} AS {cast})"))
            selected.append(f"CAST({sql} AS {cast}) AS {q(name)}")
            fields.append(pa.field(name, arrow))
        columns = ", ".join([*selected, f"r.{q(STIME)}"])
        chain: Sql = lambda feed: f"SELECT {columns} FROM ({source.select(feed)}) r"  # noqa: E731
        schema = pa.schema([*fields, pa.field(STIME, _INT)])
        return Relation(source.slot, source.base, schema, chain, (*source.stages, source.stage(parts)))

    def _window(self, op: WindowOp | CountWindowOp | SessionWindowOp, source: Relation) -> Relation:
        expressions = [
            parse(text, ExpressionPlace(self.label, f"agg({name})", source.columns), aggregate=True)
            for name, text in op.aggregates
        ]
        for expression in expressions:
            check_outside(expression, op.keys)
        if isinstance(op, WindowOp):
            operator = WindowCompiler(self, op, source, expressions).build()
            return self._add(operator, operator.schema)
        windows = KeyWindowCompiler(self, op, self._materialised(source), expressions).build()
        return self._add(windows, windows.schema)


def _owners(plan: Sequence[Op], name: str) -> list[str]:
    """The node of each operator: that of the next cut, or `name` if there is none."""
    owners = []
    for op in reversed(plan):
        name = op.name if isinstance(op, CutOp) else name
        owners.append(name)
    return owners[::-1]
