"""The story of one bucket: when it was created, which processes wrote about it, when it ran, when it was published.

It is read from the log of a finished world, so that telling it changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from borealis_py.log import topics
from borealis_py.log.base import Feed
from borealis_py.log.corrected import read_progress
from borealis_py.log.description import Life
from borealis_py.log.records import (
    BatchHeader,
    EnvelopeError,
    RangeHeader,
    RecDoneHeader,
    StableHeader,
    TentativeHeader,
    UndoHeader,
    unpack_source,
    unpack_stream,
)
from borealis_py.simulation.cluster.builder import APP
from borealis_py.simulation.cluster.world import SimulatedWorld

LINES_MAX = 60


def tell(world: SimulatedWorld, bucket: int) -> list[str]:
    """Lines, in the order of time."""
    width = world.scenario.width_us
    events = [
        (bucket * width, "time", f"bucket {bucket} begins"),
        ((bucket + 1) * width, "time", "it ends"),
        *_sources(world, bucket),
        *_streams(world, bucket),
        *_published(world, bucket),
    ]
    for name, picture in (("client", world.picture), ("latecomer", world.latecomer)):
        if picture is not None and bucket in picture.arrival:
            events.append((picture.arrival[bucket], name, "sees something of it for the first time"))
    lines = [f"{(at - world.start_us) / 1e6:9.4f}  {who:12} {what}" for at, who, what in sorted(events)]
    cut = len(lines) - LINES_MAX
    return lines if cut <= 0 else [*lines[:LINES_MAX], f"... and {cut} more"]


def _sources(world: SimulatedWorld, bucket: int) -> Iterator[tuple[int, str, str]]:
    width = world.scenario.width_us
    for machine in world.sources:
        closed, rows = 0, 0
        partition = world.log.broker.partition(machine.feed)
        for record in world.log.committed(machine.feed):
            try:
                header, _ = unpack_source(record.value)
            except EnvelopeError:
                continue
            if not isinstance(header, BatchHeader) or header.app_uid != world.wiring.app_uid:
                continue
            at = partition.appended_us[record.offset]
            stimes = memoryview(header.stimes).cast("q") if header.stimes else ()
            rows += sum(1 for stime in stimes if stime // width == bucket)
            boundary = min(header.boundary or 0, 2**62) // width
            if closed <= bucket - 1 < boundary:
                yield at, machine.name, f"opens it: boundary {boundary} (offset {record.offset})"
            if closed <= bucket < boundary:
                yield at, machine.name, f"closes it with {rows} rows in the log"
            closed = max(closed, boundary)


def _streams(world: SimulatedWorld, bucket: int) -> Iterator[tuple[int, str, str]]:
    for plan in world.scenario.nodes:
        for k in range(plan.replicas):
            for p, feed in enumerate(topics.own_feeds(APP, plan.name, k, plan.exchange)):
                name, partition = f"{plan.name}.r{k}" + f"/{p}" * (plan.exchange > 1), world.log.broker.partition(feed)
                for record in world.log.committed(feed):
                    said = _said(record.value, bucket, world.wiring.app_uid)
                    if said is not None:
                        yield partition.appended_us[record.offset], name, f"{said} (offset {record.offset})"


def _said(value: bytes | None, bucket: int, app_uid: str) -> str | None:
    try:
        header, payload = unpack_stream(value)
    except EnvelopeError:
        return None
    if header.app_uid != app_uid:
        return None
    if isinstance(header, RangeHeader) and header.first <= bucket < header.end:
        return f"STABLE and empty, with [{header.first}, {header.end}), inc {header.inc}"
    if isinstance(header, StableHeader) and header.bucket == bucket:
        part = f", part {header.part + 1} of {header.parts}" if header.parts > 1 else ""
        return f"STABLE, {len(payload)} bytes{part}, held {header.waited_us / 1e6:g} s, inc {header.inc}"
    if isinstance(header, TentativeHeader) and header.bucket == bucket:
        missing_sources = (
            f"{', '.join(header.missing_sources) or 'nothing'} ({', '.join(header.missing) or 'nothing'} itself)"
        )
        return (
            f"TENTATIVE, {len(payload)} bytes, lacks {missing_sources}, completeness {header.completeness:.2f}, "
            f"diverged from {header.diverged_from}, held {header.waited_us / 1e6:g} s, inc {header.inc}"
        )
    if isinstance(header, UndoHeader | RecDoneHeader) and header.bucket == bucket:
        return "UNDO from it" if isinstance(header, UndoHeader) else "REC_DONE up to it"
    return None


def _published(world: SimulatedWorld, bucket: int) -> Iterator[tuple[int, str, str]]:
    for plan in world.scenario.nodes:
        feed = Feed(topics.progress(APP, plan.name))
        partition = world.log.broker.partition(feed)
        for record in world.log.committed(feed):
            progress = read_progress(record, Life(world.wiring.app_uid), world.origin)
            if progress is not None and progress > bucket:
                yield partition.appended_us[record.offset], plan.name, f"published, progress {progress}"
                break
