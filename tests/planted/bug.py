"""What a planted bug is: a rule of `docs/protocol` that is switched off in the product, and who must notice that."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from tests.planted.worlds import IngressWorlds, Shown, Worlds

NUMBERS = re.compile(r"(?:[ABR]\d+,? )+")
EFFECTS = ("safety", "liveness", "quality")


@dataclass(frozen=True)
class Script:
    """A test that fails while the rule is off, by its id in pytest. `oracle`: how the toy world's one that notices it
    begins (`Broken`); empty: the test's own assertions do."""

    test: str
    oracle: str = ""


@dataclass(frozen=True)
class Bug:
    """A rule, how to switch it off, and who notices.

    Attributes:
        rule: its numbers in `docs/protocol`, and what it says.
        effect: what suffers: "safety" (what is called stable), "liveness" (it comes too late or never), "quality" (it
            could be better).
        plant: switches it off as long as the context lasts that it returns.
        worlds: of the simulator, which show it to an oracle.
        script: among the tests of the protocol.
        scene: the transcript that prints something else.
    """

    rule: str
    effect: str
    plant: Callable[[], AbstractContextManager[Any]]
    worlds: Worlds | IngressWorlds | None = None
    script: Script | None = None
    scene: str | None = None

    @property
    def numbers(self) -> tuple[str, ...]:
        """The rules that its name begins with."""
        found = NUMBERS.match(self.rule)
        return tuple(found.group().replace(",", "").split()) if found else ()

    def shown(self, seed: int) -> Shown | None:
        """What the simulated world of this seed shows of it. None: nothing."""
        assert self.worlds is not None
        with self.plant():
            return self.worlds.shown(seed, self.effect)
