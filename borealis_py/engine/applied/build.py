"""Compiles a plan's applies to their operators: functions loaded, columns of the result."""

from __future__ import annotations

import pyarrow as pa

from borealis_py.engine.applied.apply import ApplyOperator, RowFunction
from borealis_py.engine.applied.called import CalledFunction
from borealis_py.engine.applied.loader import load
from borealis_py.engine.applied.window_apply import GroupFunction, WindowApplyOperator
from borealis_py.engine.operators.windows import numbering, window_times
from borealis_py.engine.sql.statements import Relation, StatementCompiler
from borealis_py.query.functions import CodeStore
from borealis_py.query.names import base_name
from borealis_py.query.plan import ApplyOp, WindowApplyOp
from borealis_py.types.arrow import arrow_of


def callable_function(
    op: ApplyOp | WindowApplyOp, rows: pa.Schema, code: CodeStore | None, row_max_bytes: int
) -> RowFunction | GroupFunction:
    """The function of an operator over rows with columns `rows`. `code`: None: it will not be called. Raises
    FunctionDiffers."""
    call = None if code is None else load(op.function, code)
    columns = [(name, arrow_of(kind)) for name, kind in op.columns]
    called = CalledFunction(op.function, call, columns, op.style, row_max_bytes)
    if isinstance(op, ApplyOp):
        return RowFunction(called, op.keep, rows, row_max_bytes)
    return GroupFunction(called, op.keys, rows, row_max_bytes)


def apply_operator(
    c: StatementCompiler, op: ApplyOp | WindowApplyOp, source: Relation, code: CodeStore | None
) -> ApplyOperator | WindowApplyOperator:
    """The operator of a function over an operator's rows. Raises QueryError, FunctionDiffers."""
    function, node = callable_function(op, source.schema, code, c.row_max_bytes), base_name(c.node)
    if isinstance(op, ApplyOp):
        assert isinstance(function, RowFunction)
        return ApplyOperator(node, (source.slot,), function)
    assert isinstance(function, GroupFunction)
    where = f"apply({op.function.qualname}) of {c.label}"
    return WindowApplyOperator(
        node=node,
        inputs=(source.slot,),
        times=window_times(c, op),
        width_us=c.app.bucket_us,
        keys=op.keys,
        columns=tuple(source.schema.names),
        collect=None,
        partial_schema=source.schema,
        schema=function.schema,
        function=function,
        rank=numbering(c, op.keys, source.schema, where),
        whole_us=c.whole_us,
    )
