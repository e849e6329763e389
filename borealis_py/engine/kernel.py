"""The kernel: one node's fragment on DuckDB, the same in a replica, a redo task and an audit.

Built from only the app's description and a node's name, so that a Spark worker can build its own. Not thread-safe.
Knows nothing of logs, frontiers or stability.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from itertools import accumulate, pairwise

import msgspec
import numpy as np
import pyarrow as pa

from borealis_py.engine.applied.apply import ApplyOperator
from borealis_py.engine.applied.window_apply import WindowApplyOperator
from borealis_py.engine.arrow.partitioner import split_by_partition
from borealis_py.engine.arrow.row_limit import RowLimit
from borealis_py.engine.arrow.rows import ArrowRows, buckets_of, by_bucket, in_buckets, joined
from borealis_py.engine.codec import ArrowRowCodec, ArrowSourceCodec
from borealis_py.engine.compile import Compiled, compile_plan
from borealis_py.engine.fingerprint import fingerprint
from borealis_py.engine.keyed.join import JoinOperator
from borealis_py.engine.operators.base import OperatorState, Slice, dead_letter_values
from borealis_py.engine.operators.classes import OperatorClass, most_general
from borealis_py.engine.operators.increments import Partial
from borealis_py.engine.sql.duck_connection import MEMORY_BYTES
from borealis_py.engine.sql.duck_statement import Duck
from borealis_py.protocol.settings import ROW_MAX_BYTES
from borealis_py.query.errors import QueryError, did_you_mean
from borealis_py.query.functions import CodeStore
from borealis_py.query.names import STIME
from borealis_py.query.spec import AppSpec
from sunion.errors import EngineOutOfMemory
from sunion.model import Output, Reject

KernelState = OperatorState
"""For each window operator, its buckets' partials, in bucket order; for each distinct, over, lookup, count window and
session, its blocks of rows; for each join, those of its left and of its right side."""
Batches = Sequence[pa.RecordBatch | None]
"""One bucket's rows, by input."""
SLICE_ROWS = 50_000
"""Maximum number of rows that pass through the operators at once."""
SLICE_ROWS_JOINED = 5_000
"""The same where a join may make many rows of each."""


class DuckKernel(ArrowRows, ArrowRowCodec):
    """Implements `sunion.model.Fragment` and `RowOps`, and `log.codec.RowCodec`. Create it with `compile_query`.

    `node`: the node's name; a query is the node that gives its result. `output_schema`: the result's columns, then
    stime. `fingerprint`: see there. `schema_id`: for record headers.
    """

    def __init__(self, app: AppSpec, node: str, duck: Duck, compiled: Compiled) -> None:
        self.app = app
        self.node = node
        self.spec = app.node(node)
        self.output_schema: pa.Schema = compiled.schema
        self._inputs = compiled.inputs
        self._duck = duck
        self._operators = compiled.operators
        ends = list(accumulate((len(op.state_parts) for op in compiled.operators), initial=0))
        self._state_of = [slice(first, end) for first, end in pairwise(ends)]
        """Where the parts of each operator's state lie in the kernel's."""
        joins = any(isinstance(op, JoinOperator) for op in compiled.operators)
        self._slice_rows = SLICE_ROWS_JOINED if joins else SLICE_ROWS
        self._kept = [part for op in compiled.operators for part in op.state_parts]
        self._limit = RowLimit(compiled.schema, duck.row_max_bytes, app.label(node))
        ArrowRowCodec.__init__(self, compiled.schema, self._kept)

    @property
    def fingerprint(self) -> str:
        """Equal in all processes that compute equal bits for this node and those upstream of it."""
        return fingerprint(self.app.query_hash(self.node))

    @property
    def lookback_buckets(self) -> int:
        """How many earlier buckets an output may depend on; operators that follow each other add up."""
        reach: list[int] = []
        for operator in self._operators:
            below = max((reach[i] for i in operator.inputs), default=0)
            reach.append(below + operator.lookback)
        return reach[-1]

    @property
    def operator_class(self) -> OperatorClass:
        """The most general class of its operators."""
        return most_general(operator.operator_class for operator in self._operators)

    @property
    def unbounded(self) -> tuple[str, ...]:
        """Those of its operators, as its user wrote them, of which a result may depend on any earlier bucket."""
        return tuple(op.unbounded for op in self._operators if op.unbounded)

    @property
    def applied(self) -> list[ApplyOperator | WindowApplyOperator]:
        """Its operators that apply Python functions, in the order of the plan."""
        return [op for op in self._operators if isinstance(op, ApplyOperator | WindowApplyOperator)]

    def source_codec(self, name: str) -> ArrowSourceCodec:
        """Rows of a source. Raises QueryError for a source that the node does not read."""
        self._check_input(name, self.app.sources)
        return ArrowSourceCodec(name, self.app.sources[name], self._duck.row_max_bytes)

    def stream_codec(self, name: str) -> ArrowRowCodec:
        """Rows of another node's stream. Raises QueryError for a node that this one does not read."""
        self._check_input(name, self.app.nodes)
        return ArrowRowCodec(self._inputs[name], ())

    def divide(self, rows: pa.RecordBatch, by: Sequence[str], count: int) -> list[pa.RecordBatch | None]:
        """Split the node's rows into partitions by their columns `by`."""
        return split_by_partition(rows, by, count)

    def _check_input(self, name: str, kind: Container[str]) -> None:
        known = [i for i in self.spec.inputs if i in kind]
        if name not in known:
            label, hint = self.app.label(self.node), did_you_mean(name, known) or ";"
            raise QueryError(f"{label} does not read {name!r}{hint} it reads {', '.join(self.spec.inputs)}")

    def initial(self) -> KernelState:
        return tuple(() for _ in self._kept)

    def step(
        self, state: KernelState, first: int, end: int, buckets: Mapping[int, Batches]
    ) -> tuple[KernelState, Mapping[int, Output]]:
        """Run buckets [first, end); see `sunion.model.Fragment`. Empty stretches are free."""
        pending = sorted(buckets)
        if pending and not first <= pending[0] <= pending[-1] < end:
            raise ValueError(f"rows of buckets {pending[0]}..{pending[-1]} in a step over [{first}, {end})")
        outputs: dict[int, Output] = {}
        for low, high, some in _slices(first, end, pending, buckets, self._slice_rows):
            state = self._run_slice(low, high, some, buckets, state, outputs)
        return state, outputs

    def _run_slice(
        self,
        low: int,
        high: int,
        some: Sequence[int],
        buckets: Mapping[int, Batches],
        state: KernelState,
        outputs: dict[int, Output],
    ) -> KernelState:
        """Run the buckets together; in halves if together they need more memory than there is, as they do not alone:
        how buckets are grouped must not decide whether they run."""
        inputs = [self._together(some, of) for of in zip(*(buckets[b] for b in some), strict=True)]
        try:
            return self._run(Slice(low, high, self.app.bucket_us, inputs), state, outputs)
        except EngineOutOfMemory:
            if len(some) < 2:
                raise
        middle = len(some) // 2
        state = self._run_slice(low, some[middle], some[:middle], buckets, state, outputs)
        return self._run_slice(some[middle], high, some[middle:], buckets, state, outputs)

    def _together(self, buckets: Sequence[int], parts: Batches) -> pa.RecordBatch | None:
        """One input's rows of several buckets."""
        rows = joined(parts)
        if rows is not None and not in_buckets(rows, buckets, parts, self.app.bucket_us):
            raise ValueError(f"rows whose stime is in none of the buckets {buckets[0]}..{buckets[-1]} they are in")
        return rows

    def _run(self, part: Slice, state: KernelState, outputs: dict[int, Output]) -> KernelState:
        after: list[tuple[Partial, ...]] = []
        for operator, kept in zip(self._operators, self._state_of, strict=True):
            rows, entries = operator.run(part, state[kept])
            part.outputs.append(rows)
            after += entries
        rows = self._fitting(part, part.outputs[-1])
        results = {} if rows is None else dict(by_bucket(rows, buckets_of(rows, part.width_us)))
        for bucket in sorted(results.keys() | part.rejects.keys()):
            outputs[bucket] = Output(results.get(bucket), tuple(part.rejects.get(bucket, ())))
        return tuple(after)

    def _fitting(self, part: Slice, rows: pa.RecordBatch | None) -> pa.RecordBatch | None:
        """The results without those that are too large for a record, which are dead letters: no broker would take them,
        and a stream stands still until all of a bucket is written."""
        if rows is None or not (bad := self._limit.refused(rows)):
            return rows
        for at, reason in bad.items():
            stime = rows.column(STIME)[at].as_py()
            raw = msgspec.json.encode(dead_letter_values(rows, at))
            part.refuse(stime // part.width_us, Reject(self.node, -1, f"result at stime {stime}: {reason}", raw))
        good = np.delete(np.arange(rows.num_rows), list(bad))
        return rows.take(pa.array(good)) if len(good) else None

    def close(self) -> None:
        """Release the engine's memory. The kernel cannot be used afterwards."""
        self._duck.close()


def _slices(
    first: int, end: int, pending: Sequence[int], buckets: Mapping[int, Batches], rows_max: int
) -> Iterator[tuple[int, int, Sequence[int]]]:
    """[first, end) cut into slices of at most `rows_max` rows, or one bucket: (first, end, its buckets)."""
    some: list[int] = []
    rows = 0
    for bucket in pending:
        size = sum(part.num_rows for part in buckets[bucket] if part is not None)
        if some and rows + size > rows_max:
            yield first, bucket, some
            first, some, rows = bucket, [], 0
        some.append(bucket)
        rows += size
    yield first, end, some


def compile_query(
    app: AppSpec,
    node: str,
    row_max_bytes: int = ROW_MAX_BYTES,
    memory_bytes: int = 0,
    code: CodeStore | None = None,
) -> DuckKernel:
    """Check a query, or any node of one, and compile it.

    Args:
        app: the app's description, from `App.describe()` or `AppSpec.from_json`.
        node: the name of one of its queries or nodes.
        row_max_bytes: maximum size of a row of a source or result, from the app's timing; larger rows are dead letters.
        memory_bytes: memory limit of the engine on this machine; 0: its default.
        code: where the files of its functions are read from; None: no function is loaded, so what applies one cannot
            run, and only its columns are known.

    Raises:
        QueryError: an expression that does not parse, an unknown column or function, a wrong type, a nondeterministic
            function, ...: everything that would keep the query from running.
        FunctionDiffers: a Python function is not here as it was where the app was described.
    """
    app.node(node)
    duck = Duck(memory_bytes or MEMORY_BYTES, row_max_bytes)
    try:
        return DuckKernel(app, node, duck, compile_plan(app, node, duck, code))
    except BaseException:
        duck.close()
        raise
