"""How the world that shows a planted bug is looked for, and written down."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import dedent
from time import process_time

import pytest

from tests.planted import found
from tests.planted.bug import Bug
from tests.planted.found import Refuted, rewrite, search, verify
from tests.planted.worlds import Shown, Worlds

BY, OTHER = Shown("stable", True, "a row"), Shown("label", False, "a label")


@dataclass(frozen=True)
class ToyWorlds(Worlds):
    """`shows`: which of them show the bug. `dear`: which of them take long."""

    shows: Mapping[int, Shown] = field(default_factory=dict)
    dear: tuple[int, ...] = ()

    def shown(self, seed: int, effect: str) -> Shown | None:
        began = process_time()
        while seed in self.dear and process_time() < began + 2 * found.CHEAP_S:
            pass
        return self.shows.get(seed)


def toy(shows: Mapping[int, Shown], found: int = 0, dear: tuple[int, ...] = ()) -> Bug:
    worlds = ToyWorlds((), ("stable",), found, seeds=20, shows=shows, dear=dear)
    return Bug("R1 a rule", "safety", nullcontext, worlds)


def told(bug: Bug) -> tuple[str, int | None]:
    with pytest.raises(Refuted) as caught:
        verify(bug)
    return str(caught.value), caught.value.seed


def test_only_the_world_that_is_known_to_show_it_is_run() -> None:
    verify(toy({1: OTHER, 7: BY}, found=7))


def test_a_world_that_shows_it_no_more_is_replaced() -> None:
    said, seed = told(toy({7: BY, 9: BY}, found=3))
    assert said.startswith("R1 a rule: found=3 is stale: world 7 shows it now")
    assert seed == 7
    assert told(toy({7: BY}))[1] == 7


def test_a_bug_that_no_world_shows_is_not_found() -> None:
    assert told(toy({21: BY}, found=3)) == ("R1 a rule: not found in 20 seeds", None)


@pytest.mark.parametrize("found", [0, 7])
def test_a_bug_that_another_oracle_finds_is_not_found(found: int) -> None:
    why = "R1 a rule: found by 'label', which is none of its oracles: a label"
    assert told(toy({7: OTHER, 9: BY}, found)) == (why, None)


def test_a_cheaper_world_is_taken_where_one_is_near(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "CHEAP_S", 0.01)
    shown = dict.fromkeys((2, 4, 6, 12), BY)
    assert search(toy(shown), 20) == 2
    assert search(toy(shown, dear=(2, 4)), 20) == 6
    assert search(toy(shown | {6: OTHER}, dear=(2,)), 20) == 4
    assert search(toy({2: BY, 12: BY}, dear=(2,)), 20) == 2


def test_seeds_are_written_where_they_stand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(found, "HERE", tmp_path)
    source = """\
        BUGS = (
            Bug("R1 ä", "safety", plant, Worlds((), found=12)), Bug("R2 b", "safety", plant, Worlds((), found=3)),
            Bug("R3 c", "safety", plant, Worlds((), found=12)),
        )
        """
    (tmp_path / "some.py").write_text(dedent(source), encoding="utf-8")
    rewrite({"R1 ä": 7, "R2 b": 40, "R4 d": 1})
    after = source.replace("found=12", "found=7", 1).replace("found=3", "found=40")
    assert (tmp_path / "some.py").read_text(encoding="utf-8") == dedent(after)
