"""What all redo jobs of one node share, as a value that is sent to Spark's workers.

`ReplayContext` is small and picklable. `OpenReplayContext` is the same with its kernel compiled and its log open. A
worker caches it: compiling a query and connecting to a broker take a second, and a redo has two and a half.
"""

from __future__ import annotations

import io
import pickle
import platform
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
from borealis_py.query.functions import CodeStore
from borealis_py.query.spec import AppSpec
from sunion.bucket import Buckets
from sunion.input_buffers import Unpack
from sunion.model import Input


@dataclass(frozen=True, slots=True)
class ReplayContext:
    """One node over one log.

    Args:
        node: the node's name.
        make_kernel: compiles the node; picklable by reference (a function of a module, or a `functools.partial`).
        log: picklable, too.
        inputs: in the order of the node's SUnion. feeds: for each its topics; of a stream, one per replica.
        width_us: bucket width.
        ahead_max_us: see `sunion.source.fold`; must be the replicas' value.
        app_uid: of the app's life to read.
    """

    node: str
    make_kernel: Callable[[], Kernel]
    log: Log
    inputs: tuple[Input, ...]
    feeds: tuple[tuple[Feed, ...], ...]
    width_us: int
    ahead_max_us: int
    app_uid: str

    def pack(self) -> bytes:
        """Pickle it. Equal contexts give equal bytes, so that a worker finds the one that was opened to warm it."""
        file = io.BytesIO()
        pickler = pickle.Pickler(file)
        pickler.fast = True  # no memo: the bytes must not depend on which strings are one object
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
    """A `ReplayContext` (`work`) ready to run. Not thread-safe.

    `buckets`: converts between stimes and buckets. `kernel`, `lookup`: compiled and connected; `close` ends both.
    `codecs`, `streams`: decode the inputs that are sources, and those that are streams, by input index. `life`: that
    whose records count.
    """

    work: ReplayContext
    buckets: Buckets
    kernel: Kernel
    codecs: dict[int, SourceCodec]
    streams: dict[int, StreamCodec]
    lookup: Lookup
    life: Life

    @property
    def unpack(self) -> dict[int, Unpack]:
        """For each input that is a stream, the function that decodes its rows."""
        return {i: unpacker(codec) for i, codec in self.streams.items()}

    def touch(self) -> None:
        """Read a record of every input, so that its clients are connected. Raises LogError."""
        for feed in (feed for feeds in self.work.feeds for feed in feeds):
            first, end = self.lookup.bounds(feed)
            for _ in self.lookup.read(feed, max(first, end - 1), end):
                pass

    def close(self) -> None:
        with suppress(Exception):
            self.lookup.close()
        self.kernel.close()


class OtherKernel(Exception):
    """This process might compute other bits than the one that made the context. The message names the difference."""


def node_context(
    app: AppSpec,
    node: str,
    log: Log,
    ahead_max_us: int,
    app_uid: str,
    row_max_bytes: int = ROW_MAX_BYTES,
    memory_bytes: int = 0,
    made_of: Sequence[tuple[str, str]] = (),
    code: CodeStore | None = None,
) -> ReplayContext:
    """The context of one node of an app.

    Args:
        ahead_max_us, row_max_bytes: as the app's timing has them.
        app_uid: of the app's life to read.
        memory_bytes: see `make_kernel`.
        made_of: components that a process must have to open it; empty: those of this process.
        code: see `make_kernel`.

    Raises:
        QueryError: the app has no such node.
    """
    inputs = app.inputs_of(node)
    feeds = tuple(topics.input_feeds(app.name, of) for of in inputs)
    bounds = row_max_bytes, memory_bytes
    make = partial(make_kernel, app.to_json(), node, tuple(made_of) or _made_of_here(), *bounds, code)
    return ReplayContext(node, make, log, inputs, feeds, app.bucket_us, ahead_max_us, app_uid)


def _made_of_here() -> tuple[tuple[str, str], ...]:
    from borealis_py.engine.fingerprint import ingredients

    return tuple(ingredients().items())


def make_kernel(
    app_json: str,
    node: str,
    made_of: Sequence[tuple[str, str]] = (),
    row_max_bytes: int = ROW_MAX_BYTES,
    memory_bytes: int = 0,
    code: CodeStore | None = None,
) -> Kernel:
    """Compile one node from its app's JSON.

    Args:
        node: the node's name.
        made_of: `engine.fingerprint.ingredients` that this process must have; empty: any.
        row_max_bytes: the largest row, as the app's timing has it.
        memory_bytes: the most memory of the engine; 0: its default.
        code: where the files of its functions are read from; None: it need not run, only its columns count.

    Raises:
        OtherKernel: this process has other components.
        FunctionDiffers: a Python function is not here as it was where the app was described.
        QueryError: the node is unknown or does not compile.
    """
    from borealis_py.engine import compile_query

    _refuse_other(made_of)
    kernel: Kernel = compile_query(AppSpec.from_json(app_json), node, row_max_bytes, memory_bytes, code)
    return kernel


def _refuse_other(made_of: Sequence[tuple[str, str]]) -> None:
    if not made_of:
        return
    from borealis_py.engine.fingerprint import ingredients

    here = ingredients()
    other = [f"{name} is {here.get(name)}, not {asked}" for name, asked in made_of if here.get(name) != asked]
    if other:
        raise OtherKernel(f"the worker on {platform.node()} might compute other bits: {'; '.join(other)}")
