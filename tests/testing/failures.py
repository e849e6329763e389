"""What may fail in a user's world, and worlds in which it does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from hypothesis import strategies as st

from borealis_py import App
from borealis_py.testing import TopicRow, World
from borealis_py.testing.rows import TimedRow

Failure = tuple[str, str, str]
"""What happens, to whom, for how long; or only that time advances."""
_DURATIONS = st.integers(100, 5_000).map(lambda ms: f"{ms}ms")


def failures(sources: Sequence[str], processes: Sequence[str]) -> st.SearchStrategy[list[Failure]]:
    """Inputs are lost, processes killed or paused."""
    failure: st.SearchStrategy[Failure] = st.one_of(
        st.tuples(st.just("lose"), st.sampled_from(sources), _DURATIONS),
        st.tuples(st.sampled_from(["kill", "pause"]), st.sampled_from(processes), _DURATIONS),
        st.tuples(st.just("advance"), st.just(""), _DURATIONS),
    )
    return st.lists(failure, max_size=6)


def ended(app: App, rows: Mapping[str, Sequence[TimedRow | TopicRow]], suffered: Iterable[Failure], seed: int) -> World:
    """A world that got these rows of its sources, suffered this, and has ended."""
    world = World(app, seed=seed)
    for source, some in rows.items():
        world.send(source, *some)
    for kind, name, for_ in suffered:
        if kind == "advance":
            world.advance(for_)
        else:
            getattr(world, kind)(name, for_)
    world.end()
    return world
