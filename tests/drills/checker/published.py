"""What was committed: corrected rows, progress and dead letters against the sources' logs."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from tests.drills.checker.evidence import Evidence, Published
from tests.drills.checker.network import Row, Truth, stime_of
from tests.drills.checker.parts import Piece
from tests.drills.checker.words import Verdict, Word


def judge_sources(evidence: Evidence, verdict: Verdict) -> None:
    """Every tuple that its publisher numbered, and all that it was told is there, lies in the source's log."""
    for source, log in evidence.sources.items():
        verdict.looked_at["source tuples"] += len(log.rows)
        if log.missing:
            verdict.say(Word.LOST_WRITE, source, f"no tuples {log.missing[:5]}, {len(log.missing)} in all")
        if log.gone:
            refused = sorted(log.gone)
            verdict.say(Word.LOST_WRITE, source, f"tuples {refused[:5]}, {len(refused)} in all, came late or malformed")
        last = max((*log.seqs, *log.gone), default=-1)
        told = evidence.acknowledged.get(source, -1)
        if told > last:
            verdict.say(Word.LOST_WRITE, source, f"tuple {told} was acknowledged, the log ends with {last}")
        if evidence.healed and not log.ended:
            verdict.say(Word.LOST_WRITE, source, "all has healed, and the source's END is not in its log")


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


def judge_dead_letters(evidence: Evidence, verdict: Verdict) -> None:
    """Each tuple that cannot be used is there once; those that a publisher refused itself are not judged."""
    found = Counter((d.source, d.offset) for d in evidence.dead_letters if d.offset >= 0)
    expected = Counter({(s, o): n for s, log in evidence.sources.items() for o, n in log.dead.items() if n})
    verdict.looked_at["dead letters"] += sum(found.values())
    for (source, offset), n in sorted((found - expected).items()):
        verdict.say(Word.DUPLICATE, "dead letters", f"{source}, offset {offset}: {n} too many")
    if evidence.healed:
        for (source, offset), n in sorted((expected - found).items()):
            verdict.say(Word.LOST_WRITE, "dead letters", f"{source}, offset {offset}: {n} missing")


def last_progress(evidence: Evidence, stage: int, part: int) -> int:
    """How far the last progress record of a stage's partition says."""
    records = [r for r in evidence.progress[stage] if r.partition == part]
    return records[-1].bucket if records else 0


def show(row_id: tuple[int, int]) -> str:
    """An id as it stands in the header."""
    return f"{row_id[0]}:{row_id[1]}"
