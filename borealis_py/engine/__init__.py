"""The kernel: queries on DuckDB. The entry point is `compile_query`; no other package names DuckDB."""

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
