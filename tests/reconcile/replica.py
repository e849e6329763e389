"""What a replica makes of its inputs: everything in memory, one step a bucket. The redo must say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from borealis_py.log.base import Feed, Record
from borealis_py.log.description import Life
from borealis_py.log.kernel import Kernel
from borealis_py.log.source_records import decode_source
from borealis_py.protocol.redo import RedoJob, SourceRange
from sunion.bucket import Buckets
from sunion.model import Input, Output
from sunion.union import SUnion
from tests.reconcile.list_world import AHEAD_US, ORIGIN, WIDTH_US


class Replica:
    """Reads all, runs [origin, end), and remembers state and marks at every frontier."""

    def __init__(
        self,
        kernel: Kernel,
        logs: Mapping[str, Sequence[bytes | None]],
        origin: int = ORIGIN,
        width_us: int = WIDTH_US,
        ahead_max_us: int = AHEAD_US,
        letters: bool = True,
    ) -> None:
        names = list(logs)
        self.origin = origin
        self.ends = [len(log) for log in logs.values()]
        union = SUnion(
            [Input(n, 0, (n,), letters) for n in names], origin, Buckets(width_us), kernel, ahead_max_us=ahead_max_us
        )
        for index, name in enumerate(names):
            codec = kernel.source_codec(name)
            for offset, value in enumerate(logs[name]):
                union.feed(index, decode_source(Record(Feed(name), offset, 0, None, value), codec, name, Life("a1")))
        self.end = min(union.complete, origin + 200)
        self.counts = {b: union.count(b) for b in range(origin, self.end)}
        self.marks, self.states, self.outputs = {}, {origin: kernel.initial()}, {}
        for b in range(origin, self.end):
            self.marks[b] = union.marks(b)
            state, out = kernel.step(self.states[b], b, b + 1, union.ordered(b, b + 1))
            rejects, rows = union.rejects(b), out.get(b, Output())
            if rejects or b in out:
                self.outputs[b] = Output(rows.rows, rejects + rows.rejects)
            union.forget(b + 1)
            self.states[b + 1] = state

    def job(self, first: int, end: int, id: int = 1) -> RedoJob:
        marks = enumerate(zip(self.marks[first], self.ends, strict=True))
        ranges = tuple(SourceRange(i, m.offset, stop, m.fold) for i, (m, stop) in marks)
        rows = sum(self.counts[b] for b in range(first, end))
        return RedoJob(id=id, first=first, end=end, state=self.states[first], ranges=ranges, rows=rows)

    def jobs(self, cuts: Iterable[int]) -> list[RedoJob]:
        """The whole run cut at these buckets."""
        at = sorted({self.origin, self.end, *(c for c in cuts if self.origin < c < self.end)})
        return [self.job(a, b, n) for n, (a, b) in enumerate(pairwise(at), 1)]

    def expected(self, first: int, end: int) -> dict[int, Output]:
        return {b: o for b, o in self.outputs.items() if first <= b < end}
