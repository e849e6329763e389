"""What the nodes of an app cost here: made-up rows, or rows that a user has, through the kernels of all of them.

It computes as a replay does, many buckets at once, and counts the processor time of this process. Nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import cycle, islice

import pyarrow as pa

from borealis_py.app.functions.generated import rows as made_up
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.engine.arrow.rows import segment_schema
from borealis_py.engine.codec import ArrowRowCodec
from borealis_py.engine.kernel import KernelState
from borealis_py.log.records import StableHeader, pack
from borealis_py.query.plan import ApplyOp, WindowApplyOp
from borealis_py.query.spec import AppSpec
from sunion.model import Ordered

ROWS_MAX = 30_000
"""Rows of all sources together that a trial computes: a second or two."""
ROWS_MIN = 1_000
BUCKETS_MIN = 10
PIECES = 8
FIRST_BUCKET = 10**10
EVER = 2**40
"""A lookback of more buckets than this is none: results depend on any earlier row."""

Batches = dict[int, pa.RecordBatch]
"""Rows by bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedNode:
    """What a node did with the rows that it got.

    Attributes:
        rows_per_s: that it reads, in a second of the data's time.
        row_us: processor time of a row, with its decoding, in microseconds.
        window_s: how far back its results go; 0: not at all. None: as far as there are rows.
        state_bytes: size of its state, as a checkpoint has it. keys: rows in it.
        state_bytes_per_s: how many of them are encoded and decoded again in a second.
        result_bytes_per_s: what a replica writes of it in a second of the data's time.
    """

    rows_per_s: float
    row_us: float
    window_s: float | None
    state_bytes: float
    keys: int
    state_bytes_per_s: float
    result_bytes_per_s: float


@dataclass(frozen=True, slots=True)
class _Stream:
    """What a source or node gives: rows by bucket, in `seconds` of the data's time. `why`: why there are none."""

    buckets: Batches
    seconds: float
    why: str = ""

    @property
    def rows_per_s(self) -> float:
        return _rows_in(list(self.buckets.values())) / self.seconds


def try_nodes(
    spec: AppSpec, rates: Mapping[str, float], samples: Mapping[str, Sequence[bytes]]
) -> dict[str, TriedNode | str]:
    """Try all nodes, each after those it reads.

    Args:
        spec: the app as it runs.
        rates: rows a second of each of its sources. samples: JSON objects of some; of others rows are made up.

    Returns:
        What each node costs; or why it was not tried, in words.

    Raises:
        QueryError: the app cannot run.
    """
    found: dict[str, TriedNode | str] = {}
    streams: dict[str, _Stream] = {}
    with ExitStack() as stack:
        kernels = {name: compile_query(spec, name) for name in spec.all_nodes}
        for kernel in kernels.values():
            stack.callback(kernel.close)
        trial = _Trial(spec, rates, samples, _buckets(spec, rates, [_lookback(k) for k in kernels.values()]), streams)
        for name, kernel in kernels.items():
            node = spec.node(name)
            why = next((streams[i].why for i in node.inputs if i in streams and streams[i].why), "")
            if any(isinstance(op, ApplyOp | WindowApplyOp) for op in node.plan):
                why = f"{name} calls Python functions, which are not tried here"
            if why:
                found[name], streams[name] = why, _Stream({}, 1.0, why)
                continue
            found[name], streams[name] = _try(trial, kernel)
    return found


def _buckets(spec: AppSpec, rates: Mapping[str, float], lookbacks: Sequence[int]) -> int:
    """How many are filled: as far as any state goes back and a second, with rows enough to time them."""
    rate = max(sum(rates.values()), 1.0)
    second = 1_000_000 // spec.bucket_us
    most, least = int(ROWS_MAX / rate * second), int(max(1.0, ROWS_MIN / rate) * second)
    return max(BUCKETS_MIN, min(most, max(lookbacks) + least))


def _lookback(kernel: DuckKernel) -> int:
    """In buckets; 0 where it has no bound."""
    return 0 if kernel.lookback_buckets > EVER else kernel.lookback_buckets


@dataclass(frozen=True, slots=True)
class _Trial:
    """What the nodes of an app are tried with: `buckets` of the data's time, and what those before them gave."""

    spec: AppSpec
    rates: Mapping[str, float]
    samples: Mapping[str, Sequence[bytes]]
    buckets: int
    streams: Mapping[str, _Stream]


@dataclass(frozen=True, slots=True)
class _Read:
    """What a node reads, in the order of its inputs: rows by bucket, in `seconds` of the data's time; and what decoding
    them took."""

    inputs: list[Batches]
    seconds: float
    rows_per_s: float
    decoding_s: float

    @property
    def rows(self) -> int:
        return sum(batch.num_rows for of in self.inputs for batch in of.values())


def _try(trial: _Trial, kernel: DuckKernel) -> tuple[TriedNode, _Stream]:
    width_s, lookback = trial.spec.bucket_us / 1e6, _lookback(kernel)
    read = _read(trial, kernel)
    ordered = {
        b: kernel.order([of.get(b) for of in read.inputs]) for b in sorted({b for of in read.inputs for b in of})
    }
    end = max([FIRST_BUCKET + trial.buckets, *(b + 1 for b in ordered)])

    def compute() -> None:
        kernel.step(kernel.initial(), FIRST_BUCKET, end, ordered)

    compute()  # the engine is slow the first time
    took_s = _took_s(compute)
    largest, results = _stepped(kernel, ordered, end)
    encoded = kernel.encode_state(largest)
    state_s = _took_s(lambda: kernel.decode_state(kernel.encode_state(largest)))
    length_s = read.seconds + lookback * width_s
    written = sum(len(kernel.encode(of)) for of in results.values()) / length_s
    tried = TriedNode(
        rows_per_s=read.rows_per_s,
        row_us=(took_s + read.decoding_s) * 1e6 / max(read.rows, 1),
        window_s=None if kernel.lookback_buckets > EVER else lookback * width_s,
        state_bytes=len(encoded) * max(1.0, lookback / trial.buckets),
        keys=_rows_in(largest),
        state_bytes_per_s=len(encoded) / max(state_s, 1e-6),
        result_bytes_per_s=written + _envelope(kernel) / width_s,
    )
    return tried, _Stream(results, length_s)


def _read(trial: _Trial, kernel: DuckKernel) -> _Read:
    inputs: list[Batches] = []
    seconds = trial.buckets * trial.spec.bucket_us / 1e6
    rows_per_s = decoding_s = 0.0
    for number, name in enumerate(kernel.spec.inputs):
        if name in trial.streams:
            given = trial.streams[name]
            part = _Stream(_part(trial.spec, kernel.node, number, given.buckets), given.seconds)
            took_s = _read_again_s(kernel, name, part.buckets)
            inputs.append(part.buckets)
            seconds = max(seconds, part.seconds)
            rows_per_s += part.rows_per_s
        else:
            batches, took_s = _decoded(trial, kernel, name)
            inputs.append(batches)
            rows_per_s += trial.rates[name]
        decoding_s += took_s
    return _Read(inputs, seconds, rows_per_s, decoding_s)


def _stepped(kernel: DuckKernel, ordered: Mapping[int, Ordered], end: int) -> tuple[KernelState, Batches]:
    """The largest of some states on the way, since one at the end of a window is empty; and all results."""
    results: Batches = {}
    state, at = kernel.initial(), FIRST_BUCKET
    largest, size = state, 0
    pieces = [FIRST_BUCKET + (end - FIRST_BUCKET) * n // PIECES for n in range(1, PIECES + 1)]
    for until in (*pieces, end + _lookback(kernel) + 1):
        if until > at:
            state, outputs = kernel.step(state, at, until, {b: ordered[b] for b in ordered if at <= b < until})
            results |= {b: output.rows for b, output in outputs.items() if output.rows is not None}
            at = until
            if (now := len(kernel.encode_state(state))) > size:
                largest, size = state, now
    return largest, results


def _decoded(trial: _Trial, kernel: DuckKernel, source: str) -> tuple[Batches, float]:
    """A source's rows, evenly spaced, and how long it took to decode them."""
    spec, codec = trial.spec, kernel.source_codec(source)
    width_us, rate = spec.bucket_us, trial.rates[source]
    objects = cycle(trial.samples.get(source) or made_up_objects(spec, source))
    payloads: dict[int, tuple[bytes, list[int]]] = {}
    sent = 0
    for n, bucket in enumerate(range(FIRST_BUCKET, FIRST_BUCKET + trial.buckets), 1):
        count = int(n * rate * width_us / 1e6) - sent
        sent += count
        if not count:
            continue
        stimes = [bucket * width_us + i * width_us // count for i in range(count)]
        payloads[bucket] = b"[" + b",".join(islice(objects, count)) + b"]", stimes
    began_s = time.process_time()
    decoded = {b: codec.decode(payload, "json", stimes)[0] for b, (payload, stimes) in payloads.items()}
    groups = {b: [rows] for b, rows in decoded.items() if rows is not None}
    settled = kernel.settle(list(groups.values())) if groups else []  # at once, as many records are when read again
    return dict(zip(groups, settled, strict=True)), time.process_time() - began_s


def made_up_objects(spec: AppSpec, source: str) -> list[bytes]:
    """Ordinary rows of a source as JSON objects, always the same ones."""
    schema = segment_schema(spec.sources[source])
    return [row for row, _ in ArrowRowCodec(schema, ()).published(made_up(schema, odd=False))]


def _part(spec: AppSpec, node: str, number: int, buckets: Batches) -> Batches:
    """What a node reads of another node's rows."""
    of = spec.inputs_of(node)[number]
    exchange = spec.node(of.name).exchange
    if exchange is None:
        return buckets
    with closing(compile_query(spec, of.name)) as kernel:
        parts = {b: kernel.divide(rows, exchange.by, exchange.count)[of.partition] for b, rows in buckets.items()}
    return {b: rows for b, rows in parts.items() if rows is not None}


def _read_again_s(kernel: DuckKernel, stream: str, buckets: Batches) -> float:
    """How long it takes to decode another node's rows."""
    codec = kernel.stream_codec(stream)
    encoded = [codec.encode(rows) for rows in buckets.values()]
    return _took_s(lambda: [codec.decode(payload) for payload in encoded])


def _envelope(kernel: DuckKernel) -> int:
    """Bytes that each bucket takes in a replica's stream, with or without rows."""
    return len(pack(StableHeader("0" * 16, 1, FIRST_BUCKET, 0, 0, 1, kernel.schema_id, ())))


def _took_s(work: Callable[[], object]) -> float:
    began_s = time.process_time()
    work()
    return time.process_time() - began_s


def _rows_in(state: object) -> int:
    if isinstance(state, pa.RecordBatch):
        return int(state.num_rows)
    if isinstance(state, tuple | list):
        return sum(_rows_in(part) for part in state)
    return 0
