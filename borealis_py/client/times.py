"""Parses times and integers as inputs spell them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from borealis_py.query.times import TimeForm

AS_WRITTEN = TimeForm()
"""How times are read where nothing else is said: whole microseconds, or text."""


def parse_stime(value: object, form: TimeForm = AS_WRITTEN) -> int | None:
    """A time in µs since 1970; None or "" gives None.

    Raises:
        NoTime: it is none, by this form.
    """
    return form.us(value)


def parse_stimes(values: Sequence[object], form: TimeForm = AS_WRITTEN) -> Sequence[int | None]:
    """`parse_stime` of each. Raises NoTime."""
    kinds = set(map(type, values))
    numbers: Sequence[int | None] | None = None
    if kinds == {int}:
        numbers = values  # type: ignore[assignment]
    elif kinds == {str} and form.format is None:
        with suppress(ValueError):
            numbers = whole_numbers(values)  # type: ignore[arg-type]
    if numbers is not None and form.takes_as_they_are(numbers):
        return numbers
    return [form.us(value) for value in values]


def whole_numbers(texts: Sequence[str]) -> list[int | None]:
    """Parse texts that are each empty (None) or match `WHOLE` with optional white space. Raises
    ValueError otherwise.
    """
    plain(texts)
    return [int(text) if text else None for text in texts] if "" in texts else list(map(int, texts))


def plain(texts: Sequence[str]) -> None:
    """Raises ValueError if a text may be a number to Python but not to us (1_000, digits of other scripts)."""
    together = "".join(texts)
    if "_" in together or not together.isascii():
        raise ValueError("to be looked at one by one")
