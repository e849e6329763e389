"""What functions get when rows of the user's run: the rows of a file, through the app's own operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path

import msgspec
import pyarrow as pa

from borealis_py.app.functions.generated import FIRST_US
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.engine.applied.code_in_place import CodeInPlace
from borealis_py.engine.arrow.rows import buckets_of, by_bucket
from borealis_py.log.unreadable import total
from borealis_py.query.errors import QueryError
from borealis_py.query.plan import ApplyOp, WindowApplyOp
from borealis_py.query.spec import AppSpec

STEP_US = 1_000
"""Rows of a file follow each other at this distance."""
SAMPLES_MAX = 20
"""Of each function, so many buckets or groups are enough."""
_decode_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def samples(spec: AppSpec, files: Mapping[str, Path]) -> dict[tuple[str, int], Sequence[pa.RecordBatch]]:
    """What each function gets, by (node, number of its operator among those of the node that apply functions).

    Args:
        files: of a source, its rows: an object of JSON each line.

    Raises:
        QueryError: no such source, or a row that it does not take.
    """
    unknown = next((name for name in files if name not in spec.sources), None)
    if unknown is not None:
        raise QueryError(f"--rows: app {spec.name!r} has no source {unknown!r}; sources: {', '.join(spec.sources)}")
    found: dict[tuple[str, int], Sequence[pa.RecordBatch]] = {}
    for query in spec.queries:
        places = [
            (node, number)
            for node in spec.upstream_of(query)
            for number in range(sum(isinstance(op, ApplyOp | WindowApplyOp) for op in spec.node(node).plan))
        ]
        if any(place not in found for place in places):
            with closing(compile_query(spec.flattened(query), query, code=CodeInPlace())) as kernel:
                found |= zip(places, _seen(kernel, spec, files), strict=True)
    return {place: seen for place, seen in found.items() if seen}


def _seen(kernel: DuckKernel, spec: AppSpec, files: Mapping[str, Path]) -> list[list[pa.RecordBatch]]:
    """What each of a kernel's functions gets."""
    inputs = kernel.spec.inputs
    buckets: dict[int, list[pa.RecordBatch | None]] = {}
    for index, source in enumerate(inputs):
        if source in files:
            rows = _rows(kernel, source, files[source])
            for bucket, some in by_bucket(rows, buckets_of(rows, spec.bucket_us)):
                buckets.setdefault(bucket, [None] * len(inputs))[index] = some
    lists: list[list[pa.RecordBatch]] = [[] for _ in kernel.applied]
    for operator, seen in zip(kernel.applied, lists, strict=True):
        operator.function.seen = seen
    if buckets:
        end = max(buckets) + 1 + kernel.lookback_buckets
        kernel.step(kernel.initial(), min(buckets), end, {b: kernel.order(parts) for b, parts in buckets.items()})
    return [seen[:SAMPLES_MAX] for seen in lists]


def _rows(kernel: DuckKernel, source: str, file: Path) -> pa.RecordBatch:
    try:
        lines = [(n, line) for n, line in enumerate(file.read_bytes().splitlines(), 1) if line.strip()]
    except OSError as exc:
        raise QueryError(f"--rows {source}={file}: {exc.strerror}") from exc
    for n, line in lines:
        try:
            total(_decode_object, line)
        except msgspec.DecodeError as exc:
            raise QueryError(f"--rows {source}={file}, line {n}: not a JSON object: {exc}") from exc
    stimes = [FIRST_US + n * STEP_US for n in range(len(lines))]
    decoded, bad = kernel.source_codec(source).decode(
        b"[" + b",".join(line for _, line in lines) + b"]", "json", stimes
    )
    if bad:
        position, reason, _ = bad[0]
        raise QueryError(f"--rows {source}={file}, line {lines[position][0]}: {reason}")
    if decoded is None:
        raise QueryError(f"--rows {source}={file}: no rows")
    (rows,) = kernel.settle([[decoded]])
    return rows
