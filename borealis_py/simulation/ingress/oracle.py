"""Judges what ingresses have copied: by reading both topics with code of its own.

Every committed record from where copying began is in the source or among the dead letters of one input, once, or in a
named loss; in the right input; and no row that came in time is late, unless its partition was given up. Where the
source is to end, that holds of records that were there before, unless their partition was given up when END came; all
inputs have END, and nothing after it.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from borealis_py.log.base import Record
from borealis_py.simulation.ingress.producers import Sent
from borealis_py.simulation.ingress.scenario import SHOPS, TOPIC, IngressScenario
from borealis_py.simulation.log.broker import Partition
from sunion.model import FOREVER

AHEAD_US = 60_000_000
OBEYED_US = 2_000_000
"""How long after users have set it, an ingress may still go by what was set before."""
WAY_US = 1_000_000
"""How long END may be on its way."""
_HEAD = struct.Struct(">2sBI")
_LOST = re.compile(r"lost: .*\[(\d+)\], offsets (\d+) to (\d+): ")
_MADE_AGAIN = re.compile(r"made again: (.*?\[\d+\]) ")


@dataclass(slots=True)
class InputJudged:
    """What an input's log holds by the rules of A2. `numbers`: of its rows. `letters`: (reason, bytes, topic
    id) of what its ingresses refused. `broken`: what must not be in it. `first`: the first offset named for each
    partition, and the topic id with it. `boundary`: the last promise. `end_at`: the offset of END; None: it is not
    there."""

    numbers: list[int] = field(default_factory=list)
    letters: list[tuple[str, bytes, str]] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    first: dict[int, tuple[int, str]] = field(default_factory=dict)
    boundary: int = 0
    end_at: int | None = None


def judge_input(records: Sequence[Record], origin_us: int) -> InputJudged:
    """Read one input's log."""
    found = InputJudged(boundary=origin_us)
    epoch, owner, last, lateness = 0, "", -1, 0
    for record in records:
        header, payload = _opened(record.value or b"")
        if header[0] == "EPOCH":
            if header[2] > epoch:
                epoch, owner, lateness = header[2], header[3], header[4]
            continue
        _, _, of, uid, first, stimes, boundary, _, _, rejects, at, topic_id, _ = header
        if (of, uid) != (epoch, owner):
            continue
        for p, offset in at:  # one that comes with its first rows is new, and copied from its beginning
            found.first.setdefault(p, (0 if stimes or rejects else offset, topic_id))
        refused = {one[0]: one for one in rejects}
        rows = iter(zip(struct.unpack(f"<{len(stimes) // 8}q", stimes), _rows(payload), strict=True))
        for seq in range(first, first + len(stimes) // 8 + len(refused)):
            if found.boundary >= FOREVER:
                found.broken.append(f"offset {record.offset}: position {seq} after END")
            if seq != last + 1:
                found.broken.append(f"offset {record.offset}: position {seq} follows {last}")
            last = seq
            if seq in refused:
                found.letters.append((refused[seq][1], refused[seq][2], topic_id))
                continue
            stime, row = next(rows)
            found.numbers.append(row["n"])
            if stime != row["at"]:
                found.broken.append(f"offset {record.offset}: a row of {row['at']} has stime {stime}")
            if not found.boundary <= stime < found.boundary + lateness + AHEAD_US:
                found.broken.append(f"offset {record.offset}: stime {stime}, boundary {found.boundary}")
        found.boundary = max(found.boundary, boundary)
        if boundary >= FOREVER and found.end_at is None:
            found.end_at = record.offset
    return found


@dataclass(frozen=True, slots=True)
class TopicLife:
    """A topic from when it was made, under this id, until it was deleted, if it was."""

    id: str
    partitions: Sequence[Partition]

    @property
    def deleted(self) -> bool:
        return self.partitions[0].deleted


def judge(
    scenario: IngressScenario,
    lives: Sequence[TopicLife],
    inputs: Sequence[InputJudged],
    source: Sequence[Partition],
    sent: Mapping[bytes, Sent],
    origin_us: int,
) -> Iterator[str]:
    """What is wrong: nothing, if every promise held.

    Args:
        lives: of the topic, the last one lasts.
        source: the inputs' logs, which `inputs` were judged by.
        origin_us: rows before it are late in any case.
    """
    end_us = None if scenario.end_us is None else origin_us + scenario.end_us
    yield from _inputs(inputs, len(lives), end_us)
    yield from _late(scenario, lives, inputs, sent, origin_us)
    copies = _copies(inputs)
    yield from _records(scenario, lives, inputs, source, sent, origin_us, copies)
    left = copies.counts.items()
    yield from (f"input {i}: {what!r} {count} times, which nobody wrote there" for (i, what), count in left)


def _inputs(inputs: Sequence[InputJudged], lives: int, end_us: int | None) -> Iterator[str]:
    """What is wrong with the inputs by themselves. `end_us`: when the source is to end."""
    for i, judged in enumerate(inputs):
        yield from (f"input {i}: {what}" for what in judged.broken)
        if (judged.boundary >= FOREVER) is not (end_us is not None):
            yield f"input {i}: its boundary is {judged.boundary}, the source is to end at {end_us}"
        made_again = Counter(told[1] for reason, _, _ in judged.letters if (told := _MADE_AGAIN.match(reason)))
        yield from (f"input {i}: {p} is made again {n} times" for p, n in made_again.items() if n >= lives)


@dataclass(slots=True)
class _Copies:
    """What the inputs hold. `counts`: how often an input has a row (by its number) or a refused record (by its bytes).
    `lost`: the offsets named as lost, by input, topic id and partition."""

    counts: Counter[tuple[int, object]] = field(default_factory=Counter)
    lost: dict[tuple[int, str, int], set[int]] = field(default_factory=dict)


def _copies(inputs: Sequence[InputJudged]) -> _Copies:
    found = _Copies()
    for i, judged in enumerate(inputs):
        for reason, raw, topic_id in judged.letters:
            if (told := _LOST.match(reason)) is not None:
                p, low, high = map(int, told.groups())
                found.lost.setdefault((i, topic_id, p), set()).update(range(low, high + 1))
            elif _MADE_AGAIN.match(reason) is None:
                found.counts[i, raw] += 1
        for number in judged.numbers:
            found.counts[i, number] += 1
    return found


def _records(
    scenario: IngressScenario,
    lives: Sequence[TopicLife],
    inputs: Sequence[InputJudged],
    source: Sequence[Partition],
    sent: Mapping[bytes, Sent],
    origin_us: int,
    copies: _Copies,
) -> Iterator[str]:
    """What is wrong with the copies of each record, which are taken out of `copies.counts`."""
    blind, frozen, unwatched = _blind(scenario), _frozen(scenario, lives[-1]), _unwatched(scenario)
    end_us = FOREVER if scenario.end_us is None else origin_us + scenario.end_us
    for life, partition in _partitions(lives):
        p = partition.feed.partition
        begin = _begun(lives, life, p, inputs)
        for record in (r for r in partition.records[: partition.stable_end] if r is not None):
            one = sent[record.value or b""]
            into = _input_of(scenario, p, one, len(inputs))
            row = copies.counts.pop((into, one.number), 0) if one.number is not None else 0
            count = row + copies.counts.pop((into, one.value), 0)
            name = f"{life.id} {TOPIC}[{p}], offset {record.offset}"
            after_end = partition.appended_us[record.offset] > end_us
            unseen = blind and p >= scenario.partitions
            at_end = _given_up_at(scenario, p, source[into], inputs[into].end_at, origin_us)
            left = after_end or frozen or unseen or at_end
            if record.offset < begin:
                if count:
                    yield f"{name}: copied, although copying began at {begin}"
            elif record.offset in copies.lost.get((into, life.id, p), ()):
                if count or record.offset >= partition.start:
                    yield f"{name}: called lost, copied {count} times, the log begins at {partition.start}"
            elif count == 2 and life is not lives[0] and unwatched:
                continue
            elif count != 1 and not ((left or life.deleted) and count == 0):
                yield f"{name}: copied {count} times instead of once"


def _input_of(scenario: IngressScenario, p: int, one: Sent, inputs: int) -> int:
    """The input into which a record of partition `p` goes, as a row or as a dead letter."""
    spec = scenario.spec
    if spec.by is None:
        return p % spec.inputs
    if one.number is None:
        return inputs - 1
    return len(SHOPS) - 1 if one.shop not in spec.values else spec.values.index(one.shop)


def _blind(scenario: IngressScenario) -> bool:
    """Whether all partitions were given up when END came: then nobody need learn that there is one more, and END does
    not wait for that."""
    return scenario.end_us is not None and any(
        at_us <= scenario.end_us + OBEYED_US and scenario.end_us < until_us + OBEYED_US
        for at_us, until_us in scenario.abandoned()
    )


def _frozen(scenario: IngressScenario, life: TopicLife) -> bool:
    """Whether nothing moves boundaries: rows far ahead of them wait, and those behind them do."""
    given_up = [scenario.skipped(partition.feed.partition)[-1:] for partition in life.partitions]
    return scenario.spec.boundary == "data" and all(last and last[0][1] >= FOREVER for last in given_up)


def _partitions(lives: Sequence[TopicLife]) -> Iterator[tuple[TopicLife, Partition]]:
    """All partitions of all lives, in order."""
    return ((life, partition) for life in lives for partition in life.partitions)


def _unwatched(scenario: IngressScenario) -> bool:
    """Whether an ingress that read the topic when it was made again may not have looked in between: then rows of it may
    be copied at the old offsets, and again, or come late (A8.11)."""
    if (again := scenario.made_again) is None or again.down:
        return False
    begin_us, end_us = again.at_us - OBEYED_US, again.again_us + OBEYED_US
    times = [(f.at_us, f.until_us) for f in scenario.faults] + [
        (jump.at_us, jump.until_us) for jump in scenario.jumps if jump.ahead_us < 0
    ]
    return any(at_us < end_us and until_us > begin_us for at_us, until_us in times)


def _begun(lives: Sequence[TopicLife], life: TopicLife, p: int, inputs: Sequence[InputJudged]) -> int:
    """The offset from which a partition is to be copied. One that the topic got later, or when it was made again, is
    copied from its beginning."""
    named = [judged.first[p] for judged in inputs if p in judged.first]
    first = next((one for one in lives if any(topic_id == one.id for _, topic_id in named)), None)
    if first is None or life is not first:
        return FOREVER if first is not None and lives.index(life) < lives.index(first) else 0
    return min(offset for offset, topic_id in named if topic_id == life.id)


def _given_up_at(scenario: IngressScenario, p: int, source: Partition, end_at: int | None, origin_us: int) -> bool:
    """Whether an ingress may have given this partition up when it wrote END: what is in it may never be copied."""
    if end_at is None:
        return False
    came_us = source.appended_us[end_at] - origin_us
    return any(at <= came_us < until_us + OBEYED_US + WAY_US for at, until_us in scenario.skipped(p))


def _late(
    scenario: IngressScenario,
    lives: Sequence[TopicLife],
    inputs: Sequence[InputJudged],
    sent: Mapping[bytes, Sent],
    origin_us: int,
) -> Iterator[str]:
    """Rows that were called late or in the future, and were not."""
    spec, largest, unwatched = scenario.spec, Counter[int](), _unwatched(scenario)
    said = {raw: reason for judged in inputs for reason, raw, _ in judged.letters}
    for life, partition in _partitions(lives):
        p, missed = partition.feed.partition, unwatched and life is not lives[0]
        for record in partition.records[: partition.stable_end]:
            if record is None:
                continue
            one, came = sent[record.value or b""], partition.appended_us[record.offset]
            if one.stime is None:
                continue
            reason = said.get(one.value, "")
            by_rows = one.stime < largest[p] - spec.lateness_us
            by_clock = spec.boundary == "clock" and one.stime < _promised(scenario, came - origin_us) + origin_us
            given_up = any(
                one.stime < origin_us + until_us + OBEYED_US - spec.lateness_us for _, until_us in scenario.skipped(p)
            )
            # `aged`: others' rows may have moved the boundary before it was there
            # `unknown`: while all are given up the clock goes on, and nobody need have learned that there is one more
            unknown = p >= scenario.partitions and any(
                came - origin_us < min(until_us, scenario.heal_us) + OBEYED_US for _, until_us in scenario.abandoned()
            )
            aged = p >= scenario.partitions and not largest[p] and one.stime < came - spec.lateness_us
            # by the data, too, nobody waits for a partition that, by the copying process's clock, was not there yet
            ahead = (spec.boundary == "clock" or p >= scenario.partitions) and any(
                came - origin_us > jump.at_us and one.stime < origin_us + jump.until_us + jump.ahead_us
                for jump in scenario.jumps
                if jump.ahead_us > 0
            )
            known = by_rows or by_clock or given_up or unknown or aged or ahead or missed
            if reason.startswith("late") and not known and one.stime >= origin_us:
                yield f"{partition.feed}, offset {record.offset}: called late ({reason}), it came at {came}"
            if reason.startswith("future") and one.stime < came + AHEAD_US:
                yield f"{partition.feed}, offset {record.offset}: called future, it came at {came}"
            if not reason.startswith("future"):
                largest[p] = max(largest[p], one.stime)


def _promised(scenario: IngressScenario, came_us: int) -> int:
    """The most that an ingress may have promised by the clock before a record came (both after the start)."""
    most = -FOREVER
    for until_us, expect_us in scenario.expected():
        most = max(most, min(until_us + OBEYED_US, came_us) - scenario.spec.lateness_us - (expect_us or 0))
    return most


def _opened(value: bytes) -> tuple[list[Any], bytes]:
    magic, version, size = _HEAD.unpack_from(value)
    assert (magic, version) == (b"BZ", 2)
    return msgspec.msgpack.decode(value[_HEAD.size : _HEAD.size + size]), value[_HEAD.size + size :]


def _rows(payload: bytes) -> list[dict[str, Any]]:
    if not payload:
        return []
    with pa.ipc.open_stream(pa.py_buffer(payload)) as reader:
        rows: list[dict[str, Any]] = reader.read_all().to_pylist()
    return rows
