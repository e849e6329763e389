"""The expected result: a naive recomputation from the source logs that shares only record formats with the product.

Everything is held at once and nothing is optimised: fold each source (A2.2); for each node, sort all rows and
hash window by window.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from borealis_py.log.base import Record
from borealis_py.log.records import BatchHeader, ClaimHeader, EnvelopeError, unpack_source
from borealis_py.simulation.scenario import Scenario, SimulatedNode
from borealis_py.simulation.toy_query import POISON, UNLUCKY
from sunion.model import FOREVER

MODULUS = 2**61 - 1
TruthDeadLetter = tuple[str, int, str]
"""A dead letter: source, offset, first word of the reason."""


@dataclass
class SourceTruth:
    """The final content of one source's log. `rows` and `letters` by bucket; `closed`: first open bucket.

    `closings`: (first open bucket, offset of the record that made it so), ascending. By position in the publisher's
    input: `accepted`: (stime, value); `refused`: bucket of the dead letter, reason, raw, boundary before it.
    `begins`: for each bucket with rows, the offset of the first record that has one of them.
    """

    closed: int = 0
    closings: list[tuple[int, int]] = field(default_factory=list)
    rows: dict[int, list[tuple[int, str, int, int]]] = field(default_factory=dict)
    letters: dict[int, list[TruthDeadLetter]] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    accepted: dict[int, tuple[int, int]] = field(default_factory=dict)
    refused: dict[int, tuple[int, str, bytes, int]] = field(default_factory=dict)


def read_source(
    name: str, log: Sequence[Record], width_us: int, origin: int, ahead_max_us: int, app_uid: str
) -> SourceTruth:
    """Fold a log. Rows are (stime, "row", value, 0) in order of seq. Records of other lives of the app are ignored."""
    truth = SourceTruth()
    epoch, owner, last, boundary, lateness_us = 0, "", -1, origin * width_us, 0

    def letter(offset: int, reason: str) -> int:
        at = FOREVER // width_us - 1 if boundary >= FOREVER else boundary // width_us
        letters.append((at, (name, offset, reason)))
        return at

    letters: list[tuple[int, TruthDeadLetter]] = []
    for record in log:
        try:
            header, payload = unpack_source(record.value)
        except EnvelopeError:
            letter(record.offset, "not")
            continue
        if header.app_uid != app_uid:
            continue
        if isinstance(header, ClaimHeader):
            if header.lateness_us < 0 or header.epoch < 0:
                letter(record.offset, "not")
            elif header.epoch > epoch:
                epoch, owner, lateness_us = header.epoch, header.uid, header.lateness_us
            continue
        if not _in_order(header):
            letter(record.offset, "not")
            continue
        if (header.epoch, header.uid) != (epoch, owner):
            continue
        good, malformed = _tuples(header, bytes(payload))
        for _ in range(malformed):
            letter(record.offset, "malformed")
        refused = {r.seq: r for r in header.rejects}
        for seq, stime, value in sorted([*good, *((seq, 0, 0) for seq in refused)]):
            if seq <= last:
                continue
            if seq in refused:
                last = seq
                at = letter(record.offset, refused[seq].reason.split()[0].strip(":"))
                truth.refused[seq] = (at, refused[seq].reason, refused[seq].raw, boundary)
                continue
            if stime < boundary:
                letter(record.offset, "late")
                continue
            last = seq
            if stime >= boundary + lateness_us + ahead_max_us:
                letter(record.offset, "future")
                continue
            truth.accepted[seq] = (stime, value)
            truth.rows.setdefault(stime // width_us, []).append((stime, "row", value, 0))
            truth.begins.setdefault(stime // width_us, record.offset)
        if header.boundary is not None:
            boundary = max(boundary, header.boundary)
            truth.closings.append((boundary // width_us, record.offset))
    for bucket, found in letters:
        truth.letters.setdefault(bucket, []).append(found)
    truth.closed = min(boundary, FOREVER) // width_us
    return truth


def _in_order(header: BatchHeader) -> bool:
    """Whether its rejects lie inside the batch, each at its own position."""
    seqs = [r.seq for r in header.rejects]
    last = header.first_seq + len(header.stimes) // 8 + len(seqs) - 1
    return not seqs or (seqs == sorted(set(seqs)) and seqs[0] >= max(0, header.first_seq) and seqs[-1] <= last)


def _tuples(header: BatchHeader, payload: bytes) -> tuple[list[tuple[int, int, int]], int]:
    stimes = struct.unpack(f"<{len(header.stimes) // 8}q", header.stimes)
    if not stimes:
        return [], 0
    try:
        values: Any = json.loads(payload)
    except ValueError:
        return [], 1
    if not isinstance(values, list) or len(values) != len(stimes):
        return [], 1
    good, malformed, seq = [], 0, header.first_seq - 1
    taken = {r.seq for r in header.rejects}
    for i, stime in enumerate(stimes):
        seq += 1
        while seq in taken:
            seq += 1
        if isinstance(values[i], dict) and isinstance(values[i].get("v"), int):
            good.append((seq, stime, values[i]["v"]))
        else:
            malformed += 1
    return good, malformed


@dataclass(frozen=True)
class NodeTruth:
    """A node's failure-free output: rows and dead letters by bucket, for every bucket below `complete`."""

    complete: int
    rows: Mapping[int, list[list[Any]]]
    letters: Mapping[int, list[TruthDeadLetter]]

    def part(self, index: int, count: int) -> NodeTruth:
        """The content of one partition of its stream: rows by value, dead letters in the first."""
        rows = {b: [row for row in found if row[2] % count == index] for b, found in self.rows.items()}
        return NodeTruth(self.complete, {b: r for b, r in rows.items() if r}, {} if index else self.letters)


def compute_all(
    scenario: Scenario, sources: Mapping[str, SourceTruth], teller: Callable[[str], str]
) -> dict[str, NodeTruth]:
    """The output of each node, computed from sources and earlier nodes. `teller`: source -> the node that publishes its
    dead letters.
    """
    truths: dict[str, NodeTruth] = {}
    for node in scenario.nodes:
        streams = {
            other.name: truths[other.name].part(scenario.partition(node.name, other.name), other.exchange)
            for other in scenario.nodes
            if other.name in node.inputs
        }
        told = {name for name in node.inputs if name in sources and teller(name) == node.name}
        width_us, span, picks = scenario.width_us, scenario.span, scenario.picks(node)
        truths[node.name] = compute(node, sources, streams, width_us, span, told, picks)
    return truths


def compute(
    node: SimulatedNode,
    sources: Mapping[str, SourceTruth],
    streams: Mapping[str, NodeTruth],
    width_us: int,
    span: int,
    told: Collection[str],
    picks: Collection[int] = (),
) -> NodeTruth:
    """Run the toy query over everything that is complete. `told`: sources whose dead letters this node publishes."""
    complete = min(sources[name].closed if name in sources else streams[name].complete for name in node.inputs)
    everything: dict[int, list[tuple[int, int, str, int, int]]] = {}
    letters: dict[int, list[TruthDeadLetter]] = {}
    for index, name in enumerate(node.inputs):
        rows: Mapping[int, Sequence[Sequence[Any]]] = sources[name].rows if name in sources else streams[name].rows
        for bucket, found in rows.items():
            if bucket < complete:
                mine = everything.setdefault(bucket, [])
                own = found if index not in picks else [row for row in found if row[2] % node.parts == node.part]
                mine.extend((stime, index, kind, value, before) for stime, kind, value, before in own)
        for bucket, said in sources[name].letters.items() if name in told else ():
            if bucket < complete:
                letters.setdefault(bucket, []).extend(said)
    result: dict[int, list[list[Any]]] = {}
    for window in sorted({bucket // span for bucket in everything}):
        _window(node.name, window, everything, complete, width_us, span, result, letters)
    return NodeTruth(complete, result, letters)


def _window(
    name: str,
    window: int,
    everything: Mapping[int, list[tuple[int, int, str, int, int]]],
    complete: int,
    width_us: int,
    span: int,
    result: dict[int, list[list[Any]]],
    letters: dict[int, list[TruthDeadLetter]],
) -> None:
    digest = count = 0
    for bucket in range(window * span, window * span + span):
        for stime, index, kind, value, before in sorted(everything.get(bucket, []), key=lambda row: (row[0], row[1])):
            if value in (UNLUCKY, POISON):
                letters.setdefault(bucket, []).append((name, -1, "unlucky" if value == UNLUCKY else "poison"))
                continue
            digest = (digest * 1_000_003 + stime * 31 + index * 7 + value + before) % MODULUS
            count += 1
            if kind == "window" or value % 2 == 1:
                result.setdefault(bucket, []).append([stime, kind, value, digest])
    last = window * span + span - 1
    if count and last < complete:
        result.setdefault(last, []).append([(last + 1) * width_us - 1, "window", count, digest])
