"""Whatever fails in a world, it ends with the rows and dead letters that `run` computes at once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from borealis_py.testing import RefusedRow, run
from borealis_py.testing.rows import TimedRow
from tests.examples import examples
from tests.testing.apps import network
from tests.testing.failures import Failure, ended, failures

SOURCES = ("web.0", "web.1", "till")
PROCESSES = ("cleaned", "cleaned.r0", "parts.0.r1", "parts.1", "totals.0.r0", "totals", "big.r0", *SOURCES)
MOST_MS = 6_000

row: st.SearchStrategy[TimedRow] = st.tuples(
    st.integers(0, MOST_MS).map(lambda ms: f"{ms}ms"),
    st.fixed_dictionaries(
        {
            "item": st.sampled_from(["0", "1", "2", "x", 5]),
            "euros": st.one_of(st.none(), st.floats(-1e3, 1e3), st.sampled_from([1e16, -0.0, 0.1])),
        }
    ),
)
rows = st.fixed_dictionaries({source: st.lists(row, max_size=25) for source in SOURCES})


def what(letters: list[RefusedRow] | tuple[RefusedRow, ...]) -> Counter[tuple[str, str, bytes, int]]:
    """A publisher's refusal comes with the bucket that was open when it was sent; everything else with its own."""
    return Counter((one.source, one.reason, one.raw, 0 if one.source in SOURCES else one.bucket) for one in letters)


@settings(max_examples=examples(8))
@given(rows, failures(SOURCES, PROCESSES), st.integers(0, 1_000))
def test_a_world_ends_as_if_nothing_had_failed(
    some: dict[str, list[TimedRow]], suffered: list[Failure], seed: int
) -> None:
    expected = run(network(), some)
    with ended(network(), some, suffered, seed) as world:
        for query in ("totals", "big", "till_only"):
            assert repr(world.corrected(query)) == repr(expected.corrected(query))
        assert what(world.dead_letters()) == what(expected.dead_letters)
