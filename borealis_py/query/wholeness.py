"""From which stime on a stream is whole, where topics are read from their end (`start="latest"`): what began before
would be computed from the rows that happened to come after the app began to read, and is left out.

Pure functions of a description, so that replicas, redo tasks and audits leave out the same.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from borealis_py.query.names import base_name
from borealis_py.query.plan import (
    JoinOp,
    Op,
    SessionWindowOp,
    SourceOp,
    TopOp,
    WindowApplyOp,
    WindowOp,
    inputs_of,
)
from borealis_py.query.spec import AppSpec

ALWAYS = -(2**62)
"""Of a stream of which nothing is missing. Below zero: the first windows may begin before 1970."""
TimeWindowsOp = WindowOp | TopOp | WindowApplyOp
LastEnd = Callable[[TimeWindowsOp, int], int]
"""When the last window that begins before a stime ends; at that stime or later. Microseconds."""
_CLOCKS_MOST_US = 26 * 3_600_000_000
"""How much longer than its size by clocks a window of a zone may be, at most."""


def _last_end(op: TimeWindowsOp, since: int) -> int:
    if op.zone is not None:
        return since + op.size_us + _CLOCKS_MOST_US
    first = -((op.offset_us - op.size_us - since) // op.every_us) * op.every_us + op.offset_us - op.size_us
    return first - op.every_us + op.size_us


def left_out_until(app: AppSpec, node: str, last_end: LastEnd = _last_end) -> tuple[int, ...]:
    """For each operator of a node, the stime (microseconds) before which it leaves out what is not whole: windows and
    sessions that begin earlier, left rows without a pair. `ALWAYS`: it leaves out nothing.

    `last_end`: of windows; by default an estimate where they go by the clocks of a zone, which only the engine knows.
    """
    if not app.beginnings:
        return (ALWAYS,) * len(app.node(node).plan)
    found = _of_operators(app, node, _known(app, app.upstream_of(node)[:-1], last_end), last_end)
    return tuple(_bound(op, found) for op in app.node(node).plan)


def whole_from(app: AppSpec, node: str) -> int:
    """The stime (microseconds) from which a node's rows are whole; `ALWAYS`: all are."""
    return _known(app, app.upstream_of(node), _last_end)[node] if app.beginnings else ALWAYS


def _known(app: AppSpec, nodes: Sequence[str], last_end: LastEnd) -> dict[str, int]:
    """From when on the sources and these nodes, each after those it reads, are whole."""
    known = {source: _of_source(app, source) for source in app.sources}
    for name in nodes:
        known[name] = _of_operators(app, name, known, last_end)[-1]
    return known


def _of_operators(app: AppSpec, node: str, known: Mapping[str, int], last_end: LastEnd) -> list[int]:
    """From when on the rows of each operator of a node are whole."""
    found: list[int] = []
    for op in app.node(node).plan:
        found.append(_whole(op, found, known, last_end))
    return found


def _of_source(app: AppSpec, source: str) -> int:
    beginning = app.beginnings.get(base_name(source))
    return ALWAYS if beginning is None or not beginning.whole_us else beginning.whole_us


def _bound(op: Op, found: Sequence[int]) -> int:
    """What `left_out_until` gives for an operator. `found`: from when on each operator of its node is whole."""
    inputs = [found[i] for i in inputs_of(op)]
    if isinstance(op, TimeWindowsOp):
        return inputs[0]
    if isinstance(op, SessionWindowOp):
        return _after(inputs[0], op.gap_us)  # an earlier row, less than the gap before, would have begun it sooner
    if isinstance(op, JoinOp) and op.how == "left":
        return _after(inputs[1], -op.low_us)
    return ALWAYS


def _whole(op: Op, found: list[int], known: Mapping[str, int], last_end: LastEnd) -> int:
    """From when on an operator's rows are whole."""
    if isinstance(op, SourceOp):
        return known[op.name]
    since = max((found[i] for i in inputs_of(op)), default=ALWAYS)
    if isinstance(op, TimeWindowsOp):  # a result's stime is the last of its window
        return since if since == ALWAYS else max(since, last_end(op, since))
    if isinstance(op, SessionWindowOp):
        return _after(since, op.gap_us + op.most_us)
    if isinstance(op, JoinOp):
        apart = max(abs(op.low_us), abs(op.high_us))
        alone = op.high_us - op.low_us if op.how == "left" else 0
        return _after(since, max(apart, alone))
    return since


def _after(since: int, later_us: int) -> int:
    return ALWAYS if since == ALWAYS else since + max(later_us, 0)
