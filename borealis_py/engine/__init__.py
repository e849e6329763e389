"""The kernel: queries on DuckDB. The entry point is `compile_query`; no other package names DuckDB.

Its folders import one way: `keyed` and `applied` (operators by key, functions of users), `operators`, `sql`, `arrow`.
"""

from borealis_py.engine.arrow.rows import ArrowRows, canonical_hash, merge
from borealis_py.engine.codec import ArrowRowCodec, ArrowSourceCodec
from borealis_py.engine.kernel import DuckKernel, KernelState, compile_query
from borealis_py.engine.operators.classes import OperatorClass

__all__ = [
    "ArrowRowCodec",
    "ArrowRows",
    "ArrowSourceCodec",
    "DuckKernel",
    "KernelState",
    "OperatorClass",
    "canonical_hash",
    "compile_query",
    "merge",
]
