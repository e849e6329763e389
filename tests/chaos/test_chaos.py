"""A short piece of `make chaos`, with replicas in processes: five faults, then everything is there, once, and right.

Whether X is kept is judged there: among other tests, a bucket may be late for want of a core.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.__main__ import plan_of
from tests.chaos.arena import arena
from tests.chaos.faults import draw
from tests.chaos.report import timeline
from tests.chaos.run import Done, run
from tests.support.late import LATE
from tests.support.right import exactly

SEED = 1
KINDS = ("replica killed", "link cut", "connections reset", "source lost", "malformed burst")
LONGEST_S = 2.0


@pytest.mark.e2e
def test_five_faults_in_a_row_lose_repeat_and_change_nothing(tmp_path: Path) -> None:
    faults = draw(SEED, len(KINDS), KINDS, (0.5, 1.5), LONGEST_S)
    told: list[int] = []

    def note(done: list[Done]) -> None:
        told.append(sum(d.end_us is not None for d in done))

    with arena(plan_of("process", 4_000, "needed"), tmp_path) as it:
        done = run(it, faults, note)
        print(f"seed {SEED}", timeline(done, done[0].begin_us), sep="\n")
        verdict = it.end()
    with exactly():
        assert (verdict.kinds - LATE, verdict.undecided) == (set(), [])
    assert sorted(f.fault.kind for f in done) == sorted(KINDS)
    assert told[-1] == len(KINDS)
    assert all(
        verdict.looked_at[what] > 50
        for what in ("corrected rows", "tentative statements", "progress records", "buckets timed")
    )
    assert verdict.looked_at["dead letters"] >= 20
