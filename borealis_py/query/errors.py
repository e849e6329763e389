"""The error for invalid app definitions, with suggestions for misspelled names."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any


class QueryError(ValueError):
    """An app or query cannot run as written. The message names the query, stream and column, and what to do."""


class WrongWord(Exception):
    """A name or value that someone gave is none of those that there are: a command ends as on wrong usage. Mixed into
    an error that says so."""


class WrongValue(QueryError, WrongWord):
    """A word that names no query or node, is no duration, or none of those to choose from."""


class TableFileDiffers(QueryError):
    """A table's file is not here, or not with the content that it had where the app was described: replicas would
    disagree."""


class FunctionDiffers(QueryError):
    """A Python function of the app is not here, or not as it was where the app was described: replicas would
    disagree."""


def wrong_value(error: Mapping[str, Any]) -> str:
    """What pydantic says is wrong with a value (one of `ValidationError.errors()`): of our own words, nothing but
    them."""
    message = str(error["msg"])
    return message.removeprefix("Value error, ").removeprefix("Assertion failed, ")


def wrong_place(error: Mapping[str, Any]) -> str:
    """Where that value is: names and numbers, with dots; an empty string: it is the whole."""
    return ".".join(str(part) for part in error["loc"])


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`"; did you mean 'x'?"` for the closest known words, or an empty string."""
    by_folded = {k.lower(): k for k in known}
    near = [by_folded[k] for k in difflib.get_close_matches(word.lower(), list(by_folded), n=2, cutoff=0.6)]
    return f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""


_SHOWN = 5


def nearest(word: str, known: Iterable[str], what: str) -> str:
    """The same, or if none is close, the first of all there are, called `what`; an empty string: there are none."""
    names = sorted(known)
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return did_you_mean(word, names) or (f"; {what}: {', '.join(names[:_SHOWN])}{more}" if names else "")


def unknown_column(word: str, where: str, columns: Iterable[str]) -> QueryError:
    """The error for an unknown column: closest matches first, then all columns."""
    known = list(columns)
    hint = did_you_mean(word, known)
    return QueryError(f"unknown column {word!r} in {where}{hint or ';'} columns: {', '.join(known)}")
