"""docs/tutorials/cluster.md beside what the drill did: each of its commands was given, and its statuses look so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.docs.output import alike
from tests.docs.page import blocks

PAGE = Path(__file__).parents[2] / "docs" / "tutorials" / "cluster.md"
ASIDE = ("docker-compose logs",)
"""Of these the drill looks at the whole output in another way."""


def differences(given: Sequence[tuple[str, str]]) -> list[str]:
    """What the page shows otherwise than the drill saw it. `given`: its commands, and what each printed."""
    found = []
    for block in blocks(PAGE):
        for step in block.steps() if block.language == "console" else ():
            printed = [said for command, said in given if command.partition("#")[0].strip() == step.command]
            if not printed and not step.command.startswith(ASIDE):
                found.append(f"line {step.line}: {step.command!r} was not run")
            elif " exec " in step.command and not any(alike(step.shown, said) for said in printed):
                found.append(f"line {step.line}: none of this looks so:\n" + "\n".join(printed))
    return found
