"""Nodes of a chain compiled and run one after the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

from hypothesis import strategies as st

from borealis_py.engine import DuckKernel, canonical_hash, compile_query
from borealis_py.engine.arrow.partitioner import split_by_partition
from borealis_py.query import AppSpec
from borealis_py.query.names import part_index
from sunion.model import Output, Reject
from tests.engine import worlds
from tests.engine.worlds import Buckets

LAST = 26


@contextmanager
def compiled(spec: AppSpec) -> Iterator[tuple[dict[str, DuckKernel], DuckKernel]]:
    """The kernel of each node, and that of query q flattened."""
    with ExitStack() as stack:
        kernels = {name: compile_query(spec, name) for name in spec.all_nodes}
        flat = compile_query(spec.flattened("q"), "q")
        for kernel in (flat, *kernels.values()):
            stack.callback(kernel.close)
        yield kernels, flat


def stepped(kernel: DuckKernel, buckets: Mapping[int, Any], cuts: list[int]) -> dict[int, Output]:
    state, outputs = kernel.initial(), {}
    for first, end in zip([0, *cuts], [*cuts, LAST], strict=True):
        state, said = kernel.step(state, first, end, {b: p for b, p in buckets.items() if first <= b < end})
        outputs.update(said)
    return outputs


def parts_of(spec: AppSpec, kernel: DuckKernel, history: Buckets, streams: Mapping[str, dict[int, Output]]) -> Any:
    """What SUnion hands to a node: sources' rows, and other nodes' batches as they come out of the log."""
    found = {}
    for bucket in range(LAST):
        parts = []
        for name in kernel.spec.inputs:
            if name in spec.sources:
                rows = history.get(bucket, [[], []])["ab".index(name)]
                parts.append(worlds.batch(rows) if rows else None)
            else:
                rows = streams[name][bucket].rows if bucket in streams[name] else None
                exchange = spec.nodes[name].exchange
                if rows is not None and exchange is not None:
                    rows = split_by_partition(rows, exchange.by, exchange.count)[part_index(kernel.node)]
                codec = kernel.stream_codec(name)
                parts.append(None if rows is None else codec.decode(codec.encode(rows)))
        if any(part is not None for part in parts):
            found[bucket] = kernel.order(parts)
    return found


def lived(
    spec: AppSpec, kernels: Mapping[str, DuckKernel], history: Buckets, data: st.DataObject
) -> dict[str, dict[int, Output]]:
    """What each node says, run one after the other, each in steps of its own."""
    streams: dict[str, dict[int, Output]] = {}
    for name, kernel in kernels.items():
        cuts = sorted(data.draw(st.sets(st.integers(1, LAST - 1)), label=f"steps of {name}"))
        streams[name] = stepped(kernel, parts_of(spec, kernel, history, streams), cuts)
    return streams


def rows_of(outputs: Mapping[int, Output]) -> dict[int, str]:
    return {bucket: canonical_hash(o.rows) for bucket, o in outputs.items() if o.rows is not None}


def rejects_of(*streams: Mapping[int, Output]) -> list[tuple[int, str, str]]:
    def plain(bucket: int, r: Reject) -> tuple[int, str, str]:
        return bucket, r.source, r.reason

    return sorted(plain(bucket, r) for outputs in streams for bucket, o in outputs.items() for r in o.rejects)
