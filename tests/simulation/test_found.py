"""How the world that shows a planted bug is looked for, and written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent
from time import process_time

import pytest

from tests.simulation.planted import BUGS, found
from tests.simulation.planted.bug import Shown
from tests.simulation.planted.found import Refuted, rewrite, search, verify
from tests.simulation.planted.ingress import BUGS as INGRESS_BUGS

BY, OTHER = Shown("stable", True, "a row"), Shown("label", False, "a label")


@dataclass(frozen=True)
class Toy:
    """A bug that these worlds show."""

    worlds: Mapping[int, Shown]
    found: int = 0
    dear: tuple[int, ...] = ()
    rule: str = "R1 a rule"
    seeds: int = 20

    def shown(self, seed: int) -> Shown | None:
        began = process_time()
        while seed in self.dear and process_time() < began + 2 * found.CHEAP_S:
            pass
        return self.worlds.get(seed)


def told(bug: Toy) -> tuple[str, int | None]:
    with pytest.raises(Refuted) as caught:
        verify(bug)
    return str(caught.value), caught.value.seed


def test_only_the_world_that_is_known_to_show_it_is_run() -> None:
    verify(Toy({1: OTHER, 7: BY}, found=7))


def test_a_world_that_shows_it_no_more_is_replaced() -> None:
    said, seed = told(Toy({7: BY, 9: BY}, found=3))
    assert said.startswith("R1 a rule: found=3 is stale: world 7 shows it now")
    assert seed == 7
    assert told(Toy({7: BY}))[1] == 7


def test_a_bug_that_no_world_shows_is_not_found() -> None:
    assert told(Toy({21: BY}, found=3)) == ("R1 a rule: not found in 20 seeds", None)


@pytest.mark.parametrize("found", [0, 7])
def test_a_bug_that_another_oracle_finds_is_not_found(found: int) -> None:
    why = "R1 a rule: found by 'label', which is none of its oracles: a label"
    assert told(Toy({7: OTHER, 9: BY}, found)) == (why, None)


def test_a_cheaper_world_is_taken_where_one_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "CHEAP_S", 0.01)
    shown = dict.fromkeys((2, 4, 6, 12), BY)
    assert search(Toy(shown)) == 2
    assert search(Toy(shown, dear=(2, 4))) == 6
    assert search(Toy(shown | {6: OTHER}, dear=(2,))) == 4
    assert search(Toy({2: BY, 12: BY}, dear=(2,))) == 2


def test_seeds_are_written_where_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "HERE", tmp_path)
    source = """\
        BUGS = (
            Bug("R1 ä", "safety", plant, found=12), Bug("R2 b", "safety", plant, found=3),
            Bug("R3 c", "safety", plant),
        )
        """
    (tmp_path / "some.py").write_text(dedent(source), encoding="utf-8")
    rewrite({"R1 ä": 7, "R2 b": 40, "R4 d": 1})
    after = source.replace("found=12", "found=7").replace("found=3", "found=40")
    assert (tmp_path / "some.py").read_text(encoding="utf-8") == dedent(after)


def test_every_bug_has_a_world() -> None:
    assert [bug.rule for bug in (*BUGS, *INGRESS_BUGS) if not 0 <= bug.found <= bug.seeds] == []
    assert [bug.rule for bug in BUGS if (bug.found > 0) != bool(bug.oracles)] == []
    assert [bug.rule for bug in INGRESS_BUGS if bug.found == 0] == []
