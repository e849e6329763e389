"""Changes the product one operator, number or argument at a time and runs the tests beside it, and a short simulation.

    python -m tests.mutants [--seed N] [--processes N] [--survivors] [--report]

All mutants of sunion and protocol, and 100 each of node, client, log and reconcile, drawn by the seed, of those that
mypy lets pass. What was tried is not tried again until its function changes (`ledger.py`): a run goes on where it was
stopped; `--survivors` tries those again that survived and have no judgement in `judged.toml`, with the tests of today.
Writes docs/evidence/mutants.md; exits with 1 if fewer are killed than asked for, or a survivor has no judgement.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
from collections.abc import Collection, Iterable, Sequence
from functools import cache
from pathlib import Path

from mutmut import __main__ as mutmut
from mutmut.mutation import pragma_handling
from mutmut.mutation.data import SourceFileMutationData
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.utils.file_utils import walk_mutatable_files

from tests.mutants import ledger
from tests.mutants.ledger import REFUSED
from tests.mutants.messages import message_lines
from tests.mutants.report import Group, unjudged, write

WHOLE = {"sunion": 0.9, "borealis_py/protocol": 0.9}
DRAWN = {"borealis_py/node": 0.8, "borealis_py/client": 0.8, "borealis_py/log": 0.8, "reconcile": 0.8}
"""Folder -> least share that must be killed."""
DRAWN_EACH = 100
SMALL = "borealis_py.protocol.states*"
"""mutmut makes mutants only when it runs some: these few."""

as_given = PytestRunner._pytest_args_regular_run


def results() -> dict[str, dict[str, int | None]]:
    """Folder -> mutant -> exit code of the tests, None: not tried yet."""
    found: dict[str, dict[str, int | None]] = {folder: {} for folder in (*WHOLE, *DRAWN)}
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        found[str(path.parent)].update(data.exit_code_by_key)
    return found


def leave_out(refused: Collection[str]) -> None:
    """Note of these that mypy refuses them."""
    for path in walk_mutatable_files():
        data = SourceFileMutationData(path=path)
        data.load()
        data.exit_code_by_key.update({name: REFUSED for name in data.exit_code_by_key if name in refused})
        data.save()


def chosen(all_: dict[str, dict[str, int | None]], seed: int) -> dict[str, list[str]]:
    """Folder -> the mutants to try."""
    valid = {folder: sorted(n for n, code in codes.items() if code != REFUSED) for folder, codes in all_.items()}
    picked = {folder: valid[folder] for folder in WHOLE}
    for folder in DRAWN:
        names = valid[folder]
        picked[folder] = sorted(random.Random(f"{seed} {folder}").sample(names, min(DRAWN_EACH, len(names))))
    return picked


def pending(all_: dict[str, dict[str, int | None]], names: Iterable[str], letters: str = ledger.UNTRIED) -> list[str]:
    """Those of the names with these results in the ledger: that were not tried since their function changed."""
    codes = {name: code for folder in all_.values() for name, code in folder.items()}
    return [name for name in names if ledger.letter_of(codes[name]) in letters]


def forget_tests() -> None:
    """Tests are run from a copy with the mutants, as the same package as this module's."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]


def quickest_first(runner: PytestRunner, tests: Iterable[str]) -> list[str]:
    """Pytest's arguments: the first failure ends a mutant's run, and it comes from the quick tests most of the time."""
    return as_given(runner, sorted(tests, key=lambda test: (state().duration_by_test.get(test, 0.0), test)))


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="draws the mutants of the folders that are not done whole")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--survivors", action="store_true", help="try again what survived and has no judgement")
    parser.add_argument("--report", action="store_true", help="only write the report of what was tried")
    options = parser.parse_args(arguments)
    pragma_handling.get_lines_ignored_by_pattern = message_lines  # its own patterns see single lines, not statements
    PytestRunner._pytest_args_regular_run = quickest_first  # mutmut passes a set, in no order
    if not options.report:
        os.environ["BOREALIS_MUTANTS"] = "1"
        os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # whose `python` has mypy
        forget_tests()
        mutmut.filter_mutants_with_type_checker = cache(mutmut.filter_mutants_with_type_checker)
        mutmut._run((SMALL,), options.processes)
        leave_out(mutmut.filter_mutants_with_type_checker())
        print(f"{ledger.load()} results of earlier runs")
        all_ = results()
        names = [name for each in chosen(all_, options.seed).values() for name in each]
        todo = pending(all_, names)
        if options.survivors:
            todo += unjudged(pending(all_, names, "sn"))
        try:
            if todo:
                mutmut._run(todo, options.processes)
        finally:
            ledger.save()
    all_ = results()
    least = {**WHOLE, **DRAWN}
    picked = chosen(all_, options.seed)
    refused = {f: sum(code == REFUSED for code in codes.values()) for f, codes in all_.items()}
    groups = [Group(f, least[f], len(all_[f]), refused[f], {n: all_[f][n] for n in picked[f]}) for f in picked]
    return write(groups, options.seed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
