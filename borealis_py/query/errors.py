"""The one error of what a user wrote, and how it suggests what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class QueryError(ValueError):
    """An app or query cannot be run as written. The message names query, stream and column, and what to do."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the nearest known words, or nothing."""
    by_folded = {k.lower(): k for k in known}
    near = [by_folded[k] for k in difflib.get_close_matches(word.lower(), list(by_folded), n=2, cutoff=0.6)]
    return f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""


def unknown_column(word: str, where: str, columns: Iterable[str]) -> QueryError:
    """The error for a column that is not there: nearest candidates first, then all columns."""
    known = list(columns)
    hint = did_you_mean(word, known)
    return QueryError(f"unknown column {word!r} in {where}{hint or ';'} columns: {', '.join(known)}")
