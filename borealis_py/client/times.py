"""Parses times and integers as inputs spell them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta

from borealis_py.types.values import WHOLE

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


def parse_stime(value: object) -> int | None:
    """A time in µs since 1970, from an integer (or its digits) or ISO 8601; None or "" gives None.

    Raises:
        ValueError: it is neither.
    """
    if value is None or value == "":
        return None
    if type(value) is int:
        return value
    if isinstance(value, str):
        text = value.strip()
        if WHOLE.fullmatch(text):
            return int(text)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            pass
        else:
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            return (aware - _EPOCH) // _MICROSECOND
    raise ValueError(f"stime {value!r} is neither integer microseconds nor an ISO 8601 date-time")


def parse_stimes(values: Sequence[object]) -> Sequence[int | None]:
    """`parse_stime` of each. Raises ValueError."""
    kinds = set(map(type, values))
    if kinds == {int}:
        return values  # type: ignore[return-value]
    if kinds == {str}:
        with suppress(ValueError):
            return whole_numbers(values)  # type: ignore[arg-type]
    return [parse_stime(value) for value in values]


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
