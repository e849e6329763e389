"""A patch that does not fit the product any more is no rule that is switched off."""

from __future__ import annotations

from unittest import mock

import pytest

from sunion.output import SOutput
from tests.planted.bug import Bug
from tests.planted.worlds import Worlds

pytestmark = pytest.mark.sim
WORLDS = Worlds((), ("exception",))


def takes_too_little() -> object:
    """Made within a function, as those of the catalogue are."""

    def run(self: SOutput) -> None: ...

    return run


def uses_what_is_not_there(self: SOutput, *arguments: object) -> None:
    self.nothing  # type: ignore[attr-defined]  # noqa: B018


def raises(self: SOutput, *arguments: object) -> None:
    raise RecursionError("too deep")


def bug(patch: object) -> Bug:
    return Bug("R2 a rule", "quality", lambda: mock.patch.object(SOutput, "stable_run", patch), WORLDS)


def test_what_a_patch_makes_the_product_raise_counts() -> None:
    shown = bug(raises).shown(1)
    assert shown is not None
    assert (shown.oracle, shown.expected) == ("exception", True)


@pytest.mark.parametrize("patch", [uses_what_is_not_there, takes_too_little()])
def test_what_a_patch_that_does_not_fit_raises_does_not_count(patch: object) -> None:
    shown = bug(patch).shown(1)
    assert shown is not None
    assert (shown.oracle, shown.expected) == ("exception", False)
