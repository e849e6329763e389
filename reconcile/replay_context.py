"""What all redo jobs of one query share, as a value that travels to Spark's workers.

`ReplayContext` is small and picklable. `OpenReplayContext` is the same with its kernel compiled and its log open. A
worker caches it: compiling a query and first meeting a broker take a second, and a redo has two and a half.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import platform
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from borealis_py.log import topics
from borealis_py.log.base import Feed, Log, Lookup
from borealis_py.log.codec import SourceCodec, StreamCodec
from borealis_py.log.description import Life
from borealis_py.log.kernel import Kernel, codecs_of
from borealis_py.log.stream import unpacker
from borealis_py.protocol.settings import ROW_MAX_BYTES
from borealis_py.query.spec import AppSpec
from sunion.bucket import Buckets
from sunion.input_buffers import Unpack
from sunion.model import Input


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """One node over one log.

    Args:
        query: the node's name.
        make_kernel: compiles the node; picklable by reference (a function of a module, or a `functools.partial`).
        inputs: in the order of the node's SUnion; `feeds`: for each its topics, of a stream one a replica.
        width_us: bucket width.
        ahead_max_us: see `sunion.source.fold`; must be what the replicas use.
        app_uid: of the app's life that is read.
    """

    query: str
    make_kernel: Callable[[], Kernel]
    log: Log
    inputs: tuple[Input, ...]
    feeds: tuple[tuple[Feed, ...], ...]
    width_us: int
    ahead_max_us: int
    app_uid: str

    def pack(self) -> bytes:
        """Equal works give equal bytes, so that a worker finds what it opened when it was warmed."""
        file = io.BytesIO()
        pickler = pickle.Pickler(file)
        pickler.fast = True  # no memo: which of its strings are one object does not show
        pickler.dump(self)
        return file.getvalue()

    def open(self) -> OpenReplayContext:
        kernel = self.make_kernel()
        codecs, streams = codecs_of(kernel, self.inputs)
        return OpenReplayContext(
            self, Buckets(self.width_us), kernel, codecs, streams, self.log.lookup(), Life(self.app_uid)
        )


@dataclass(frozen=True, slots=True)
class OpenReplayContext:
    """A `ReplayContext` ready to run. Not to be shared between threads."""

    work: ReplayContext
    buckets: Buckets
    kernel: Kernel
    codecs: dict[int, SourceCodec]
    streams: dict[int, StreamCodec]
    lookup: Lookup
    life: Life

    @property
    def unpack(self) -> dict[int, Unpack]:
        """For each input that is a stream, what decodes its rows."""
        return {i: unpacker(codec) for i, codec in self.streams.items()}

    def touch(self) -> None:
        """Read a record of every input, so that clients know their brokers. Raises LogError."""
        for feed in (feed for feeds in self.work.feeds for feed in feeds):
            first, end = self.lookup.bounds(feed)
            for _ in self.lookup.read(feed, max(first, end - 1), end):
                pass

    def close(self) -> None:
        with suppress(Exception):
            self.lookup.close()
        self.kernel.close()


class OtherKernel(Exception):
    """Where a work was opened other bits might come out than where it was made. Says what is different."""


def node_context(
    app: AppSpec,
    node: str,
    log: Log,
    ahead_max_us: int,
    app_uid: str,
    row_max_bytes: int = ROW_MAX_BYTES,
    memory_bytes: int = 0,
    made_of: Sequence[tuple[str, str]] = (),
) -> ReplayContext:
    """The work of one node of an app. Raises QueryError for an unknown one.

    Args:
        row_max_bytes: as the app's timing has it. memory_bytes: see `make_kernel`.
        made_of: it may be opened where kernels are made of this; empty: of the same as here.
    """
    inputs = app.inputs_of(node)
    feeds = tuple(topics.input_feeds(app.name, of) for of in inputs)
    make = partial(make_kernel, app.to_json(), node, tuple(made_of) or _made_of_here(), row_max_bytes, memory_bytes)
    return ReplayContext(node, make, log, inputs, feeds, app.bucket_us, ahead_max_us, app_uid)


def _made_of_here() -> tuple[tuple[str, str], ...]:
    from borealis_py.engine.fingerprint import ingredients

    return tuple(ingredients().items())


def make_kernel(
    app_json: str,
    query: str,
    made_of: Sequence[tuple[str, str]] = (),
    row_max_bytes: int = ROW_MAX_BYTES,
    memory_bytes: int = 0,
) -> Kernel:
    """Compile one node where only its app's description is at hand.

    Args:
        made_of: `engine.fingerprint.ingredients` that this process must have; empty: any.
        row_max_bytes: of a row; as the app's timing has it. memory_bytes: what the engine may use; 0: its default.

    Raises:
        OtherKernel: it has others. QueryError.
    """
    from borealis_py.engine import compile_query

    _refuse_other(made_of)
    kernel: Kernel = compile_query(AppSpec.from_json(app_json), query, row_max_bytes, memory_bytes)
    return kernel


def _refuse_other(made_of: Sequence[tuple[str, str]]) -> None:
    if not made_of:
        return
    from borealis_py.engine.fingerprint import ingredients

    here = ingredients()
    other = [f"{name} is {here.get(name)}, not {asked}" for name, asked in made_of if here.get(name) != asked]
    if other:
        raise OtherKernel(f"the worker on {platform.node()} might compute other bits: {'; '.join(other)}")


_OPENED_MAX = 32
_opened: OrderedDict[bytes, OpenReplayContext] = OrderedDict()


def get_cached(packed: bytes) -> OpenReplayContext:
    """The work of these bytes, opened and touched once in this process. For Spark's workers: they have one thread.

    Raises:
        LogError: the log could not be read.
        OtherKernel: other bits might come out here.
        QueryError: the query does not compile.
    """
    key = hashlib.sha256(packed).digest()
    found = _opened.get(key)
    if found is None:
        work: ReplayContext = pickle.loads(packed)
        found = work.open()
        try:
            found.touch()
        except BaseException:
            found.close()
            raise
        _opened[key] = found
        while len(_opened) > _OPENED_MAX:
            _opened.popitem(last=False)[1].close()
    _opened.move_to_end(key)
    return found


def evict(packed: bytes) -> None:
    """Open it anew next time: something failed, and its clients may be the reason."""
    found = _opened.pop(hashlib.sha256(packed).digest(), None)
    if found is not None:
        found.close()


def evict_all() -> None:
    """Let go of everything opened here: this process has other things to do."""
    while _opened:
        _opened.popitem()[1].close()
