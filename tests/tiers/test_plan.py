"""The rotations: three in a row run every slow test, and of a shared family every rotation runs some."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from tests.tiers import durations, plan
from tests.tiers.durations import Taken


@dataclass(frozen=True)
class Named:
    nodeid: str


SLOW = plan.SLOW[0]
FAMILY, SHARE = next(iter(plan.SHARED.items()))
ITEMS = [Named(f"{SLOW}::test_{n}") for n in range(3)] + [Named(f"{FAMILY}[{n}]") for n in range(3 * SHARE)]
ROTATIONS = st.integers(0, 1_000)


@given(ROTATIONS)
def test_of_a_family_every_so_many_th_test_stays_and_other_ones_next_time(rotation: int) -> None:
    stay, then = ({item for item in ITEMS[3:] if item not in plan.slow(ITEMS, t)} for t in (rotation, rotation + 1))
    assert len(stay) == len(then) == 3
    assert not stay & then
    assert plan.slow(ITEMS, rotation)[:3] == ITEMS[:3]


@given(ROTATIONS, st.sampled_from(plan.TIERS), st.lists(st.floats(0, 500), min_size=1, max_size=20))
def test_three_rotations_run_every_slow_test_once(rotation: int, tier: str, walls: list[float]) -> None:
    record = {f"tests/test_{n}.py": {tier: Taken(slow_wall_s=wall_s)} for n, wall_s in enumerate(walls)}
    for nodeid in (f"{file}::test_{n}" for file in (*record, "tests/test_new.py") for n in range(2)):
        assert sum(plan.due(nodeid, tier, t, record) for t in range(rotation, rotation + plan.THIRDS)) == 1


def test_tests_of_processes_that_may_share_an_app_run_in_the_same_turn() -> None:
    record = {"tests/test_a.py": {"broker": Taken(slow_wall_s=1.0)}}
    for file in ("tests/test_a.py", "tests/test_new.py"):
        assert (
            len({tuple(plan.due(f"{file}::test_{n}", "broker", t, record) for t in range(3)) for n in range(20)}) == 1
        )


def test_thirds_take_as_long_as_each_other() -> None:
    walls = {"a": 60.0, "b": 50.0, "c": 40.0, "d": 30.0, "e": 20.0, "f": 10.0}
    thirds = plan.thirds("broker", {file: {"broker": Taken(slow_wall_s=wall_s)} for file, wall_s in walls.items()})
    assert [sum(walls[file] for file in walls if thirds[file] == third) for third in range(3)] == [70.0, 70.0, 70.0]


def test_the_record_is_read_as_it_was_written(tmp_path) -> None:
    record = {"tests/test_a.py": {"pure": Taken(1.5, 2.0, 0.5), "spark": Taken(slow_wall_s=3.0)}, "tests/test_b.py": {}}
    durations.save(record, tmp_path / "record.json")
    assert durations.load(tmp_path / "record.json") == {"tests/test_a.py": record["tests/test_a.py"]}
