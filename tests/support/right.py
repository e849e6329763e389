"""What no test forgives: results that are wrong. A red test that says so is never run a second time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class WrongDataError(AssertionError):
    """Results are wrong, missing or twice, or nobody could tell: a bug, however busy the machine is."""


class Judged(Protocol):
    """A verdict of the checker."""

    @property
    def anomalies(self) -> Sequence[object]: ...

    @property
    def undecided(self) -> Sequence[object]: ...


def assert_right(verdict: Judged) -> None:
    """Nothing is wrong in the app's topics, and nothing undecided.

    Raises:
        WrongDataError: with what is.
    """
    if verdict.anomalies or verdict.undecided:
        raise WrongDataError(f"anomalies {verdict.anomalies}, undecided {verdict.undecided}")
