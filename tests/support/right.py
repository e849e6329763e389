"""What no test forgives: data that are wrong. A red test that found some is never run a second time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class WrongDataError(AssertionError):
    """Results are wrong, missing or twice, or nobody could tell: a bug, however busy the machine is."""


@contextmanager
def exactly() -> Iterator[None]:
    """What is asserted in it, or in the test that it decorates, is about data.

    Raises:
        WrongDataError: an assertion failed.
    """
    try:
        yield
    except AssertionError as exc:
        raise WrongDataError(str(exc)) from exc
