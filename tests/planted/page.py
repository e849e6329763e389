"""Generates docs/evidence/rules.md: which rules tests switch off, and who notices.

python -m tests.planted.page > docs/evidence/rules.md
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from tests.guards import rules as protocol
from tests.planted import BUGS
from tests.planted.bug import EFFECTS, Bug
from tests.planted.worlds import IngressWorlds

HEAD = """# Rules, and who notices that one is broken

Tests switch off one rule of the [protocol](../protocol/README.md) at a time in the product (*planted bugs*,
`tests/planted/`) and run what must notice that. A bug is of *safety* if what is called stable would be wrong, of
*liveness* if results would come too late or never, of *quality* if they could be better. This page is generated from
the code: `python -m tests.planted.page > docs/evidence/rules.md`.

- A *script* is a test, mostly of the protocol, with pure state machines in a toy world. It fails by its own
  assertions, or an oracle of the toy world raises; then that is named.
- A *transcript* is a scene of `tests/testdata/`, which prints something else or breaks an oracle.
- *Worlds* are those of the simulator. One that is known to show the bug is run, and one of these oracles must be the
  first to find it. *Ingresses*: a world of ingresses, and a part of what its oracle says. *Hold*: the bug breaks no
  promise, and three worlds must hold.

Changes that a tool makes everywhere in the code, whatever the rule, are another matter: [mutants](mutants.md).

"""
GROUPS = (
    ("A", "What records and results mean"),
    ("R", "Rules of a replica"),
    ("B", "Reasons"),
)
UNBROKEN = """## Rules that no planted bug breaks

Other tests may well check them; none switches them off to see who notices.

| no. | rule |
|---|---|
"""


def page() -> str:
    """The whole page."""
    groups = [_group(letter, title) for letter, title in GROUPS]
    unbroken = "".join(f"| {number} | {text} |\n" for number, text in rules().items() if number not in broken())
    return HEAD + _counts() + "\n" + "\n".join(groups) + "\n" + UNBROKEN + unbroken


def _counts() -> str:
    """How many bugs each level notices."""
    levels = (
        ("planted bugs", BUGS),
        ("noticed by a script", [bug for bug in BUGS if bug.script]),
        ("by a transcript", [bug for bug in BUGS if bug.scene]),
        ("in worlds", [bug for bug in BUGS if bug.worlds and bug.worlds.oracles]),
        ("worlds hold", [bug for bug in BUGS if bug.worlds and not bug.worlds.oracles]),
    )
    rows = (f"| {name} | {len(bugs)} | {' | '.join(_by_effect(bugs))} |\n" for name, bugs in levels)
    return f"| | all | {' | '.join(EFFECTS)} |\n|---|---:|---:|---:|---:|\n" + "".join(rows)


def _by_effect(bugs: Iterable[Bug]) -> list[str]:
    found = [bug.effect for bug in bugs]
    return [str(found.count(effect)) for effect in EFFECTS]


def _group(letter: str, title: str) -> str:
    bugs = sorted((bug for bug in BUGS if letter == bug.numbers[0][0]), key=_place)
    rows = (f"| {bug.rule} | {bug.effect} | {_script(bug)} | {_scene(bug)} | {_worlds(bug)} |\n" for bug in bugs)
    return f"## {title}\n\n| rule | effect | script | transcript | worlds |\n|---|---|---|---|---|\n" + "".join(rows)


def _place(bug: Bug) -> tuple[list[int], str]:
    return [int(number) for number in re.findall(r"\d+", bug.numbers[0])], bug.rule


def _script(bug: Bug) -> str:
    if bug.script is None:
        return ""
    name = f"`{bug.script.test.partition('::')[2]}`"
    return f"{name}: {bug.script.oracle}" if bug.script.oracle else name


def _scene(bug: Bug) -> str:
    return f"[{bug.scene}](../../tests/testdata/{bug.scene}.txt)" if bug.scene else ""


def _worlds(bug: Bug) -> str:
    if bug.worlds is None:
        return ""
    if isinstance(bug.worlds, IngressWorlds):
        return f"ingresses: {bug.worlds.told}"
    return ", ".join(bug.worlds.oracles) or "hold"


def broken() -> set[str]:
    """Numbers of rules that some bug breaks."""
    return {number for bug in BUGS for number in bug.numbers}


def rules() -> dict[str, str]:
    """Number -> what the protocol calls the rule, or says of it, in its order. Parts of rules are left out."""
    return {n: rule.title or rule.sentence for n, rule in protocol.rules().items() if "." not in n}


if __name__ == "__main__":
    print(page(), end="")
