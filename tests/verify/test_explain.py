"""What the checker takes for a partial result: every one that a replica can come by, also in bursts, and no other."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from borealis_py.verify.cuts import VALUE_MAX, TooMany, adding_up
from borealis_py.verify.envelope import Row, Value
from borealis_py.verify.explain import Answer, Explainer, Rows, Statements
from borealis_py.verify.network import Lacked, ModelStage, Network, Truth, by_bucket, stime_of
from borealis_py.verify.partitions import Piece
from borealis_py.verify.report import show
from tests.harness.network import BUCKET_US, CHAIN, COLUMNS, PARTED, SINGLE, SOURCES, WINDOW_US, row_of
from tests.verify.handmade import T0, good

NETWORKS = {"chain": CHAIN, "parted": PARTED, "single": SINGLE}
WIDTH = WINDOW_US // BUCKET_US
FIRST = T0 // WINDOW_US * WIDTH
LAST = FIRST + WIDTH - 1
BUCKETS = range(FIRST, LAST + 1)
"""Those of one window: its result falls into the last."""

# What adds up --------------------------------------------------------------------------------------------------------

_ROWS = st.lists(st.lists(st.integers(-2, 4), min_size=2, max_size=2), min_size=1, max_size=4)


@given(st.lists(_ROWS, max_size=5), st.tuples(st.integers(-4, 12), st.integers(-4, 12)))
def test_it_finds_what_going_through_all_finds(tables: list[list[list[int]]], total: tuple[int, int]) -> None:
    arrays = [np.array(rows, np.int64) for rows in tables]
    choices = product(*(range(len(rows)) for rows in tables))
    sums = {c: tuple(sum(rows[n][i] for rows, n in zip(tables, c, strict=True)) for i in (0, 1)) for c in choices}
    expected = sorted(list(choice) for choice, found in sums.items() if found == total)
    assert sorted(adding_up(arrays, total)) == expected


def test_a_search_that_would_be_too_large_is_given_up() -> None:
    alike = [np.array([[0], [100_000 + (1 << n)]], np.int64) for n in range(16)]
    assert list(adding_up(alike, [800_255])) == [[*[1] * 8, *[0] * 8]]
    with pytest.raises(TooMany):
        list(adding_up(alike, [800_255], cells_max=100))
    with pytest.raises(TooMany):
        list(adding_up([np.array([[VALUE_MAX]]), np.array([[VALUE_MAX]])], [0]))
    assert list(adding_up(alike, [1 << 62])) == []


_NUMBERED = st.lists(st.tuples(st.sampled_from(SOURCES), st.integers(0, 60)), max_size=20, unique=True)


@pytest.mark.parametrize("name", NETWORKS)
@given(_NUMBERED, st.integers(0, 20))
def test_what_is_said_to_add_up_does(name: str, numbered: list[tuple[str, int]], cut: int) -> None:
    network = NETWORKS[name]
    rows = [_row(source, n, T0 + n * 10_000) for source, n in numbered]
    for stage in network.stages:
        adds = stage.adds
        assert adds is not None

        def added(part: list[Row], stage: ModelStage = stage) -> Counter[Hashable]:
            total: Counter[Hashable] = Counter()
            for row in stage.says(part):
                total.update(stage.adds(row))  # type: ignore[misc]
            return total

        assert added(rows[:cut]) + added(rows[cut:]) == +added(rows)
        assert all(stage.says([row]) or stage.says([row, *rows]) == stage.says(rows) for row in rows)
        rows = stage.says(rows)


# Bursts --------------------------------------------------------------------------------------------------------------


def _row(source: str, n: int, stime: int) -> Row:
    values: dict[str, Value] = row_of(source, n)  # type: ignore[assignment]
    return (*(values[c] for c in COLUMNS), stime)


def burst(sizes: tuple[int, ...]) -> dict[str, list[Row]]:
    """Sources a and b with two rows a bucket; c with so many in each bucket of the window, as after a long pause."""
    steady = [(b, i) for b in range(FIRST, LAST + 1) for i in (0, 1)]
    rows = {
        s: [_row(s, n, b * BUCKET_US + i * 40_000 + rank) for n, (b, i) in enumerate(steady)]
        for rank, s in enumerate("ab")
    }
    there = [(b, i) for b, size in zip(range(FIRST, LAST + 1), sizes, strict=True) for i in range(size)]
    rows["c"] = [_row("c", n, b * BUCKET_US + i * 100) for n, (b, i) in enumerate(there)]
    return rows


SIZES = {
    "one": (2, 280, 2, 2, 2),
    "two": (0, 150, 130, 0, 1),
    "spread": (2, 60, 70, 50, 2),
    "steady": (2, 2, 2, 2, 2),
}
LACKED: Lacked = dict.fromkeys(BUCKETS, frozenset("c"))


class Had:
    """A run in which c was lacked in the whole window.

    `words`: of each piece of the first stage and bucket, what each replica said, having had a first part of c's rows;
    `results`: what a replica of the second stage made of it, reading the one or the other.
    """

    def __init__(self, network: Network, sizes: str, seed: int, replicas: int = 2) -> None:
        self.network, rng = network, Random(seed)
        self.truth = Truth(network, burst(SIZES[sizes]))
        self.said: dict[Piece, dict[int, list[Rows]]] = {p: {b: [] for b in BUCKETS} for p in network.pieces(0)}
        for part, _ in enumerate(network.stages[0].parts):
            for _ in range(replicas):
                self._speak(part, self.first_parts(part, rng))
        self.explainer = self.reading(self.said)
        self.results = {p: self.result(p, rng) for p in network.pieces(1)} if len(network.stages) > 1 else {}

    def first_parts(self, part: int, rng: Random) -> dict[str, list[Row]]:
        used: dict[str, list[Row]] = {**self.truth.tuples, "c": []}  # type: ignore[dict-item]
        for bucket in BUCKETS:
            parts = self.truth.parts("c", bucket)
            rows = parts[part] if parts else ()
            used["c"] += rows[: rng.choice((0, len(rows), rng.randint(0, len(rows))))]
        return used

    def _speak(self, part: int, used: Mapping[str, Sequence[Row]]) -> None:
        said = self.network.run(used, 1)
        for piece in self.said:
            if piece.part == part:
                rows = by_bucket(self.network.keep(said, piece), BUCKET_US)
                for bucket in BUCKETS:
                    self.said[piece][bucket].append(rows.get(bucket, ()))

    def reading(self, words: Mapping[Piece, Mapping[int, Sequence[Rows]]]) -> Explainer:
        """An explainer that knows of these words."""
        of = {p: {b: [(r, frozenset("c")) for r in rows] for b, rows in said.items()} for p, said in words.items()}
        return Explainer(self.truth, Statements(of))

    def result(self, piece: Piece, rng: Random) -> Rows:
        said = [p for p in self.network.pieces(0) if p.reader == piece.part or self.network.stages[1].partitions == 0]
        rows = [row for p in said for b in BUCKETS for row in rng.choice(self.said[p][b])]
        if self.network.stages[0].partitions:
            rows.sort(key=lambda row: (row[-1], row[2]))
        else:
            rows.sort(key=stime_of)
        return by_bucket(self.network.stages[1].says(rows), BUCKET_US).get(LAST, ())

    def __call__(self, piece: Piece, rows: Rows, bucket: int = LAST, missing_sources: Lacked = LACKED) -> Answer:
        return self.explainer.explains(piece, bucket, rows, missing_sources)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", ["chain", "parted"])
def test_any_first_parts_of_a_burst_explain_what_they_give(name: str, sizes: str) -> None:
    partial = 0
    for seed in range(5):
        had = Had(NETWORKS[name], sizes, seed)
        for piece, said in had.said.items():
            for bucket, words in said.items():
                assert {had(piece, word, bucket) for word in words} == {Answer.YES}
                partial += sum(word != had.truth.stable(piece).get(bucket, ()) for word in words)
        for piece, rows in had.results.items():
            assert had(piece, rows) is Answer.YES
            partial += rows != had.truth.stable(piece)[LAST]
    assert partial > 10


@pytest.mark.parametrize("sizes", SIZES)
def test_in_one_node_too(sizes: str) -> None:
    (piece,) = SINGLE.pieces(0)
    had, partial = Had(SINGLE, sizes, 0), 0
    for seed in range(5):
        rows = by_bucket(SINGLE.run(had.first_parts(0, Random(seed))), BUCKET_US)[LAST]
        assert had(piece, rows) is Answer.YES
        partial += rows != had.truth.stable(piece)[LAST]
    assert partial >= 3


def _changed(column: int, by: int) -> Callable[[Row], Row]:
    def change(row: Row) -> Row:
        value = row[column]
        assert isinstance(value, int)
        return (*row[:column], value + by, *row[column + 1 :])

    return change


CHANGES: dict[str, Callable[[Row], Row]] = {
    "total + 1": _changed(5, 1),
    "total - 1": _changed(5, -1),
    "n + 1": _changed(4, 1),
    "latest + 1": _changed(6, 1),
    "n is null": lambda row: (*row[:4], None, *row[5:]),
    "another source": lambda row: (*row[:2], "d", *row[3:]),
    "another key": _changed(3, 1),
}


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("name", ["chain", "parted"])
def test_a_wrong_result_is_refused(name: str, sizes: str, change: Callable[[Row], Row]) -> None:
    had = Had(NETWORKS[name], sizes, 3)
    refused = 0
    for piece, rows in had.results.items():
        for n, row in enumerate(rows):
            wrong = (*rows[:n], change(row), *rows[n + 1 :])
            assert had(piece, wrong) is Answer.NO, (row, change(row))
            assert row[2] == "c" or had(piece, (*rows[:n], *rows[n + 1 :])) is Answer.NO
            refused += 1
    assert refused >= 6


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", ["chain", "parted"])
def test_rows_that_are_no_first_part_are_refused(name: str, sizes: str) -> None:
    had = Had(NETWORKS[name], sizes, 0)
    wrong = 0
    for piece in had.said:
        for bucket, rows in had.truth.stable(piece).items():
            of_c = [n for n, row in enumerate(rows) if row[0] == "c"]
            for n in of_c[:-1][::11]:  # those after it were there
                assert had(piece, (*rows[:n], *rows[n + 1 :]), bucket) is Answer.NO
                wrong += 1
            for n in set(range(len(rows))) - set(of_c):  # a was not lacked
                assert had(piece, (*rows[:n], *rows[n + 1 :]), bucket) is Answer.NO
            assert len(rows) < 2 or had(piece, rows[::-1], bucket) is Answer.NO
    assert wrong > 0


def test_a_second_stage_cannot_have_had_what_nobody_said() -> None:
    had = Had(PARTED, "one", 0)
    nothing: dict[Piece, dict[int, list[Rows]]] = {}
    silent = had.reading(nothing)
    for piece, rows in had.results.items():
        assert rows != had.truth.stable(piece)[LAST]
        assert silent.explains(piece, LAST, rows, LACKED) is Answer.NO
        assert silent.explains(piece, LAST, had.truth.stable(piece)[LAST], LACKED) is Answer.YES
        assert silent.explains(piece, LAST, (), LACKED) is Answer.NO, "a and b were not lacked"
        assert silent.explains(piece, LAST, (), dict.fromkeys(BUCKETS, frozenset(SOURCES))) is Answer.YES


def test_what_a_second_stage_may_have_had_and_was_deleted_is_no_proof_against_it() -> None:
    """A stream was trimmed before the one that was made of it (R16.5)."""
    had = Had(PARTED, "one", 0)
    for start, answer in ((min(BUCKETS), Answer.NO), (max(BUCKETS) + 1, Answer.DELETED)):
        deleted = Explainer(had.truth, Statements({}, dict.fromkeys(had.network.pieces(0), start)))
        for piece, rows in had.results.items():
            assert deleted.explains(piece, LAST, rows, LACKED) is answer
            assert deleted.explains(piece, LAST, rows, {}) is Answer.NO, "it lacked nothing, so complete input stays"


@pytest.mark.parametrize("missing_sources", [{}, dict.fromkeys(BUCKETS, frozenset("b"))], ids=["nothing", "b"])
def test_a_second_stage_lacks_what_the_first_lacked(missing_sources: Lacked) -> None:
    had = Had(PARTED, "one", 0)
    for piece, rows in had.results.items():
        assert had(piece, rows, missing_sources=missing_sources) is Answer.NO
    for piece, said in had.said.items():
        partial = [w for w in said[FIRST + 1] if w != had.truth.stable(piece)[FIRST + 1]]
        assert all(had(piece, word, FIRST + 1, missing_sources) is Answer.NO for word in partial)


def test_partitions_may_have_had_different_parts_but_all_keys_of_one_the_same() -> None:
    had = Had(PARTED, "one", 1)
    (piece,) = (p for p, rows in had.results.items() if len({row[3] for row in rows}) > 1)
    whole = had.truth.stable(piece)[LAST]
    for n, row in enumerate(whole):
        mixed = (*had.results[piece][:n], row, *had.results[piece][n + 1 :])
        expected = Answer.YES if row == had.results[piece][n] else Answer.NO
        assert had(piece, mixed) is expected
    assert sum(a != b for a, b in zip(whole, had.results[piece], strict=True)) == 2


def test_without_knowing_what_adds_up_a_burst_is_undecided() -> None:
    (stage,) = SINGLE.stages
    truth = Truth(replace(SINGLE, stages=(replace(stage, adds=None),)), burst(SIZES["spread"]))
    (piece,) = SINGLE.pieces(0)
    rows = truth.stable(piece)[LAST]
    wrong = (*rows[:-1], _changed(5, -1)(rows[-1]))
    assert Explainer(truth, Statements()).explains(piece, LAST, wrong, LACKED) is Answer.UNDECIDED
    assert Explainer(truth, Statements()).explains(piece, LAST, rows, {}) is Answer.YES


def test_the_verdict_keeps_what_is_undecided_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("borealis_py.verify.explain.TRIES_MAX", 0)
    verdict = good().judge()
    assert verdict.kinds == set()
    assert len(verdict.undecided) == verdict.looked_at["tentative statements"] > 0
    out = io.StringIO()
    show(verdict, "drill", Console(file=out, width=160))
    assert f"{len(verdict.undecided)} tentative statements could not be decided" in out.getvalue()
