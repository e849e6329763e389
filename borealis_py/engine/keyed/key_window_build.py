"""Compiles a plan's count and session windows to their operator: which columns are kept, and the statement that closes
windows.
"""

from __future__ import annotations

import pyarrow as pa

from borealis_py.engine.keyed.build import hash_statement
from borealis_py.engine.keyed.key_windows import KeyWindowOperator
from borealis_py.engine.keyed.open_rows import START, OpenRows
from borealis_py.engine.keyed.window_rules import CountRule, SessionRule, WindowRule
from borealis_py.engine.operators import aggregates as agg
from borealis_py.engine.operators.windows import AggregateCompiler
from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START, base_name
from borealis_py.query.plan import CountWindowOp, SessionWindowOp

_INT = pa.int64()


class KeyWindowCompiler(AggregateCompiler):
    """Compiles one operator over rows of another one."""

    _op: CountWindowOp | SessionWindowOp

    def build(self) -> KeyWindowOperator:
        """Raises QueryError."""
        c, op = self._c, self._op
        self._check()
        calls = agg.Calls()
        outers = [calls.outer(expression) for expression in self._expressions]
        inner = [agg.over_rows(tree, self._argument_type(tree)) for tree in calls.trees]
        columns = [self._source.schema.field(name) for name in self._columns()]
        feed = pa.schema([(agg.WINDOW, _INT), (START, _INT), *columns, (agg.POSITION, _INT)])
        close, fields = self._close(inner, outers, feed, (agg.WINDOW, START))
        kept = pa.schema([field for field in columns if field.name != STIME])
        return KeyWindowOperator(
            node=base_name(c.node),
            inputs=(self._source.slot,),
            kept=OpenRows.of(kept, op.keys, c.app.bucket_us, _rule(op)),
            hash=hash_statement(c, self._source.schema, op.keys, "window") if op.keys else None,
            close=close,
            rank=self._rank(kept),
            whole_us=c.whole_us,
            schema=pa.schema([(WINDOW_START, _INT), (WINDOW_END, _INT), *fields, (STIME, _INT)]),
        )


def _rule(op: CountWindowOp | SessionWindowOp) -> WindowRule:
    return CountRule(op.rows) if isinstance(op, CountWindowOp) else SessionRule(op.gap_us, op.most_us)
