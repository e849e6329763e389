"""Which world shows a planted bug: that of the seed in `found`, or the one to write there instead."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path
from time import process_time

from tests.planted.bug import Bug
from tests.planted.worlds import Shown

CHEAP_S = 3.0
"""CPU time of a world beyond which a few more are looked at for a cheaper one."""
MORE = 6
"""As many."""
COMMAND = "python -m tests.planted --rewrite"
HERE = Path(__file__).parent


class Refuted(AssertionError):
    """A bug is not found where and by whom it should be. `seed`: what to write as `found`, if that is all."""

    def __init__(self, bug: Bug, why: str, seed: int | None = None) -> None:
        super().__init__(f"{bug.rule}: {why}")
        self.seed = seed


def verify(bug: Bug) -> None:
    """Raises Refuted unless an expected oracle finds the bug in the world of `found`."""
    assert bug.worlds is not None
    found, seeds = bug.worlds.found, bug.worlds.seeds
    shown = bug.shown(found) if found else None
    if shown is not None:
        return _expect(bug, shown)
    seed = search(bug, seeds)
    if seed is None:
        raise Refuted(bug, f"not found in {seeds} seeds")
    raise Refuted(bug, f"found={found} is stale: world {seed} shows it now ({COMMAND} writes all such)", seed)


def search(bug: Bug, seeds: int) -> int | None:
    """The first seed whose world shows the bug; if that world is dear, the cheapest of a few more that show it."""
    costs: dict[int, float] = {}
    left = MORE
    for seed in range(1, seeds + 1):
        began = process_time()
        shown = bug.shown(seed)
        if shown is not None and (shown.expected or not costs):
            _expect(bug, shown)
            costs[seed] = process_time() - began
        left -= bool(costs)
        if costs and (left < 0 or min(costs.values()) <= CHEAP_S):
            break
    return min(costs, key=lambda seed: costs[seed], default=None)


def _expect(bug: Bug, shown: Shown) -> None:
    if not shown.expected:
        raise Refuted(bug, f"found by {shown.oracle!r}, which is none of its oracles: {shown.told}")


def rewrite(found: dict[str, int]) -> None:
    """Write the seeds of these rules into the files of this folder."""
    for path in sorted(HERE.glob("*.py")):
        before = path.read_text(encoding="utf-8")
        after = _with(before, found)
        if after != before:
            path.write_text(after, encoding="utf-8")


def _with(source: str, found: dict[str, int]) -> str:
    """A module in which the `found` of these rules is another one."""
    lines = source.splitlines(keepends=True)
    for value, seed in sorted(_places(ast.parse(source), found), key=lambda place: _begin(place[0]), reverse=True):
        row, first, end = value.lineno - 1, value.col_offset, value.end_col_offset
        raw = lines[row].encode()
        lines[row] = (raw[:first] + str(seed).encode() + raw[end:]).decode()
    return "".join(lines)


def _places(tree: ast.AST, found: dict[str, int]) -> Iterable[tuple[ast.Constant, int]]:
    """Where the seeds of these rules are written, witha call that begins with the rule; what is to be there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            seed = found.get(str(node.args[0].value))
            words = (word for word in ast.walk(node) if isinstance(word, ast.keyword) and word.arg == "found")
            values = (word.value for word in words if isinstance(word.value, ast.Constant))
            yield from ((value, seed) for value in values if seed is not None)


def _begin(node: ast.Constant) -> tuple[int, int]:
    return node.lineno, node.col_offset
