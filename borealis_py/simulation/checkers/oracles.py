"""Invariants of the log of a finished world (A10).

Written against the protocol's statements, not against the code: `reference_model` computes the expected results.
`checkers.observer` and `checkers.invariants` check what must hold at every moment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import msgspec

from borealis_py.log.base import Record
from borealis_py.log.records import (
    TentativeHeader,
    unpack_stream,
)
from borealis_py.simulation.clean import Clean
from borealis_py.simulation.cluster.client_model import ClientPicture
from borealis_py.simulation.cluster.roles import PublisherInput
from borealis_py.simulation.reference_model import NodeTruth, SourceTruth
from borealis_py.simulation.violation import Violation
from sunion.model import FOREVER


def corrected(log: Sequence[Record], progress: Sequence[tuple[int, int]], truth: NodeTruth, width_us: int) -> None:
    """The corrected stream is exact: each row once, in order, a prefix at all times, with its own stime and its
    bucket's timestamp.

    Args:
        progress: (visible rows, progress) at every moment at which progress became visible.
    """
    expected = [(bucket, i, row) for bucket in sorted(truth.rows) for i, row in enumerate(truth.rows[bucket])]
    for n, record in enumerate(log):
        one = (dict(record.headers)["id"].decode(), msgspec.json.decode(record.value or b"null"))
        if n >= len(expected):
            raise Violation("corrected", f"row {n} is {one}, expected nothing", int(one[0].partition(":")[0]))
        bucket, i, row = expected[n]
        if one != (f"{bucket}:{i}", row):
            raise Violation("corrected", f"row {n} is {one}, expected {bucket}:{i} {row}", bucket)
        stamps = int(dict(record.headers)["stime"]), record.timestamp_ms
        if stamps != (row[0], bucket * width_us // 1000):
            said = f"row {n} has stime and timestamp {stamps}, expected {row[0]}, {bucket * width_us // 1000}"
            raise Violation("corrected", said, bucket)
    before: dict[int, int] = {}
    for rows, bucket in progress:
        if bucket not in before:
            before[bucket] = sum(len(v) for b, v in truth.rows.items() if b < bucket)
        if rows != before[bucket]:
            raise Violation("corrected", f"progress {bucket} with {rows} rows, expected {before[bucket]}", bucket)


def dead_letters(node: str, log: Sequence[Record], parts: Sequence[tuple[NodeTruth, int]]) -> None:
    """The dead letters of a node's published buckets, each once.

    Args:
        parts: the truth and the progress of each partition.
    """
    mine = [dict(r.headers) for r in log]
    found = Counter(
        (h["source"].decode(), int(h["offset"]), h["reason"].decode().split()[0].strip(":"))
        for h in mine
        if h.get("query") == node.encode()
    )
    expected = Counter(
        one for truth, progress in parts for b, many in truth.letters.items() if b < progress for one in many
    )
    if found != expected:
        raise Violation("dead letters", f"{node}: too many {found - expected}, missing {expected - found}")


def inputs(
    source: str,
    items: PublisherInput,
    truth: SourceTruth,
    letters: Sequence[Record],
    published: int,
    known: bool,
    taken: Callable[[int], bool],
    gaps: Sequence[range] = (),
) -> None:
    """Each item of a publisher's input up to the last one sent is in the source or in the dead letters, once.

    Args:
        letters: the dead-letter topic. published: everything below this bucket is published by the node responsible for
            them.
        known: all boundaries that its publishers promised are in the log.
        taken: whether a valid item must not be late.
        gaps: buckets that this node has published as lost (R18.7).
    """
    told = Counter[int]()
    for record in letters:
        headers = dict(record.headers)
        if headers["source"] == source.encode() and "seq" in headers:
            told[int(headers["seq"])] += 1
    for n in range(max([-1, *truth.accepted, *truth.refused]) + 1):
        refused = truth.refused.get(n)
        if (n in truth.accepted) == (refused is not None):
            raise Violation(
                "input", f"{source}: item {n} of the input is in {'neither' if refused is None else 'both'}"
            )
        if refused is None:
            _sent(source, items, n, *truth.accepted[n])
        else:
            _refused(source, items, n, *refused[1:3], refused[3] if known else FOREVER)
            if not items.is_bad(n) and taken(n):
                raise Violation("input", f"{source}: item {n} of the input came in time, and was refused: {refused[1]}")
        due = refused is not None and refused[0] < published and not any(refused[0] in gap for gap in gaps)
        if told[n] > (refused is not None) or told[n] < due:
            raise Violation("input", f"{source}: item {n} of the input is {told[n]} times in the dead letters")


def _sent(source: str, items: PublisherInput, n: int, stime: int, value: int) -> None:
    """An accepted item: a row, with its value, at its time (or later, if it is stamped when sent)."""
    right = stime >= items.at(n) if items.lateness_us is None else stime == items.stime(n)
    if items.is_bad(n) or value != items.value(n) or not right:
        raise Violation("input", f"{source}: item {n} of the input was sent as {value} at {stime}")


def _refused(source: str, items: PublisherInput, n: int, reason: str, raw: bytes, boundary: int) -> None:
    """A refused item: not a row, or one that came too late."""
    late = reason.startswith("late") and items.stime(n) < boundary
    right = raw == items.raw(n) if items.is_bad(n) else late and msgspec.json.decode(raw) == {"v": items.value(n)}
    if not right:
        raise Violation("input", f"{source}: item {n} of the input was refused: {reason}, {raw!r}, boundary {boundary}")


def client(picture: ClientPicture, truth: NodeTruth) -> None:
    """The client's buckets below its stable frontier equal the failure-free output."""
    if picture.stable > max([truth.complete, *(gap.stop for gap in picture.gaps)]):
        said = f"stable up to {picture.stable}, the sources close only {truth.complete}"
        raise Violation("client", said, truth.complete)
    for bucket in sorted(picture.rows.keys() | truth.rows.keys()):
        if bucket < picture.start or any(bucket in gone for gone in (*picture.passed_over, *picture.gaps)):
            continue
        if bucket >= picture.stable:
            break
        if bucket in picture.tentative or picture.rows.get(bucket, []) != truth.rows.get(bucket, []):
            said = f"bucket {bucket} holds {picture.rows.get(bucket)}, not {truth.rows.get(bucket)}"
            raise Violation("client", said, bucket)


UNREAD_US = 500_000
"""A running replica that can reach a source has queried its end within this time."""
CUT_OFF_US = 2_000_000
"""A feed that could not be read need not be asked for its end again for so long (B14)."""


def needless(
    name: str,
    log: Sequence[Record],
    ran_us: Mapping[tuple[int, int], int],
    sources: Mapping[str, tuple[Clean, Sequence[tuple[int, int]]]],
    in_time_us: Callable[[int], int],
    app_uid: str,
) -> None:
    """No bucket runs without a source that was in time for it and is readable in the log (B14).

    A source that was late for the bucket may be left out for good, if the replica had looked before it stood still.

    Args:
        ran_us: when (incarnation, bucket) ran live.
        sources: for each source that the node reads directly: when this replica could read it, and (first open bucket,
            time at which it became so).
        in_time_us: bucket -> by when a source that is in time has closed it.
    """
    for record in log:
        header, _ = unpack_stream(record.value)
        if not isinstance(header, TentativeHeader) or header.app_uid != app_uid:
            continue
        at = ran_us.get((header.inc, header.bucket), 0)
        for source in header.missing if at else ():
            if source not in sources:
                continue
            readable, closings = sources[source]
            closed = bisect_right(closings, (header.bucket, FOREVER))
            if closed == len(closings):
                continue
            there = closings[closed][1]
            in_time = there < in_time_us(header.bucket)
            if in_time and there < at - UNREAD_US and readable.covers(at - UNREAD_US - CUT_OFF_US, at):
                detail = f"bucket {header.bucket} ran without {source}, in the log for {(at - there) / 1e6} s"
                raise Violation("needless", f"{name}: {detail}", header.bucket)


def premature(
    name: str,
    log: Sequence[Record],
    ran_us: Mapping[tuple[int, int], int],
    least_us: Callable[[int, bool], int],
    app_uid: str,
) -> None:
    """No bucket runs before its time (B9), nor without an input that was not waited for.

    Args:
        ran_us: when (incarnation, bucket) ran live.
        least_us: (bucket, whether it lacks an input) -> the earliest time at which it may run.
    """
    headers = [unpack_stream(record.value)[0] for record in log]
    lacking = {
        (h.inc, h.bucket) for h in headers if isinstance(h, TentativeHeader) and h.missing and h.app_uid == app_uid
    }
    for (inc, bucket), at in ran_us.items():
        early = least_us(bucket, (inc, bucket) in lacking) - at
        if early > 0:
            said = f"{name}.{inc}: bucket {bucket} ran {early / 1e6:.3f} s before its time"
            raise Violation("premature", said, bucket)


SETTLE_US = 1_000_000
"""How long before a bucket a replica and a source must have been clean for a promise to apply."""


def availability(
    arrival: Mapping[int, int],
    buckets: range,
    width_us: int,
    bounds_us: Callable[[int], int],
    could: Callable[[int, int, int], bool],
) -> tuple[int, int]:
    """Every bucket that a clean path could carry from a source to the client has arrived within the bound.

    Args:
        arrival: when the client first had anything of a bucket.
        bounds_us: a bucket's end -> X plus the failure-free time of a bucket, relative to that end.
        could: (from, until when the source must be clean, until when the replicas) -> whether there is such a path.

    Returns:
        Number of buckets to which the bound applied, and the greatest delay among them.
    """
    asked = worst = 0
    for bucket in buckets:
        end = (bucket + 1) * width_us
        bound_us = bounds_us(end)
        first, last = end - width_us - SETTLE_US, end + bound_us
        if not could(first, end + width_us, last):
            continue
        asked += 1
        delay = arrival.get(bucket, last + 10**9) - end
        worst = max(worst, delay)
        if delay > bound_us:
            when = f"{delay / 1e6:.3f} s past its end" if bucket in arrival else "never"
            said = f"bucket {bucket} came {when}, bound {bound_us / 1e6:.3f} s"
            raise Violation("availability", said, bucket)
    return asked, worst
