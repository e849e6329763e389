"""Names the cause of a dead letter: the expression that failed, the values it had, and what to write instead.

A statement computes many expressions at once, and the engine's message names none of them. So the row, or the group,
that fails alone is computed once more, expression by expression. The engine is asked through a function: this module
knows only SQL as text. What it finds is a function of the rows alone, so that replicas give the same reason.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from borealis_py.types.arrow import shown

_SHOWN = 60
"""How much of a value or an expression a reason shows."""
_VALUES_MAX = 5
"""How many values it shows."""
_WHOLE = "an int64 holds no more than 9223372036854775807: write {whole}"
_ADVICE: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), advice)
    for pattern, advice in (
        (r"destination type U?INT(8|16|32)\b", "CAST to BIGINT, or TRY_CAST gives null instead"),
        (r"(multiplication|addition|subtraction) of DECIMAL|more than \d+ digits", "write {casts}"),
        (r"shift", "shift fewer places, or multiply CAST(... AS DECIMAL(38,0)) by powers of two"),
        (r"[Oo]verflow|destination type INT64|to type INT64|INT128", _WHOLE),
        (
            r"Casting value .* to type DECIMAL|Could not (cast|convert) .*DECIMAL",
            "CAST to a DECIMAL of more digits, or TRY_CAST gives null instead",
        ),
        (
            r"when casting|[Cc]ould not convert string|invalid .*(date|time|timestamp|interval|blob|UUID)",
            "TRY_CAST gives null instead, or filter(...) such rows out",
        ),
        (r"[Mm]alformed JSON|JSON is malformed|not JSON", "filter with json_valid(...), or TRY_CAST"),
        (r"strptime|Could not parse string", "try_strptime(...) gives null instead"),
        (
            r"longer than \d+ bytes|take more than|multiplied.* beyond|too many|nested more than",
            "shorten the text with left(...), or filter(...) such rows out",
        ),
        (r"before the year 1 or after 9999", "filter(...) such times out, or give null with CASE"),
        (r"not valid UTF-8", "take the bytes as binary, or as hex(...)"),
        (r"the path has", "write a path with one '..' at most"),
        (r"the format asks", "write the width into the format, below 10000"),
        (r"[Ee]scape", "write one character after ESCAPE, and something after it in the pattern"),
        (r"combining characters", "filter(...) such texts out"),
        (r"row_max", "select less, or raise `timing: row_max`"),
    )
)
"""What to do about a message of the engine. The first that fits."""
_OTHERWISE = "filter(...) such rows out, or give null with CASE WHEN"


@dataclass(frozen=True)
class NamedExpression:
    """One expression of a statement. `where`: as in "map(total)"; `text`: as its user wrote it; `sql`: over the rows of
    its stage; `columns` that it uses."""

    where: str
    text: str
    sql: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class ExpressionStage:
    """Expressions, `parts`, over the same rows. `select`: the relation with these rows, of a relation with a
    statement's rows. `types`: of the columns of these rows."""

    select: Callable[[str], str]
    parts: tuple[NamedExpression, ...]
    types: Mapping[str, pa.DataType]


_NO_PART = NamedExpression("", "", "", ())
_NONE = ExpressionStage(str, (), {})


def culprit(
    stages: Sequence[ExpressionStage], feed: str, fails: Callable[[str], bool]
) -> tuple[ExpressionStage, NamedExpression] | None:
    """The first expression that fails alone; None: none does.

    Args:
        feed: the relation with the rows. fails: whether a SELECT raises an error.
    """
    for stage in stages:
        rows = f"({stage.select(feed)}) r"

        def failing(parts: Sequence[NamedExpression], rows: str = rows) -> bool:
            return fails(f"SELECT {', '.join(f'{part.sql} AS c{n}' for n, part in enumerate(parts))} FROM {rows}")

        parts = stage.parts
        if not parts or not failing(parts):
            continue
        while len(parts) > 1:
            half = parts[: len(parts) // 2]
            parts = half if failing(half) else parts[len(half) :]
        return (stage, parts[0]) if failing(parts) else None
    return None


def explained(reason: str, found: tuple[ExpressionStage, NamedExpression] | None, rows: pa.RecordBatch) -> str:
    """The reason with the expression that was found, its values in the only row, and what to write instead."""
    if found is None:  # all of them together: a row that is too large
        return f"{reason}; {advice(reason, _NONE, _NO_PART)}"
    stage, part = found
    named = [name for name in part.columns if name in rows.schema.names][:_VALUES_MAX] if rows.num_rows == 1 else []
    values = ", ".join(f"{name}={_short(repr(shown(rows.column(name))[0]))}" for name in named)
    where = f"{part.where}: {_short(part.text)}" + (f", with {values}" if values else "")
    told = f"{reason.rstrip('.!')}; in {where}"
    return told if _advises(reason) else f"{told}; {advice(reason, stage, part)}"


def advice(reason: str, stage: ExpressionStage, part: NamedExpression) -> str:
    """What to do about a message of the engine."""
    template = next((text for pattern, text in _ADVICE if pattern.search(reason)), _OTHERWISE)
    return template.format(casts=_casts(stage, part), whole=_casts(stage, part, whole=True))


def _casts(stage: ExpressionStage, part: NamedExpression, *, whole: bool = False) -> str:
    """The CASTs that let an expression compute with 38 digits. `whole`: of its whole numbers, if it has any."""
    kinds = {name: stage.types[name] for name in part.columns if name in stage.types}
    numbers = [f"CAST({name} AS DECIMAL(38,0))" for name, kind in kinds.items() if kind == pa.int64()]
    decimals = [
        f"CAST({name} AS DECIMAL(38,{kind.scale}))"
        for name, kind in kinds.items()
        if pa.types.is_decimal(kind) and kind.precision < 38
    ]
    found = numbers if whole and numbers else [*numbers, *decimals]
    return f"{' or '.join(found)} in it" if found else "CAST(... AS DECIMAL(38,0)) around its whole numbers"


def _advises(reason: str) -> bool:
    """Whether a reason of ours says what to write."""
    return "write " in reason or "CAST that to" in reason or "CAST both to" in reason


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
