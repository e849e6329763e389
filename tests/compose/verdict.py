"""What lies on the broker in the end, judged twice: by the drills' checker and by the demo's, which share no code with
the product. The first has the corrected streams, progress, dead letters, and what the subscriber printed; the second
recomputes every stable and tentative statement of every replica with pandas.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.compose.compose import ROOT
from tests.compose.network import NETWORKS, all_comparable, comparable
from tests.drills.checker import Verdict, read_evidence
from tests.drills.checker.evidence import Saw, Session
from tests.drills.checker.network import Truth
from tests.drills.checker.published import judge_corrected, judge_dead_letters, judge_progress, judge_sources
from tests.drills.checker.seen import judge_session

REPLICAS = 2
PRINTED = "carrier_delays"
"""The query that the subscriber follows."""


def judge_query(bootstrap: str, app: str, query: str, origin_us: int, printed: str) -> Verdict:
    """The corrected stream of one query.

    Args:
        origin_us: start of the app's first bucket.
        printed: what the subscriber wrote, JSON lines.
    """
    evidence = read_evidence(bootstrap, app, NETWORKS[query], [REPLICAS], origin_us)
    evidence.corrected, evidence.written = all_comparable(evidence.corrected), all_comparable(evidence.written)
    verdict = Verdict()
    judge_sources(evidence, verdict)
    judge_corrected(evidence, Truth(evidence.network, {s: log.rows for s, log in evidence.sources.items()}), verdict)
    judge_progress(evidence, verdict)
    judge_dead_letters(evidence, verdict)
    if query == PRINTED:
        judge_session(evidence, session_of(printed), {}, verdict)
    return verdict


def session_of(printed: str) -> Session:
    """The subscriber's output as the checker takes it."""
    seen = []
    for line in printed.splitlines():
        row = json.loads(line)
        bucket, index = map(int, row["id"].split(":"))
        seen.append(Saw(0, "ROW", bucket, bucket + 1, (comparable(row["value"]),), index=index))
    return Session("subscriber", "corrected", seen)


def judge_statements(bootstrap: str, app: str, origin_us: int, days: int, out: Path) -> dict[str, object]:
    """The demo's checker in a process of its own: its report."""
    command = [sys.executable, "-m", "borealis_py.demo.checker", "--bootstrap", bootstrap, "--app", app]
    command += ["--t0-us", str(origin_us), "--days", str(days), "--replicas", str(REPLICAS), "--out", str(out)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=False)
    if not out.exists():
        raise AssertionError(f"the demo's checker gave no verdict: {done.stderr[-2000:]}")
    report: dict[str, object] = json.loads(out.read_text())
    return report
