"""The kernel: queries on DuckDB. `compile_query` is the door; DuckDB is named nowhere else."""

from borealis_py.engine.classes import OperatorClass
from borealis_py.engine.codec import ArrowRowCodec, ArrowSourceCodec
from borealis_py.engine.kernel import DuckKernel, KernelState, compile_query
from borealis_py.engine.rows import ArrowRows, canonical_hash, merge

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
