"""Generates docs/reference/configuration.md from the classes that hold the settings.

python -m borealis_py.config.reference > docs/reference/configuration.md
"""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import MISSING, fields
from itertools import pairwise

from borealis_py.config.config import Config, shown, written
from borealis_py.protocol.settings import Timing

HEAD = """# Configuration

Flags override environment variables, which override `borealis.yaml` in the current directory (or the file that
`BOREALIS_CONFIG` names), which overrides defaults. A setting's variable is `BOREALIS_` and its name in capitals; nested
settings use two underscores: `BOREALIS_TIMING__SLACK`. This page is generated from the code.

| setting | default | what it is for |
|---|---|---|
"""
TIMING = """
## timing

The constants of the protocol. Durations have a unit (`125ms`, `3s`), counts are whole numbers. They are part of the
app's description and change between `down` and `up` only. All are more than zero, except where the text says what 0
(of durations: `0s`) means.

| setting | default | what it is for |
|---|---|---|
"""


def documented(kind: type) -> Iterator[tuple[str, str]]:
    """(field, its docstring) of a class, in order."""
    (body,) = (node.body for node in ast.parse(inspect.getsource(kind)).body if isinstance(node, ast.ClassDef))
    for field, said in pairwise(body):
        if isinstance(field, ast.AnnAssign) and isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant):
            yield ast.unparse(field.target), " ".join(str(said.value.value).split())


def page() -> str:
    """The whole page."""
    told = {name: field.get_default() for name, field in Config.model_fields.items()}
    general = [_row(name, _plain(told[name]), text) for name, text in documented(Config) if name in told]
    defaults = {f.name: f.default for f in fields(Timing) if f.default is not MISSING}
    timing = [_row(written(name), f"`{shown(name, defaults[name])}`", text) for name, text in documented(Timing)]
    return HEAD + "".join(general) + TIMING + "".join(timing)


def _row(name: str, default: str, text: str) -> str:
    return f"| `{name}` | {default} | {text} |\n"


def _plain(value: object) -> str:
    return f"`{value}`" if value not in (None, "", {}) else "none"


if __name__ == "__main__":
    print(page(), end="")
