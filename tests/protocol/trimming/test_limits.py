"""Whatever replicas do, lose and delete: every start that is possible finds all that it reads (R16)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.protocol.trimming.drawing import STEP_KINDS, drawn
from tests.protocol.trimming.model import run, totals

STEPS = st.lists(st.tuples(st.integers(0, STEP_KINDS - 1), st.integers(0, 5), st.integers(0, 9)), max_size=120)


@given(STEPS)
@settings(max_examples=60)
def test_every_possible_start_finds_what_it_reads(steps: list[tuple[int, int, int]]) -> None:
    assert run(steps).lost == []


def test_long_lives_find_it_too_and_every_topic_is_trimmed() -> None:
    deleted: dict[str, int] = {}
    for seed in range(100):
        model = run(drawn(seed))
        assert model.lost == [], seed
        deleted = {name: deleted.get(name, 0) + count for name, count in totals(model).items()}
    assert min(deleted.values()) > 0, deleted
