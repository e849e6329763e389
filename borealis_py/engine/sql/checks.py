"""Argument checks: functions of ours that run inside the engine and refuse values that would cost too much.

`guards` inserts them into the expression tree. What they allow depends on values alone: every replica has the same
bounds. The bounds on work keep one row's call below two seconds on a slow core, since the default threshold is three.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from borealis_py.engine.sql.clocks import ZONED_TIME, offset_reason
from borealis_py.engine.sql.exact import MARK, Inexact, digits_of, text_reason
from borealis_py.types.values import nesting

NESTING_MAX = 100
"""Maximum nesting of brackets in text that is parsed (JSON, lists, structs, maps)."""
PATTERN_BYTES_MAX = 1_000
"""Maximum size of a pattern or path that is not a literal in the query, and of text parsed as a number or time."""
WORK_MAX = 64_000_000
"""Maximum bytes that one call may build, or product of two sizes if its time grows with that (nanoseconds per unit)."""
MOVED_MAX = 10_000_000_000
"""Maximum product of two lengths if the time grows with that, but many bytes are moved or compared per nanosecond."""
AGAIN_BYTES_MAX = 20_000
"""Maximum size of a text that is searched again after each match, if a search may read far beyond its match."""
_INDENT = 4

_WIDE = re.compile(r"[0-9]{5}|\{[^}]*\{|%[-+ #0]*\*|%[-+ #0]*[0-9]*\.\*")
_RECURSIVE = re.compile(r"\.\..*\.\.", re.DOTALL)
_ATOM = re.compile(r"\\[pP](?:\{[^}]*\}|.)?|\\.|\[\^?\]?(?:\\.|\[:[^]]*:\]|[^]\\])*\]|\{(\d+)(,?)(\d*)\}|.", re.DOTALL)
_CLASS_SIZE = 8
"""A Unicode class costs at least this many times as much as a letter."""


class TooMuch(ValueError):
    """A value exceeds a bound; the message names the bound."""


def pattern_size(pattern: str) -> int:
    """How many steps of a regular expression may be open at once: its atoms, multiplied by their repetitions."""
    sums, last = [0], 0
    for found in _ATOM.finditer(pattern):
        atom, low, comma, high = found.group(0), *found.groups()
        if low is not None:
            times = max(1, int(high) if high else int(low) + bool(comma))
            sums[-1] += last * (times - 1)
            last *= times
        elif atom == "(":
            sums.append(0)
        elif atom == ")" and len(sums) > 1:
            last = sums.pop()
            sums[-1] += last
        elif atom not in ("*", "+", "?", "|", "^", "$"):
            last = _CLASS_SIZE if "\\p" in atom.lower() else 1
            sums[-1] += last
    return min(sum(sums), 1 << 40)


def looks_far(pattern: str) -> bool:
    """Whether a search may read far beyond the end of its match, so that repeated searches read the rest each time."""
    atoms = []
    for found in _ATOM.finditer(pattern):
        atom, low, comma, high = found.group(0), *found.groups()
        endless = low is not None and comma and not high
        atoms.append("+" if endless else atom if len(atom) == 1 else "x")
    plain = "".join(atoms)
    first = re.search(r"[*+]", plain)
    return first is not None and ("|" in plain or plain[first.start() :].strip("*+?)") != "")


def _length(texts: pa.Array) -> np.ndarray:
    found: np.ndarray = pc.fill_null(pc.binary_length(texts), 0).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _nested(texts: pa.Array) -> pa.Array:
    if int(_length(texts).max(initial=0)) <= NESTING_MAX:
        return texts
    opened = pc.add(pc.count_substring(texts, "["), pc.count_substring(texts, "{"))
    for text in texts.filter(pc.fill_null(pc.greater(opened, NESTING_MAX), False)).to_pylist():
        if nesting(text.encode()) > NESTING_MAX:
            raise TooMuch(f"the text is nested more than {NESTING_MAX} levels deep")
    return texts


def _told(texts: pa.Array) -> pa.Array:
    """Bounds error messages that quote the text: for each quote or NUL the engine escapes, it moves the rest."""
    lengths = _length(texts)
    if int(lengths.max(initial=0)) ** 2 <= MOVED_MAX:
        return texts
    for text, length in zip(texts.to_pylist(), lengths.tolist(), strict=True):
        if text is not None and (text.count("\0") + text.count("'")) * length > MOVED_MAX:
            raise TooMuch("the text has too many quotes or NUL characters for its length")
    return texts


_INVALID = pa.scalar("\x1a", pa.string())
"""No number and no time: null where a conversion returns null for invalid text."""


def _short(texts: pa.Array) -> pa.Array:
    if int(_length(texts).max(initial=0)) > PATTERN_BYTES_MAX:
        raise TooMuch(
            f"the text is longer than {PATTERN_BYTES_MAX} bytes, which no pattern, path, number or time may be"
        )
    return texts


def _short_or_none(texts: pa.Array) -> pa.Array:
    """For conversions that return null for invalid text: replaces an overlong one by text that is invalid."""
    return pc.if_else(pa.array(_length(texts) <= PATTERN_BYTES_MAX), texts, _INVALID)


def _path(texts: pa.Array) -> pa.Array:
    for text in set(_short(texts).to_pylist()):
        if text is not None and _RECURSIVE.search(text):
            raise TooMuch("the path has more than one '..'")
    return texts


def _narrow(texts: pa.Array) -> pa.Array:
    for text in set(_short(texts).to_pylist()):
        if text is not None and _WIDE.search(text):
            raise TooMuch("the format asks for a width of more than 9999, or for one that an argument says")
    return texts


def _times(counts: pa.Array, units: pa.Array) -> pa.Array:
    for count, unit in zip(counts.to_pylist(), units.to_pylist(), strict=True):
        if count is not None and unit is not None and count * max(unit, 1) > WORK_MAX:
            raise TooMuch(f"the result would take more than {WORK_MAX} bytes")
    return counts


def _product(texts: pa.Array, others: pa.Array, most: pa.Array) -> pa.Array:
    if len(most) and int((_length(texts) * _length(others)).max(initial=0)) > (bound := most[0].as_py()):
        raise TooMuch(f"the lengths of the two texts, multiplied, are beyond {bound}")
    return texts


def _entries(texts: pa.Array, others: pa.Array) -> pa.Array:
    first, second = (pc.count_substring(a, ",").to_numpy().astype(np.int64) + 1 for a in (texts, others))
    if int((first * second).max(initial=0)) > WORK_MAX:
        raise TooMuch(f"the numbers of commas in the two texts, multiplied, are beyond {WORK_MAX}")
    return pa.array([True] * len(texts), pa.bool_())


def _indented(texts: pa.Array) -> pa.Array:
    for text in texts.to_pylist():
        lines = 0 if text is None else sum(map(text.count, ",[{]}")) + 1
        if lines * NESTING_MAX * _INDENT > WORK_MAX and lines * (nesting(text.encode()) + 1) * _INDENT > WORK_MAX:
            raise TooMuch(f"the result would take more than {WORK_MAX} bytes")
    return texts


def _searched(texts: pa.Array, sizes: pa.Array) -> pa.Array:
    if len(sizes) and int(_length(texts).max(initial=0)) * sizes[0].as_py() > WORK_MAX:
        raise TooMuch(f"the length of the text, multiplied by the size of the pattern, is beyond {WORK_MAX}")
    return texts


def _pattern(patterns: pa.Array, texts: pa.Array) -> pa.Array:
    sizes = {p: pattern_size(p) for p in set(_short(patterns).to_pylist()) if p is not None}
    for pattern, length in zip(patterns.to_pylist(), _length(texts).tolist(), strict=True):
        if pattern is not None and length * sizes[pattern] > WORK_MAX:
            raise TooMuch(f"the length of the text, multiplied by the size of the pattern, is beyond {WORK_MAX}")
    return patterns


def _again(texts: pa.Array, patterns: pa.Array) -> pa.Array:
    lengths = _length(texts)
    if int(lengths.max(initial=0)) > AGAIN_BYTES_MAX:
        for pattern, length in zip(patterns.to_pylist(), lengths.tolist(), strict=True):
            if length > AGAIN_BYTES_MAX and pattern is not None and looks_far(pattern):
                raise TooMuch(
                    f"the text is longer than {AGAIN_BYTES_MAX} bytes, and its pattern reads on beyond a match"
                )
    return texts


def _like(patterns: pa.Array, escapes: pa.Array) -> pa.Array:
    known: dict[tuple[str | None, str | None], str | None] = {}
    asked = list(zip(patterns.to_pylist(), escapes.to_pylist(), strict=True))
    for pattern, escape in set(asked):
        known[pattern, escape] = None if pattern is None or escape is None else like_regex(pattern, escape)
    return pa.array([known[one] for one in asked], pa.string())


def like_regex(pattern: str, escape: str) -> str:
    """The regular expression that matches what a LIKE pattern matches, without backtracking."""
    if len(escape.encode()) > 1 or escape in ("%", "_"):
        raise TooMuch("Invalid escape string. Escape string must be empty or one character, neither % nor _")
    written, literal, escape = ["(?s)"], False, escape or "\0"  # the engine's default, if none is given
    for char in pattern:
        if literal or char not in (escape, "%", "_"):
            written.append(char if char.isalnum() or ord(char) > 127 else f"\\x{ord(char):02x}")
            literal = False
        elif char == escape:
            literal = True
        else:
            written.append(".*" if char == "%" else ".")
    if literal:
        raise TooMuch("Like pattern must not end with escape character")
    return re.sub(r"(?:\.\*){2,}", ".*", "".join(written))


def _stars(patterns: pa.Array, texts: pa.Array) -> pa.Array:
    for pattern, length in zip(patterns.to_pylist(), _length(texts).tolist(), strict=True):
        stars = 0 if pattern is None else len(re.findall(r"\*+", pattern.rstrip("*")))
        if stars > 1 and length**stars > AGAIN_BYTES_MAX**2:
            raise TooMuch(f"the pattern has {stars} stars, which is too many for a text of {length} bytes")
    return patterns


def _marks(texts: pa.Array, found: pa.Array) -> pa.Array:
    if pc.any(found).as_py():
        raise TooMuch("the text has a hundred combining characters in a row")
    return texts


def _largest(lists: pa.Array) -> pa.Array:
    sizes = [
        max((len(t.encode()) for t in texts if t is not None), default=0) if texts else 0 for texts in lists.to_pylist()
    ]
    return pa.array([size + 16 for size in sizes], pa.int64())


def _within(counts: pa.Array, others: pa.Array, most: pa.Array) -> pa.Array:
    for count, other, bound in zip(counts.to_pylist(), others.to_pylist(), most.to_pylist(), strict=True):
        if count is not None and other is not None and count * other > bound:
            raise TooMuch(f"the sizes of its values, multiplied, are beyond {bound}")
    return pa.array([True] * len(counts), pa.bool_())


def _rounded(texts: pa.Array, digits: pa.Array) -> np.ndarray:
    """Which texts have a number with more digits after the point."""
    kept = digits[0].as_py() if len(digits) else 0
    found = pc.match_substring_regex(texts, rf"[eE]|\.[0-9_]{{{kept}}}[0-9_]*[1-9]")
    rounded: np.ndarray = pc.fill_null(found, False).to_numpy(zero_copy_only=False).copy()
    for at in np.flatnonzero(rounded).tolist():
        rounded[at] = digits_of(texts[at].as_py()) > kept
    return rounded


def _exact(texts: pa.Array, digits: pa.Array, types: pa.Array) -> pa.Array:
    rounded = _rounded(texts, digits)
    if rounded.any():
        at = int(np.flatnonzero(rounded)[0])
        raise Inexact(text_reason(texts[at].as_py(), digits[at].as_py(), types[at].as_py()))
    return texts


def _exact_or_none(texts: pa.Array, digits: pa.Array, _: pa.Array) -> pa.Array:
    """For conversions that return null for invalid text: replaces one that would be rounded by text that is invalid."""
    return pc.if_else(pa.array(_rounded(texts, digits)), _INVALID, texts)


def _zoned(texts: pa.Array) -> pa.Array:
    return pc.fill_null(pc.match_substring_regex(texts, ZONED_TIME), False)


def _clock(texts: pa.Array) -> pa.Array:
    zoned = texts.filter(_zoned(texts))
    if len(zoned):
        raise Inexact(offset_reason(zoned[0].as_py()))
    return texts


def _clock_or_none(texts: pa.Array) -> pa.Array:
    return pc.if_else(_zoned(texts), _INVALID, texts)


_TEXT, _COUNT = "VARCHAR", "BIGINT"
_CHECKS: tuple[tuple[str, Callable[..., pa.Array], list[str], str], ...] = (
    ("__nested", _nested, [_TEXT], _TEXT),
    ("__told", _told, [_TEXT], _TEXT),
    ("__short", _short, [_TEXT], _TEXT),
    ("__short_or_none", _short_or_none, [_TEXT], _TEXT),
    ("__exact", _exact, [_TEXT, _COUNT, _TEXT], _TEXT),
    ("__exact_or_none", _exact_or_none, [_TEXT, _COUNT, _TEXT], _TEXT),
    ("__clock", _clock, [_TEXT], _TEXT),
    ("__clock_or_none", _clock_or_none, [_TEXT], _TEXT),
    ("__path", _path, [_TEXT], _TEXT),
    ("__narrow", _narrow, [_TEXT], _TEXT),
    ("__times", _times, [_COUNT, _COUNT], _COUNT),
    ("__product", _product, [_TEXT, _TEXT, _COUNT], _TEXT),
    ("__entries", _entries, [_TEXT, _TEXT], "BOOLEAN"),
    ("__indented", _indented, [_TEXT], _TEXT),
    ("__searched", _searched, [_TEXT, _COUNT], _TEXT),
    ("__pattern", _pattern, [_TEXT, _TEXT], _TEXT),
    ("__again", _again, [_TEXT, _TEXT], _TEXT),
    ("__like", _like, [_TEXT, _TEXT], _TEXT),
    ("__stars", _stars, [_TEXT, _TEXT], _TEXT),
    ("__marks", _marks, [_TEXT, "BOOLEAN"], _TEXT),
    ("__largest", _largest, ["VARCHAR[]"], _COUNT),
    ("__within", _within, [_COUNT, _COUNT, _COUNT], "BOOLEAN"),
)


def register(connection: duckdb.DuckDBPyConnection) -> None:
    """Register the checks on a connection."""
    for name, function, parameters, result in _CHECKS:
        connection.create_function(name, function, parameters, result, type="arrow")  # type: ignore[call-overload]


def reason_of(line: str) -> str:
    """The first line of an error, without the engine's wording about Python functions and about error()."""
    for mark in ("executing the UDF: TooMuch: ", "executing the UDF: Inexact: ", f"Invalid Input Error: {MARK}"):
        _, marked, ours = line.partition(mark)
        if marked:
            return ours
    return line
