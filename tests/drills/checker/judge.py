"""The door: evidence in, verdict out."""

from __future__ import annotations

from tests.drills.checker.evidence import Evidence
from tests.drills.checker.explain import Explainer, Words
from tests.drills.checker.network import Truth
from tests.drills.checker.published import judge_corrected, judge_dead_letters, judge_progress, judge_sources
from tests.drills.checker.seen import judge_bound, judge_session
from tests.drills.checker.streams import judge_piece
from tests.drills.checker.words import Verdict


def judge(evidence: Evidence) -> Verdict:
    """Judge one query's run."""
    verdict = Verdict()
    truth = Truth(evidence.network, {s: log.rows for s, log in evidence.sources.items()})
    judge_sources(evidence, verdict)
    pieces = [piece for stage in range(len(evidence.network.stages)) for piece in evidence.network.pieces(stage)]
    explainer = Explainer(truth, Words.gathered(evidence.replicas))
    said = {piece: judge_piece(evidence, truth, explainer, piece, verdict) for piece in pieces}
    judge_corrected(evidence, truth, verdict)
    judge_progress(evidence, verdict)
    judge_dead_letters(evidence, verdict)
    for session in evidence.sessions:
        judge_session(evidence, session, said, verdict)
    judge_bound(evidence, verdict)
    return verdict
