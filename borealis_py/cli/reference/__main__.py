"""python -m borealis_py.cli.reference commands > docs/reference/commands.md; likewise metrics, python, status."""

from __future__ import annotations

import sys

from borealis_py.cli.reference.pages import PAGES

if __name__ == "__main__":
    print(PAGES[sys.argv[1]](), end="")
