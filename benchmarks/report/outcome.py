"""The outcome of an experiment as a table, as JSON and as a figure, next to published results."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import msgspec

from borealis_py.bench.figures import BenchError
from borealis_py.bench.machine import BenchMachine

PANEL_INCHES = (5.2, 3.4)
COLUMNS = 2
"""Panels per row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Points of one kind, `x` and `y` in the units of the panel's axes."""

    label: str
    x: list[float]
    y: list[float]
    style: Literal["line", "points", "bars"] = "line"


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One picture. `x`, `y`: what the axes show, with units. `bound`: a promise, as a horizontal line."""

    title: str
    x: str
    y: str
    curves: list[Curve]
    bound: float | None = None
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Everything that an experiment measured.

    Attributes:
        name: of the command. published: what others report, with the source. setup: what is different here. worse: what
            we do worse.
        columns: of the table; one that ends with ">" is right-aligned.
        ratios: what `bench check` compares, by name: larger is better, and independent of the machine's speed.
        data: all figures, machine-readable; names end with their units.
    """

    name: str
    title: str
    published: str
    setup: str
    worse: str
    columns: list[str]
    rows: list[list[str]]
    ratios: dict[str, float] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    panels: list[Panel] = field(default_factory=list)


def needs_matplotlib() -> None:
    """Raises BenchError: no figure could be drawn. Asked before an experiment that takes minutes."""
    if find_spec("matplotlib") is None:
        raise BenchError("figures need matplotlib: make setup installs it; --short draws none")


def write(outcome: Outcome, machine: BenchMachine, seconds: float, directory: Path) -> list[Path]:
    """Write `<name>.json` and `<name>.svg`. Returns the files written.

    Raises:
        BenchError: no plotting library (`pip install 'borealis-py[bench]'`), or the directory is not writable.
    """
    told = {**asdict(outcome), "machine": asdict(machine), "seconds": seconds}
    try:
        directory.mkdir(parents=True, exist_ok=True)
        data, figure = directory / f"{outcome.name}.json", directory / f"{outcome.name}.svg"
        data.write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
        if outcome.panels:
            _draw(outcome, figure)
    except OSError as exc:
        raise BenchError(f"cannot write figures into {directory}: {exc}") from exc
    return [data, figure] if outcome.panels else [data]


def _draw(outcome: Outcome, path: Path) -> None:
    needs_matplotlib()
    import matplotlib as mpl
    from matplotlib.figure import Figure

    columns = min(COLUMNS, len(outcome.panels))
    lines = -(-len(outcome.panels) // columns)
    with mpl.rc_context({"svg.hashsalt": outcome.name, "svg.fonttype": "none"}):  # the same figures, the same file
        figure = Figure(figsize=(columns * PANEL_INCHES[0], lines * PANEL_INCHES[1]), layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False).flatten()
        for panel, at in zip(outcome.panels, axes, strict=False):
            _panel(panel, at)
        for at in axes[len(outcome.panels) :]:
            at.set_visible(False)
        figure.suptitle(outcome.title)
        figure.savefig(path, format="svg", metadata={"Date": None})


def _panel(panel: Panel, at: Any) -> None:
    bars = [curve for curve in panel.curves if curve.style == "bars"]
    for curve in panel.curves:
        if curve.style == "bars":
            width = 0.8 / len(bars)
            shift = (bars.index(curve) - (len(bars) - 1) / 2) * width
            at.bar([x + shift for x in curve.x], curve.y, width, label=curve.label)
        else:
            at.plot(curve.x, curve.y, "o" if curve.style == "points" else "o-", markersize=4, label=curve.label)
    if panel.bound is not None:
        at.axhline(panel.bound, color="black", linestyle="--", linewidth=1)
    at.set(title=panel.title, xlabel=panel.x, ylabel=panel.y)
    if panel.log_x:
        at.set_xscale("log")
    if panel.log_y:
        at.set_yscale("log")
    else:
        at.set_ylim(bottom=0)
    if len(panel.curves) > 1:
        at.legend(fontsize="small")
