"""Takes over a peer's checkpoint instead of redoing its work (R14, B44, B45).

State is a value, bit-identical at every replica, so a peer's checkpoint at bucket c is as good as the own result of
running up to c. The output for the buckets before c goes into the own topic first, which so gets no hole (B2). It is
read from the peer's topic, and from others' where that has a hole.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import cast

import structlog

from borealis_py.log.base import Feed, Log, LogError, Lookup, Record, Wake
from borealis_py.log.description import Life
from borealis_py.log.kernel import Kernel
from borealis_py.log.stream import StreamDecoder
from borealis_py.log.stream_topics import StreamGap, StreamTopics
from borealis_py.node.checkpoints import CheckpointStore
from borealis_py.node.spec import ReplicaSpec
from borealis_py.protocol.incarnation import StartPoint
from borealis_py.protocol.redo import RedoDone, RedoFailed, RedoJob, RedoResult
from reconcile.thread_redo import ResultQueue
from sunion.bucket import Buckets
from sunion.errors import RetentionLost
from sunion.model import Output
from sunion.portion import Most, Portion, end_of
from sunion.union import Mark
from sunion.units import Bucket

log = structlog.get_logger(__package__)

ALL = Most(2**62, 2**62, 2**62)
"""No limit: a state needs all output before it."""


class Peers:
    """What one replica can take over from its peers."""

    def __init__(self, spec: ReplicaSpec, store: CheckpointStore, kernel: Kernel) -> None:
        self._spec = spec
        self._store = store
        self._kernel = kernel
        self._buckets = Buckets(spec.bucket_us)

    def adopt(self, job: RedoJob, lookup: Lookup) -> RedoResult:
        """The peer's state at `job.end` and the output for [job.first, job.end). A failure becomes RedoFailed."""
        started = time.monotonic()
        assert job.peer is not None
        try:
            loaded = self._store.of_peer(job.peer, job.end)
            if loaded is None:
                return RedoFailed(job.id, f"replica {job.peer} has no checkpoint at bucket {job.end} any more")
            outputs = self._said(job.peer, lookup, job.first, job.end)
        except (LogError, StreamGap, OSError, ValueError) as exc:
            return RedoFailed(job.id, f"checkpoint of replica {job.peer} at bucket {job.end}: {exc}")
        return RedoDone(job.id, loaded.state, outputs, "peer", time.monotonic() - started)

    def start_point(
        self,
        own: StartPoint,
        lookup: Lookup,
        check: Callable[[tuple[Mark, ...], int, Buckets], None],
        lost: RetentionLost,
    ) -> StartPoint:
        """Where to begin if the inputs no longer hold what follows the own checkpoint (B45).

        Args:
            own: the own start, which cannot be used.
            check: given a checkpoint's marks and bucket, raises RetentionLost if it cannot be used either.
            lost: why the own start cannot be used.

        Raises:
            RetentionLost: `lost`, and no peer has a checkpoint that can be used.
        """
        for peer, loaded in self._store.of_peers():
            if loaded.bucket <= own.bucket:
                continue
            try:
                check(loaded.marks, loaded.bucket, self._buckets)
                first = self._first(peer, lookup, own.bucket, loaded.bucket)
                outputs = self._said(peer, lookup, first, loaded.bucket)
            except (RetentionLost, StreamGap) as exc:
                log.warning("peer's checkpoint cannot be used", peer=peer, bucket=loaded.bucket, why=str(exc))
                continue
            log.warning(
                "own checkpoint cannot be used, the log is too short: starting from a peer's", peer=peer, why=str(lost)
            )
            return StartPoint(Bucket(loaded.bucket), loaded.state, loaded.marks, first, outputs)
        raise RetentionLost(f"{lost}; no other replica has a checkpoint that covers it")

    def _first(self, peer: int, lookup: Lookup, own: Bucket, end: int) -> Bucket:
        """From where the own topic must hold the output up to `end`: from the bucket `own`, or from where the node's
        topics hold it. What they have deleted nobody can say any more, whoever needs it. Raises StreamGap."""
        topics = topics_of(self._spec, asked(self._spec, peer), lookup, self._kernel)
        first = Bucket(max(part.first_kept(own) for part in topics))
        if first > end:
            raise StreamGap(f"replica {peer} holds nothing below bucket {first}, its checkpoint is at {end}")
        return first

    def _said(self, peer: int, lookup: Lookup, first: int, end: int) -> dict[int, Output]:
        outputs, reached = said_by(self._spec, asked(self._spec, peer), lookup, self._kernel, first, end)
        if reached < end:
            raise _gap(self._spec, reached, first, end)
        return outputs


def said_by(
    spec: ReplicaSpec, replicas: Sequence[int], lookup: Lookup, kernel: Kernel, first: int, end: int, most: Most = ALL
) -> tuple[dict[int, Output], int]:
    """A node's output for the stable buckets [first, end), read from its replicas' topics, all partitions joined.

    Each partition is read like any reader of it does: whichever replica has a bucket, its rows are the same. They are
    joined one partition after the other; dividing them again gives the same partitions.

    Args:
        replicas: whose topics, in the order in which they are asked. Where the first has all of it, no other is read.

    Returns:
        The outputs, as far as `most` allows and the topics go, and the bucket up to which they reach.

    Raises:
        StreamGap: no topic holds bucket `first`: it is not written yet, or deleted. LogError: the log cannot be read.
    """
    found: dict[int, list[Output]] = {}
    asked_end = end
    for part in topics_of(spec, replicas, lookup, kernel):
        some, end = part.read(first, end, kernel, Portion(most, kernel).takes)
        for bucket, output in some.items():
            found.setdefault(bucket, []).append(output)
    if first == end < asked_end:
        raise _gap(spec, first, first, asked_end)
    together = {bucket: _joined(found[bucket], kernel) for bucket in sorted(found) if bucket < end}
    end = end_of(together.items(), end, most, kernel)
    return {bucket: output for bucket, output in together.items() if bucket < end}, end


def topics_of(spec: ReplicaSpec, replicas: Sequence[int], lookup: Lookup, kernel: Kernel) -> tuple[StreamTopics, ...]:
    """The topics of these replicas of a node, for each partition of its readers."""
    decoder = partial(StreamDecoder, Life(spec.app_uid), kernel.schema_id)
    parts = zip(*(spec.feeds_of(k) for k in replicas), strict=True)
    return tuple(StreamTopics(lookup, feeds, Buckets(spec.bucket_us), decoder) for feeds in parts)


def asked(spec: ReplicaSpec, first: int) -> list[int]:
    """All replicas of the node, this one first."""
    return sorted(range(spec.replicas), key=lambda k: k != first)


def _gap(spec: ReplicaSpec, bucket: int, first: int, end: int) -> StreamGap:
    topics = ", ".join(spec.feeds_of(k)[0].topic for k in range(spec.replicas))
    return StreamGap(f"buckets [{first}, {end}) are needed, and none of {topics} holds stable bucket {bucket}")


def _joined(outputs: list[Output], kernel: Kernel) -> Output:
    if len(outputs) == 1:
        return outputs[0]
    rows = [o.rows for o in outputs if o.rows is not None]
    return Output(kernel.join(rows) if rows else None, tuple(r for o in outputs for r in o.rejects))


class _WhileWanted:
    """A lookup that stops reading once its adoption was given up. After a long failure a peer's stable records lie
    behind all its tentative ones, so an attempt may read for long, and threads of given up ones would pile up.
    """

    def __init__(self, lookup: Lookup, wanted: Callable[[], bool]) -> None:
        self._lookup = lookup
        self._wanted = wanted
        self.bounds = lookup.bounds
        self.find = lookup.find

    def read(self, feed: Feed, first: int, end: int) -> Iterator[Record]:
        """As `Lookup.read`. Raises LogError also when the adoption was given up."""
        for record in self._lookup.read(feed, first, end):
            if not self._wanted():
                raise LogError("the adoption was given up")
            yield record


class PeerRedo:
    """`RedoRunner` for adoptions, each in its own thread: reading files and logs takes longer than a turn."""

    def __init__(self, peers: Peers, log_: Log, wake: Wake) -> None:
        self._peers = peers
        self._log = log_
        self._results = ResultQueue(wake)

    def submit_job(self, job: RedoJob) -> None:
        self._results.expect(job.id)
        threading.Thread(target=self._run, args=(job,), name=f"adopt {job.id}", daemon=True).start()

    def poll_results(self) -> list[RedoResult]:
        return self._results.drain()

    def cancel_job(self, job_id: int) -> None:
        self._results.drop(job_id)

    def close(self) -> None:
        self._results.clear()

    def _run(self, job: RedoJob) -> None:
        try:
            with closing(self._log.lookup()) as lookup:
                wanted = partial(self._results.expects, job.id)
                self._results.put(self._peers.adopt(job, cast(Lookup, _WhileWanted(lookup, wanted))))
        except Exception as exc:
            self._results.put(RedoFailed(job.id, f"{type(exc).__name__}: {exc}"))
