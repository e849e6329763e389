"""Tries the functions of an app for what replicas need: equal results from equal rows, whatever is beside them.

Each function is called on rows, again on the same, on parts of them, and in a second process. No trial proves that a
function is deterministic; each difference proves that it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import zip_longest

import msgspec
import pyarrow as pa

from borealis_py.app.functions import generated
from borealis_py.app.functions.second_process import Asked, SecondProcessFailed, told_elsewhere
from borealis_py.app.functions.trial import REFUSED, told, told_in_parts
from borealis_py.engine import compile_query
from borealis_py.engine.applied.apply import RowFunction
from borealis_py.engine.applied.code_in_place import CodeInPlace
from borealis_py.engine.applied.window_apply import GroupFunction
from borealis_py.engine.operators.base import dead_letter_values
from borealis_py.protocol.settings import ROW_MAX_BYTES
from borealis_py.query.errors import QueryError
from borealis_py.query.plan import ApplyOp, WindowApplyOp
from borealis_py.query.spec import AppSpec

SHOWN_MAX = 300
Samples = Mapping[tuple[str, int], Sequence[pa.RecordBatch]]
"""Rows by (node, number of the function's operator among those of the node)."""


@dataclass(frozen=True, slots=True)
class FunctionReport:
    """A `function`, by name, that gave equal results. `label`: of its node. `rows`: how many rows or groups it was
    asked for, `refused` of which became dead letters, the first one with `reason`. `generated`: rows were made up."""

    label: str
    function: str
    rows: int
    refused: int
    reason: str
    generated: bool

    @property
    def useless(self) -> bool:
        """It refused everything, so nothing has been compared."""
        return self.refused == self.rows


def check_functions(spec: AppSpec, samples: Samples | None = None) -> list[FunctionReport]:
    """Try every function of an app that is described on this machine.

    Args:
        samples: rows that functions get when the user's rows run; where there are none, rows are generated.

    Raises:
        QueryError: a function gives other results for the same rows; the message shows the first difference.
    """
    found = []
    for name, node in spec.all_nodes.items():
        ops = [op for op in node.plan if isinstance(op, ApplyOp | WindowApplyOp)]
        if not ops:
            continue
        with closing(compile_query(spec, name, code=CodeInPlace())) as kernel:
            for number, (op, applied) in enumerate(zip(ops, kernel.applied, strict=True)):
                given = (samples or {}).get((name, number), ())
                found.append(_Trial(spec.label(name), op, applied.function, given).report())
    return found


class _Trial:
    def __init__(
        self,
        label: str,
        op: ApplyOp | WindowApplyOp,
        function: RowFunction | GroupFunction,
        given: Sequence[pa.RecordBatch],
    ) -> None:
        self._label = label
        self._op = op
        self._function = function
        self._generated = not given
        self._samples = list(given) or [generated.rows(function.input, odd) for odd in (False, True)]

    def report(self) -> FunctionReport:
        """Raises QueryError."""
        first = [told(self._function, rows) for rows in self._samples]
        self._compare(first, "when it is called again", [told(self._function, rows) for rows in self._samples])
        if isinstance(self._function, RowFunction):
            for how, ends in _SPLITS.items():
                parts = [told_in_parts(self._function, rows, ends(rows.num_rows)) for rows in self._samples]
                self._compare(first, how, parts)
        where = "in another process (with another PYTHONHASHSEED, TZ and number of threads)"
        self._compare(first, where, self._elsewhere())
        lines = [line for sample in first for line in sample]
        bad = [line.removeprefix(REFUSED) for line in lines if line.startswith(REFUSED)]
        return FunctionReport(
            self._label, self._op.function.name, len(lines), len(bad), bad[0] if bad else "", self._generated
        )

    def _elsewhere(self) -> list[list[str]]:
        try:
            return told_elsewhere(Asked(self._op, self._function.rows, self._samples, ROW_MAX_BYTES))
        except SecondProcessFailed as exc:
            raise QueryError(
                f"{self._label}: {self._op.function.name} runs here, but not in a second process: {exc}"
            ) from exc

    def _compare(self, first: list[list[str]], how: str, second: list[list[str]]) -> None:
        for rows, ours, theirs in zip(self._samples, first, second, strict=True):
            for number, (one, other) in enumerate(zip_longest(ours, theirs, fillvalue="no row")):
                if one != other:
                    raise QueryError(self._difference(rows, number, how, one, other))

    def _difference(self, rows: pa.RecordBatch, number: int, how: str, one: str, other: str) -> str:
        by_row = isinstance(self._function, RowFunction)
        what = msgspec.json.encode(dead_letter_values(rows, number if by_row else 0)).decode()
        of = f"row {what}" if by_row else f"result {number + 1} of a group of {rows.num_rows} rows that begins {what}"
        alone = ", from each row alone" if by_row else ""
        return (
            f"{self._label}: {self._op.function.name} gives another result {how}:\n"
            f"  {_short(of)}\n  first:  {_short(one)}\n  then:   {_short(other)}\n"
            f"Replicas would disagree (event DIVERGED). A function must compute equal results from equal rows{alone}: "
            "without clock, chance, files, network, the order of sets, or what it kept of earlier calls"
        )


def _short(text: str) -> str:
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}..."


_SPLITS: dict[str, Callable[[int], Sequence[int]]] = {
    "when it gets the rows in two parts": lambda count: sorted({count // 3, count} - {0}),
    "when it gets each row alone": lambda count: range(1, count + 1),
}


def remarks(reports: Sequence[FunctionReport]) -> Iterator[str]:
    """What a user should know of trials that found no difference, one line each."""
    for r in reports:
        rows = "generated rows" if r.generated else "rows"
        hint = "; give rows of yours: `borealis check FILE --rows SOURCE=ROWS.jsonl`" if r.generated else ""
        if not r.rows:
            yield f"{r.label}: {r.function} returned nothing for the {rows}, so nothing was compared{hint}"
        elif r.useless:
            yield f"{r.label}: {r.function} refused all {r.rows} {rows}, so nothing was compared: {r.reason}{hint}"
        elif r.refused:
            yield f"{r.label}: {r.function} refused {r.refused} of {r.rows} {rows}, the first: {r.reason}"
