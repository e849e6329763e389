"""The model is worth something: each of these mistakes in the rule makes some start find too little."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from borealis_py.protocol.trimming import limit as limit_module
from borealis_py.protocol.trimming import need as need_module
from borealis_py.protocol.trimming.fold import AckFold
from borealis_py.protocol.trimming.limit import Graph, TrimLimit
from borealis_py.protocol.trimming.need import KeptCheckpoint, Need, Needs, ReplicaName
from tests.protocol.trimming.drawing import drawn
from tests.protocol.trimming.model import run

Patch = pytest.MonkeyPatch
SEEDS = 150


def a_bucket_too_high(patch: Patch) -> None:
    """What is needed first goes, too."""
    kept = limit_module._lowest

    def lowest(holds: Iterable[tuple[int, str]]) -> TrimLimit:
        limit = kept(holds)
        return limit if limit.below is None else replace(limit, below=limit.below + 1)

    patch.setattr(limit_module, "_lowest", lowest)


def the_newest_checkpoint(patch: Patch) -> None:
    """A replica says what a start from its newest checkpoint reads."""
    kept = need_module.least

    def least(found: Iterable[KeptCheckpoint], origin: int, sources: int, keep: int) -> KeptCheckpoint:
        all_of_it = list(found)
        return kept(all_of_it, origin, sources, keep) if len(all_of_it) < keep else all_of_it[-1]

    patch.setattr(need_module, "least", least)


def the_oldest_of_too_few(patch: Patch) -> None:
    """A replica with one checkpoint does not say that it may have to start from the origin."""
    kept = need_module.least
    patch.setattr(need_module, "least", lambda found, origin, sources, keep: kept(found, origin, sources, 1))


def a_reader_of_the_stream_is_forgotten(patch: Patch) -> None:
    kept = Graph.readers_of_stream
    patch.setattr(Graph, "readers_of_stream", lambda self, node: kept(self, node)[:-1])


def a_reader_of_the_source_is_forgotten(patch: Patch) -> None:
    kept = Graph.readers_of_source
    patch.setattr(Graph, "readers_of_source", lambda self, source: kept(self, source)[:1])


def without(patch: Patch, words: str) -> None:
    kept = limit_module._lowest
    patch.setattr(limit_module, "_lowest", lambda holds: kept([h for h in holds if not h[1].startswith(words)]))


def the_progress_is_forgotten(patch: Patch) -> None:
    without(patch, "progress")


def the_publisher_is_forgotten(patch: Patch) -> None:
    without(patch, "publisher")


def peers_are_forgotten(patch: Patch) -> None:
    """Those that take over results need nothing of a node's own topics."""
    kept = limit_module.stream_limit

    def limit(graph: Graph, needs: Needs, node: str, *rest: Any) -> TrimLimit:
        real, first = limit_module.holders, True

        def holders(*args: Any) -> Iterator[tuple[ReplicaName, Need]]:
            nonlocal first
            found, first = ([] if first else list(real(*args))), False
            return iter(found)

        with pytest.MonkeyPatch.context() as inner:
            inner.setattr(limit_module, "holders", holders)
            return kept(graph, needs, node, *rest)

    patch.setattr("tests.protocol.trimming.model.stream_limit", limit)


def who_has_said_nothing_holds_nothing(patch: Patch) -> None:
    real = limit_module.holders

    def holders(graph: Graph, needs: Needs, node: str) -> Iterator[tuple[ReplicaName, Need]]:
        known = {n: need for n, need in needs.said.items() if n.node == node}
        silent = [ReplicaName(node, k) for k in range(graph.nodes[node].replicas) if ReplicaName(node, k) not in known]
        far = Need(inc=1, uid="", number=1, bucket=2**40, offsets=dict.fromkeys(("web", "till"), 2**40))
        return real(graph, replace(needs, said={**needs.said, **dict.fromkeys(silent, far)}), node)

    patch.setattr(limit_module, "holders", holders)


def the_silent_need_no_common_place(patch: Patch) -> None:
    """A live peer stands for a silent replica that cannot read its checkpoints."""
    real = limit_module.holders

    def holders(graph: Graph, needs: Needs, node: str) -> Iterator[tuple[ReplicaName, Need]]:
        said = {name: replace(need, place="anywhere") for name, need in needs.said.items()}
        return real(graph, replace(needs, said=said), node)

    patch.setattr(limit_module, "holders", holders)


def the_silent_hold_nothing_at_once(patch: Patch) -> None:
    """Silence counts after four minutes, and while the reader of acknowledgements was away, too."""
    kept = AckFold.__init__
    patch.setattr(AckFold, "__init__", lambda self, own: kept(self, own, 240_000_000))


BROKEN: list[Callable[[Patch], None]] = [
    a_bucket_too_high,
    the_newest_checkpoint,
    the_oldest_of_too_few,
    a_reader_of_the_stream_is_forgotten,
    a_reader_of_the_source_is_forgotten,
    the_progress_is_forgotten,
    the_publisher_is_forgotten,
    peers_are_forgotten,
    who_has_said_nothing_holds_nothing,
    the_silent_need_no_common_place,
    the_silent_hold_nothing_at_once,
]


@pytest.mark.parametrize("broken", BROKEN, ids=lambda b: b.__name__)
def test_a_broken_rule_is_found(broken: Callable[[Patch], None]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        broken(patch)
        found = next((seed for seed in range(SEEDS) if run(drawn(seed)).lost), None)
    assert found is not None
