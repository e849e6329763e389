"""Checks corrected rows and progress against a model, and the sources' logs that the model starts from."""

from __future__ import annotations

from itertools import pairwise

from borealis_py.verify.anomalies import AnomalyKind, Subject, Verdict
from borealis_py.verify.envelope import Row
from borealis_py.verify.evidence import CommittedRow, Evidence
from borealis_py.verify.network import Truth, agrees, same, stime_of
from borealis_py.verify.partitions import Piece
from borealis_py.verify.spans import Spans


def judge_sources(evidence: Evidence, verdict: Verdict) -> None:
    """Every tuple that its publisher numbered, and all that it was told is there, lies in the source's log."""
    say = verdict.about(Subject.SOURCE)
    for source, log in evidence.sources.items():
        verdict.looked_at["source tuples"] += len(log.rows)
        _judge_published(evidence, source, verdict)
        if log.missing:
            say(AnomalyKind.LOST_WRITE, source, f"no tuples {log.missing[:5]}, {len(log.missing)} in all")
        _judge_poison(evidence, source, verdict)
        if log.gone:
            refused = sorted(log.gone)
            say(AnomalyKind.LOST_WRITE, source, f"tuples {refused[:5]}, {len(refused)} in all, came late or malformed")
        last = max((*log.seqs, *log.gone, *log.refused), default=-1)
        told = evidence.acknowledged.get(source, -1)
        if told > last:
            say(AnomalyKind.LOST_WRITE, source, f"tuple {told} was acknowledged, the log ends with {last}")
        if evidence.healed and not log.ended:
            say(AnomalyKind.LOST_WRITE, source, "all has healed, and the source's END is not in its log")


def _judge_published(evidence: Evidence, source: str, verdict: Verdict) -> None:
    """Its log holds the rows that its publishers were given, in their order, and no others."""
    if source not in evidence.published:
        return
    found, given = evidence.sources[source].rows, evidence.published[source]
    verdict.looked_at["tuples given"] += len(given)
    say = verdict.about(Subject.SOURCE)
    if len(found) < len(given):
        say(AnomalyKind.LOST_WRITE, source, f"{len(found)} of {len(given)} tuples that were published are in the log")
    elif len(found) > len(given):
        say(AnomalyKind.DUPLICATE, source, f"{len(found)} tuples are in the log, {len(given)} were published")
    for n, (row, wanted) in enumerate(zip(found, given, strict=False)):
        if not agrees([row], [wanted]):
            say(AnomalyKind.INCONSISTENT_OFFSETS, source, f"tuple {n} is {row}, published was {wanted}")


def _judge_poison(evidence: Evidence, source: str, verdict: Verdict) -> None:
    """The publisher refused exactly the items that it could not use."""
    say = verdict.about(Subject.SOURCE)
    log, poison = evidence.sources[source], evidence.poison.get(source, {})
    meant = {seq for seq, row in poison.items() if not row}
    if wrong := sorted(log.refused.keys() - meant):
        say(AnomalyKind.LOST_WRITE, source, f"tuples {wrong[:5]}, {len(wrong)} in all, were refused by their publisher")
    if wrong := sorted(meant & {*log.seqs}):
        say(AnomalyKind.INCONSISTENT_OFFSETS, source, f"{wrong[:5]}, {len(wrong)} in all, are no rows and were taken")
    refuses = evidence.network.stages[0].refuses
    usable = [n for n, row in zip(log.seqs, log.rows, strict=True) if poison.get(n) and not (refuses and refuses(row))]
    if usable:
        say(AnomalyKind.INCONSISTENT_OFFSETS, source, f"{usable[:5]}, {len(usable)} in all, are not as they were sent")


def judge_corrected(evidence: Evidence, truth: Truth, verdict: Verdict) -> None:
    """Every result below the frontier once, in order, right, in its partition, and nothing else."""
    verdict.looked_at["aborted rows"] += len(evidence.aborted)
    for piece in evidence.result:
        _judge_partition(evidence, truth, piece, verdict)


def _judge_partition(evidence: Evidence, truth: Truth, piece: Piece, verdict: Verdict) -> None:
    say = verdict.about(Subject.CORRECTED)
    name = _corrected(evidence, piece)
    expected = {(b, i): row for b, rows in truth.stable(piece).items() for i, row in enumerate(rows)}
    until = evidence.complete_until if evidence.healed else last_progress(evidence, -1, piece.part)
    lost = evidence.lost.get(piece.part, Spans())
    seen: set[tuple[int, int]] = set()
    last = (-1, -1)
    for row in evidence.corrected:
        if row.partition != piece.part:
            continue
        verdict.looked_at["corrected rows"] += 1
        if row.id is None:
            say(AnomalyKind.INCONSISTENT_OFFSETS, name, f"offset {row.offset}: no readable id or stime")
        elif row.id in seen:
            say(AnomalyKind.DUPLICATE, name, f"offset {row.offset}: id {show(row.id)} again")
        else:
            if row.id < last:
                say(AnomalyKind.NONMONOTONIC_POLL, name, f"offset {row.offset}: {show(row.id)} after {show(last)}")
            seen.add(row.id)
            last = max(last, row.id)
            if row.id[0] in lost:
                say(AnomalyKind.ABORTED_READ, name, f"offset {row.offset}: {show(row.id)} was published as lost")
            _content(row, expected.get(row.id), evidence, name, verdict)
    missing = [i for i in sorted(expected) if i[0] < until and i not in seen and i[0] not in lost]
    if missing:
        say(AnomalyKind.LOST_WRITE, name, f"{len(missing)} results are missing, the first is {show(missing[0])}")


def _corrected(evidence: Evidence, piece: Piece) -> str:
    return f"corrected {evidence.network.stages[-1].parts[piece.part]}"


def _content(row: CommittedRow, expected: Row | None, evidence: Evidence, name: str, verdict: Verdict) -> None:
    assert row.id is not None
    say = verdict.about(Subject.CORRECTED)
    if expected is None:
        say(AnomalyKind.UNLABELLED_PARTIAL, name, f"id {show(row.id)}: there is no such result: {row.row}")
        return
    wanted = dict(zip(evidence.network.stages[-1].columns, expected[:-1], strict=True))
    found = row.row or {}
    right = found.keys() == wanted.keys() and all(same(found[c], v) for c, v in wanted.items())
    if not right or row.stime != stime_of(expected):
        say(AnomalyKind.UNLABELLED_PARTIAL, name, f"id {show(row.id)}: is {row.row}, expected {wanted}")


def judge_progress(evidence: Evidence, verdict: Verdict) -> None:
    """Progress grows, never beyond what the sources closed, and rows lie below it."""
    say = verdict.about(Subject.PROGRESS)
    for n, stage in enumerate(evidence.network.stages):
        for part, name in enumerate(stage.parts):
            _judge_progress(evidence, n, part, f"progress of {name}", verdict)
    for piece in evidence.result:
        rows = [r.id for r in evidence.corrected if r.id is not None and r.partition == piece.part]
        ahead = [i for i in rows if i[0] >= last_progress(evidence, -1, piece.part)]
        if ahead:
            name = _corrected(evidence, piece)
            say(AnomalyKind.INCONSISTENT_OFFSETS, name, f"{len(ahead)} rows lie beyond the progress, {show(ahead[0])}")


def _judge_progress(evidence: Evidence, stage: int, part: int, name: str, verdict: Verdict) -> None:
    say = verdict.about(Subject.PROGRESS)
    records = [r for r in evidence.progress[stage] if r.partition == part]
    for record in records:
        if record.bucket < 0:
            say(AnomalyKind.INCONSISTENT_OFFSETS, name, f"unreadable record: offset {record.offset}")
    records = [r for r in records if r.bucket >= 0]
    verdict.looked_at["progress records"] += len(records)
    for before, after in pairwise(records):
        if after.bucket < before.bucket:
            say(AnomalyKind.INCONSISTENT_OFFSETS, name, f"fell from {before.bucket} to {after.bucket}")
    last = last_progress(evidence, stage, part)
    if last > evidence.complete_until:
        say(
            AnomalyKind.INCONSISTENT_OFFSETS,
            name,
            f"{last}, a source is closed below {evidence.complete_until} only",
        )
    if evidence.healed and last < evidence.complete_until:
        say(AnomalyKind.INCONSISTENT_OFFSETS, name, f"stays at {last}, complete until {evidence.complete_until}")


def last_progress(evidence: Evidence, stage: int, part: int) -> int:
    """How far the last progress record of a stage's partition says."""
    records = [r for r in evidence.progress[stage] if r.partition == part and r.bucket >= 0]
    return records[-1].bucket if records else 0


def show(row_id: tuple[int, int]) -> str:
    """An id as it stands in the header."""
    return f"{row_id[0]}:{row_id[1]}"
