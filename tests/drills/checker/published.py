"""What was committed: corrected rows, progress and dead letters against the sources' logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from tests.drills.checker.evidence import Evidence, Published
from tests.drills.checker.network import Row, Truth, Value, stime_of
from tests.drills.checker.parts import Piece
from tests.drills.checker.words import Verdict, Word


def judge_sources(evidence: Evidence, verdict: Verdict) -> None:
    """Every tuple that its publisher numbered, and all that it was told is there, lies in the source's log."""
    for source, log in evidence.sources.items():
        verdict.looked_at["source tuples"] += len(log.rows)
        if log.missing:
            verdict.say(Word.LOST_WRITE, source, f"no tuples {log.missing[:5]}, {len(log.missing)} in all")
        _judge_poison(evidence, source, verdict)
        if log.gone:
            refused = sorted(log.gone)
            verdict.say(Word.LOST_WRITE, source, f"tuples {refused[:5]}, {len(refused)} in all, came late or malformed")
        last = max((*log.seqs, *log.gone, *log.refused), default=-1)
        told = evidence.acknowledged.get(source, -1)
        if told > last:
            verdict.say(Word.LOST_WRITE, source, f"tuple {told} was acknowledged, the log ends with {last}")
        if evidence.healed and not log.ended:
            verdict.say(Word.LOST_WRITE, source, "all has healed, and the source's END is not in its log")


def _judge_poison(evidence: Evidence, source: str, verdict: Verdict) -> None:
    """What its publisher was given and could not use it refused, and nothing else."""
    log, poison = evidence.sources[source], evidence.poison.get(source, {})
    meant = {seq for seq, row in poison.items() if not row}
    if wrong := sorted(log.refused.keys() - meant):
        verdict.say(
            Word.LOST_WRITE, source, f"tuples {wrong[:5]}, {len(wrong)} in all, were refused by their publisher"
        )
    if wrong := sorted(meant & {*log.seqs}):
        verdict.say(Word.INCONSISTENT_OFFSETS, source, f"{wrong[:5]}, {len(wrong)} in all, are no rows and were taken")
    refuses = evidence.network.stages[0].refuses
    usable = [n for n, row in zip(log.seqs, log.rows, strict=True) if poison.get(n) and not (refuses and refuses(row))]
    if usable:
        verdict.say(Word.INCONSISTENT_OFFSETS, source, f"{usable[:5]}, {len(usable)} in all, are not as they were sent")


def judge_corrected(evidence: Evidence, truth: Truth, verdict: Verdict) -> None:
    """Every result below the frontier once, in order, right, in its partition, and nothing else."""
    verdict.looked_at["aborted rows"] += len(evidence.aborted)
    for piece in evidence.result:
        _judge_partition(evidence, truth, piece, verdict)


def _judge_partition(evidence: Evidence, truth: Truth, piece: Piece, verdict: Verdict) -> None:
    name = _corrected(evidence, piece)
    expected = {(b, i): row for b, rows in truth.stable(piece).items() for i, row in enumerate(rows)}
    until = evidence.complete_until if evidence.healed else last_progress(evidence, -1, piece.part)
    seen: set[tuple[int, int]] = set()
    last = (-1, -1)
    for row in evidence.corrected:
        if row.partition != piece.part:
            continue
        verdict.looked_at["corrected rows"] += 1
        if row.id is None:
            verdict.say(Word.INCONSISTENT_OFFSETS, name, f"offset {row.offset}: no readable id or stime")
        elif row.id in seen:
            verdict.say(Word.DUPLICATE, name, f"offset {row.offset}: id {show(row.id)} again")
        else:
            if row.id < last:
                verdict.say(Word.NONMONOTONIC_POLL, name, f"offset {row.offset}: {show(row.id)} after {show(last)}")
            seen.add(row.id)
            last = max(last, row.id)
            _content(row, expected.get(row.id), evidence, name, verdict)
    missing = [i for i in sorted(expected) if i[0] < until and i not in seen]
    if missing:
        verdict.say(Word.LOST_WRITE, name, f"{len(missing)} results are missing, the first is {show(missing[0])}")


def _corrected(evidence: Evidence, piece: Piece) -> str:
    return f"corrected {evidence.network.stages[-1].parts[piece.part]}"


def _content(row: Published, expected: Row | None, evidence: Evidence, name: str, verdict: Verdict) -> None:
    assert row.id is not None
    if expected is None:
        verdict.say(Word.UNLABELLED_PARTIAL, name, f"id {show(row.id)}: there is no such result: {row.row}")
        return
    wanted = dict(zip(evidence.network.stages[-1].columns, expected[:-1], strict=True))
    if row.row != wanted or row.stime != stime_of(expected):
        verdict.say(Word.UNLABELLED_PARTIAL, name, f"id {show(row.id)}: is {row.row}, expected {wanted}")


def judge_progress(evidence: Evidence, verdict: Verdict) -> None:
    """Progress grows, never beyond what the sources closed, and rows lie below it."""
    for n, stage in enumerate(evidence.network.stages):
        for part, name in enumerate(stage.parts):
            _judge_progress(evidence, n, part, f"progress of {name}", verdict)
    for piece in evidence.result:
        rows = [r.id for r in evidence.corrected if r.id is not None and r.partition == piece.part]
        ahead = [i for i in rows if i[0] >= last_progress(evidence, -1, piece.part)]
        if ahead:
            name = _corrected(evidence, piece)
            verdict.say(Word.INCONSISTENT_OFFSETS, name, f"{len(ahead)} rows lie beyond the progress, {show(ahead[0])}")


def _judge_progress(evidence: Evidence, stage: int, part: int, name: str, verdict: Verdict) -> None:
    records = [r for r in evidence.progress[stage] if r.partition == part]
    verdict.looked_at["progress records"] += len(records)
    for before, after in pairwise(records):
        if after.bucket < before.bucket:
            verdict.say(Word.INCONSISTENT_OFFSETS, name, f"fell from {before.bucket} to {after.bucket}")
    last = last_progress(evidence, stage, part)
    if last > evidence.complete_until:
        verdict.say(
            Word.INCONSISTENT_OFFSETS, name, f"{last}, but a source is closed below {evidence.complete_until} only"
        )
    if evidence.healed and last < evidence.complete_until:
        verdict.say(Word.INCONSISTENT_OFFSETS, name, f"stays at {last}, complete until {evidence.complete_until}")


Letter = tuple[Value, ...]


def judge_dead_letters(evidence: Evidence, verdict: Verdict) -> None:
    """Each tuple that cannot be used is there once, be it the log, its publisher or a kernel that refuses it."""
    of_logs = Counter[Letter]((d.source, d.offset, d.seq) for d in evidence.dead_letters if d.offset >= 0)
    _judge_letters(evidence, of_logs, _in_logs(evidence), ("source", "offset", "refused tuple"), verdict)
    names = *evidence.network.columns, "stime"
    told = [(d, _values(d.raw, names)) for d in evidence.dead_letters if d.offset < 0]
    of_kernels = Counter[Letter]((d.node, d.bucket, *values) for d, values in told)
    _judge_letters(evidence, of_kernels, _in_kernels(evidence), ("node", "bucket", *names), verdict)
    verdict.looked_at["dead letters"] += of_logs.total()
    verdict.looked_at["refused by kernels"] += of_kernels.total()


def _judge_letters(
    evidence: Evidence, found: Counter[Letter], expected: Counter[Letter], names: Sequence[str], verdict: Verdict
) -> None:
    def text(letter: Letter) -> str:
        return ", ".join(f"{name} {value!r:.80}" for name, value in zip(names, letter, strict=True))

    for letter, n in (found - expected).items():
        verdict.say(Word.DUPLICATE, "dead letters", f"{text(letter)}: {n} too many")
    if evidence.healed:
        for letter, n in (expected - found).items():
            verdict.say(Word.LOST_WRITE, "dead letters", f"{text(letter)}: {n} missing")


def _in_logs(evidence: Evidence) -> Counter[Letter]:
    """(source, offset, sequence number of what a publisher refused)."""
    expected = Counter[Letter]()
    for source, log in evidence.sources.items():
        refused = Counter(log.refused.values())
        expected += Counter((source, offset, seq) for seq, offset in log.refused.items())
        expected += Counter({(source, offset, -1): n - refused[offset] for offset, n in log.dead.items()})
    return expected


def _in_kernels(evidence: Evidence) -> Counter[Letter]:
    """(node, bucket, the row's values): of the first stage, where the row falls to."""
    stage, width = evidence.network.stages[0], evidence.network.bucket_us
    rows = [
        row for log in evidence.sources.values() for row in log.rows if stage.refuses is not None and stage.refuses(row)
    ]
    return Counter((stage.parts[stage.part_of(row)], stime_of(row) // width, *row) for row in rows)


def _values(raw: bytes, names: Sequence[str]) -> Letter:
    """A row as its dead letter has it, its fields in this order; what is no such row, as it lies there."""
    try:
        row = json.loads(raw)
        return tuple(row.pop(name) for name in names) if set(row) == set(names) else tuple([repr(raw)] * len(names))
    except (ValueError, AttributeError):
        return tuple([repr(raw)] * len(names))


def last_progress(evidence: Evidence, stage: int, part: int) -> int:
    """How far the last progress record of a stage's partition says."""
    records = [r for r in evidence.progress[stage] if r.partition == part]
    return records[-1].bucket if records else 0


def show(row_id: tuple[int, int]) -> str:
    """An id as it stands in the header."""
    return f"{row_id[0]}:{row_id[1]}"
