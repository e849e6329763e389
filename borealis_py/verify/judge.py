"""Judges a run for which there is a model: evidence in, verdict out."""

from __future__ import annotations

from functools import partial

from borealis_py.verify.anomalies import AnomalyKind, Subject, Verdict
from borealis_py.verify.dead_letters import judge_dead_letters
from borealis_py.verify.evidence import Evidence
from borealis_py.verify.explain import Explainer, Statements
from borealis_py.verify.network import Truth
from borealis_py.verify.partitions import Piece
from borealis_py.verify.published import judge_corrected, judge_progress, judge_sources
from borealis_py.verify.replicas import PieceModel, StreamJudge, StreamRules
from borealis_py.verify.stable import StableBuckets
from borealis_py.verify.subscribers import judge_bound, judge_subscriber


def judge(evidence: Evidence) -> Verdict:
    """Judge one query's run."""
    verdict = Verdict()
    truth = Truth(evidence.network, {s: log.rows for s, log in evidence.sources.items()})
    judge_sources(evidence, verdict)
    pieces = [piece for stage in range(len(evidence.network.stages)) for piece in evidence.network.pieces(stage)]
    explainer = Explainer(truth, Statements.gathered(evidence.replicas))
    said = {piece: judge_piece(evidence, truth, explainer, piece, verdict) for piece in pieces}
    judge_corrected(evidence, truth, verdict)
    judge_progress(evidence, verdict)
    judge_dead_letters(evidence, verdict)
    for history in evidence.subscribers:
        judge_subscriber(evidence, history, said, verdict)
    judge_bound(evidence, verdict)
    return verdict


def judge_piece(
    evidence: Evidence, truth: Truth, explainer: Explainer, piece: Piece, verdict: Verdict
) -> StableBuckets:
    """All replicas of one piece of a stage. Returns what was said first of each stable bucket."""
    sources = frozenset(evidence.network.sources)
    one_runs = piece.stage in evidence.one_runs
    depends, may_lose = partial(explainer.buckets, piece), piece in evidence.result
    rules = StreamRules(evidence.origin, sources, piece.stage > 0, depends, one_runs, may_lose)
    stream = StreamJudge(rules, verdict, PieceModel(truth, explainer, piece))
    for k, history in enumerate(evidence.replicas[piece]):
        stream.judge(name_of(evidence, piece, k), history)
    stream.judge_together(name_of(evidence, piece))
    if evidence.healed and stream.until < evidence.complete_until:
        what = f"no replica says more than until {stream.until}, complete until {evidence.complete_until}"
        verdict.say(AnomalyKind.LOST_WRITE, name_of(evidence, piece), what, Subject.STABLE)
    if piece in evidence.result:
        verdict.looked_at["stable results"] += sum(of.published.count for of in stream.said.contents.values())
        verdict.looked_at["tentative buckets"] += len(stream.tentative)
        verdict.looked_at["tentative results"] += sum(stream.tentative.values())
    return stream.said


def name_of(evidence: Evidence, piece: Piece, replica: int | None = None) -> str:
    """A topic without its app (or all replicas' at once), and its Kafka partition where there are several."""
    topic = f"{evidence.network.stages[piece.stage].parts[piece.part]}.r{'*' if replica is None else replica}"
    readers = sum(p.part == piece.part for p in evidence.network.pieces(piece.stage))
    return f"{topic}[{piece.reader}]" if readers > 1 else topic
