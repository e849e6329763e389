"""Checks dead letters against a model: each unusable item has exactly one."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from typing import Any

from borealis_py.verify.anomalies import AnomalyKind, Subject, Verdict
from borealis_py.verify.envelope import Value
from borealis_py.verify.evidence import Evidence
from borealis_py.verify.network import stime_of
from borealis_py.verify.values import in_json

Letter = tuple[Value, ...]


def judge_dead_letters(evidence: Evidence, verdict: Verdict) -> None:
    """Each unusable tuple has exactly one dead letter, whether the log, its publisher or a kernel refused it."""
    of_logs = Counter[Letter]((d.source, d.offset, d.seq) for d in evidence.dead_letters if d.offset >= 0)
    _judge_letters(evidence, of_logs, _in_logs(evidence), ("source", "offset", "refused tuple"), verdict)
    names = *evidence.network.columns, "stime"
    told = [(d, _values(d.raw, names)) for d in evidence.dead_letters if d.offset < 0 and d.gap is None]
    of_kernels = Counter[Letter]((d.node, d.bucket, *values) for d, values in told)
    _judge_letters(evidence, of_kernels, _in_kernels(evidence), ("node", "bucket", *names), verdict)
    verdict.looked_at["dead letters"] += of_logs.total()
    verdict.looked_at["refused by kernels"] += of_kernels.total()


def _judge_letters(
    evidence: Evidence, found: Counter[Letter], expected: Counter[Letter], names: Sequence[str], verdict: Verdict
) -> None:
    def text(letter: Letter) -> str:
        return ", ".join(f"{name} {value!r:.80}" for name, value in zip(names, letter, strict=True))

    say = verdict.about(Subject.DEAD_LETTERS)
    for letter, n in (found - expected).items():
        say(AnomalyKind.DUPLICATE, "dead letters", f"{text(letter)}: {n} too many")
    if evidence.healed:
        for letter, n in (expected - found).items():
            say(AnomalyKind.LOST_WRITE, "dead letters", f"{text(letter)}: {n} missing")


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
    return Counter((stage.parts[stage.part_of(row)], stime_of(row) // width, *map(_plain, row)) for row in rows)


def _plain(value: Any) -> Any:
    """As JSON has it, in a form that can be counted."""
    said = in_json(value)
    return json.dumps(said) if isinstance(said, dict | list) else said


def _values(raw: bytes, names: Sequence[str]) -> Letter:
    """A row as its dead letter has it, its fields in this order; what is no such row, as it lies there."""
    try:
        row = json.loads(raw)
        if set(row) == set(names):
            return tuple(_plain(row[name]) for name in names)
    except (ValueError, TypeError):
        pass
    return tuple([repr(raw)] * len(names))
