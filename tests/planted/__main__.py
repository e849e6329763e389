"""Looks which planted bugs are shown no more by the world of their `found`, and where they are shown now.

    python -m tests.planted [--rewrite] [WORD ...]

For use after a change of what worlds do; about two minutes, and more for each seed that is looked for. WORDs choose the
bugs whose rules have them all. `--rewrite` writes the seeds into the files. Exits with 1 if anything is left to do.
"""

from __future__ import annotations

import argparse
import sys

from tests.planted import BUGS
from tests.planted.found import Refuted, rewrite, verify


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rewrite", action="store_true")
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    found: dict[str, int] = {}
    lost = 0
    for bug in (bug for bug in BUGS if bug.worlds and bug.worlds.oracles):
        if all(word in bug.rule for word in options.words):
            try:
                verify(bug)
            except Refuted as exc:
                print(exc, flush=True)
                found |= {} if exc.seed is None else {bug.rule: exc.seed}
                lost += exc.seed is None
    if options.rewrite:
        rewrite(found)
        found.clear()
    return int(lost > 0 or bool(found))


if __name__ == "__main__":
    sys.exit(main())
