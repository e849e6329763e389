"""The demo's picture: added delay of every bucket against time, and what the replicas were doing, as one SVG file.

Takes plain values and gives text back. Knows nothing of Kafka, of records or of how anything was measured.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

WIDTH = 1000
LEFT, RIGHT, TOP = 150, 24, 92
PLOT_HEIGHT = 240
BAND_HEIGHT, BAND_GAP = 20, 8
PANEL_GAP = 84
LABEL_WIDTH_MIN = 26
"""A band narrower than its text shows none: its colour is in the legend."""

KINDS = {"STABLE": "#1f77b4", "TENTATIVE": "#e6740a"}
STATES = {
    "STABLE": "#a9d3a0",
    "UPSTREAM_FAILURE": "#f2a49a",
    "STABILIZATION": "#f4d36b",
    "RECOVERING": "#c5c2dd",
}
JOB = "#5b3a8c"
MARKED, UNMARKED = "#3f6076", "#c9dbe6"
"""Cells of a strip."""
INK, FAINT, GRID = "#222222", "#666666", "#e3e3e3"


@dataclass(frozen=True, slots=True)
class PicturePoint:
    """One bucket: `at_s` its end, seconds since T0; `kind` what spoke for it first."""

    at_s: float
    added_s: float
    kind: str


@dataclass(frozen=True, slots=True)
class Span:
    """A replica was in `state` from `start_s` to `end_s`."""

    state: str
    start_s: float
    end_s: float


@dataclass(frozen=True, slots=True)
class PicturedJob:
    """A redo by a replica: of `rows` input rows on `engine` "spark" or "inline", or taken over from a "peer"."""

    start_s: float
    end_s: float
    rows: int
    engine: str


@dataclass(frozen=True, slots=True)
class Band:
    """One replica's time line."""

    label: str
    spans: tuple[Span, ...]
    jobs: tuple[PicturedJob, ...] = ()


@dataclass(frozen=True, slots=True)
class Cell:
    """From `start_s` to `end_s` results say `tip`; `marked`: what the legend names is the case."""

    start_s: float
    end_s: float
    marked: bool
    tip: str


@dataclass(frozen=True, slots=True)
class Strip:
    """What a query's results say, over time. `legend`: what a marked cell means."""

    label: str
    legend: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class PicturePanel:
    """One query; the strip, if there is one, lies below its bands."""

    query: str
    points: tuple[PicturePoint, ...]
    bands: tuple[Band, ...]
    strip: Strip | None = None


@dataclass(frozen=True, slots=True)
class Timeline:
    """Everything in the picture. Times are seconds since T0; `failure` is when `source` was cut off."""

    title: str
    panels: tuple[PicturePanel, ...]
    threshold_s: float
    source: str
    failure: tuple[float, float]
    end_s: float


def draw(timeline: Timeline) -> str:
    """The picture as SVG text."""
    heights = [_panel_height(panel) for panel in timeline.panels]
    height = TOP + sum(heights) + PANEL_GAP * max(0, len(heights) - 1) + 62
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" viewBox="0 0 {WIDTH} {height}" '
        f'font-family="system-ui, -apple-system, Segoe UI, Helvetica, Arial, sans-serif" font-size="12" fill="{INK}">',
        f"<title>{escape(timeline.title)}</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        _text(LEFT, 26, timeline.title, size=16, weight="600"),
        *_legend(timeline),
    ]
    top = TOP
    for panel, tall in zip(timeline.panels, heights, strict=True):
        body += _Plot(timeline, panel, top).draw()
        top += tall + PANEL_GAP
    return "\n".join([*body, "</svg>", ""])


def _panel_height(panel: PicturePanel) -> int:
    lines = len(panel.bands) + (panel.strip is not None)
    return PLOT_HEIGHT + lines * (BAND_HEIGHT + BAND_GAP) + BAND_GAP


def _legend(timeline: Timeline) -> Iterator[str]:
    x = LEFT
    for kind, colour in KINDS.items():
        yield f'<circle cx="{x + 5}" cy="46" r="4" fill="{colour}"/>'
        yield _text(x + 14, 50, f"first result {kind}")
        x += 168
    yield f'<line x1="{x}" y1="46" x2="{x + 26}" y2="46" stroke="{INK}" stroke-dasharray="6 4"/>'
    yield _text(x + 32, 50, f"threshold X = {timeline.threshold_s:g} s")
    x += 160
    yield f'<rect x="{x}" y="39" width="16" height="14" fill="#fdeceb"/>'
    yield _text(x + 22, 50, f"{timeline.source} cut off")
    x += 116
    for strip in (panel.strip for panel in timeline.panels if panel.strip is not None):
        yield f'<rect x="{x}" y="39" width="14" height="14" fill="{MARKED}"/>'
        yield _text(x + 20, 50, strip.legend)
    x = LEFT
    for state, colour in STATES.items():
        yield f'<rect x="{x}" y="63" width="14" height="14" rx="2" fill="{colour}"/>'
        yield _text(x + 20, 74, state)
        x += 44 + 8 * len(state)
    yield f'<rect x="{x}" y="63" width="4" height="14" fill="{JOB}"/>'
    yield _text(x + 11, 74, "redo job on Spark, or from a peer")


class _Plot:
    """One panel: the plot, its axes and the bands under it."""

    def __init__(self, timeline: Timeline, panel: PicturePanel, top: int) -> None:
        self._timeline = timeline
        self._panel = panel
        self._top = top
        self._bottom = top + PLOT_HEIGHT
        self._end_s = max(timeline.end_s, timeline.failure[1], 1e-3)
        highest = max([timeline.threshold_s, *(p.added_s for p in panel.points)])
        self._low_s = min(0.0, -0.04 * highest, *(p.added_s for p in panel.points)) if panel.points else 0.0
        self._high_s = highest * 1.12

    def draw(self) -> Iterator[str]:
        yield from self._failure()
        yield from self._axes()
        yield from self._points()
        y = self._bottom + BAND_GAP
        for band in self._panel.bands:
            yield from self._band(band, y)
            y += BAND_HEIGHT + BAND_GAP
        if self._panel.strip is not None:
            yield from self._strip(self._panel.strip, y)

    def _x(self, at_s: float) -> float:
        inside = min(max(at_s, 0.0), self._end_s)
        return LEFT + inside / self._end_s * (WIDTH - LEFT - RIGHT)

    def _y(self, added_s: float) -> float:
        return self._bottom - (added_s - self._low_s) / (self._high_s - self._low_s) * PLOT_HEIGHT

    def _failure(self) -> Iterator[str]:
        left, right = map(self._x, self._timeline.failure)
        tall = _panel_height(self._panel)
        yield f'<rect x="{left:.1f}" y="{self._top}" width="{right - left:.1f}" height="{tall}" fill="#fdeceb"/>'

    def _axes(self) -> Iterator[str]:
        right = WIDTH - RIGHT
        for value in ticks(self._low_s, self._high_s, 5):
            y = self._y(value)
            yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{GRID}"/>'
            yield _text(LEFT - 8, y + 4, f"{value:g}", anchor="end", colour=FAINT)
        floor = self._top + _panel_height(self._panel)
        for value in ticks(0.0, self._end_s, 12):
            x = self._x(value)
            yield f'<line x1="{x:.1f}" y1="{floor}" x2="{x:.1f}" y2="{floor + 5}" stroke="{FAINT}"/>'
            yield _text(x, floor + 19, f"{value:g}", anchor="middle", colour=FAINT)
        yield f'<line x1="{LEFT}" y1="{floor}" x2="{right}" y2="{floor}" stroke="{FAINT}"/>'
        yield _text((LEFT + right) / 2, floor + 38, "seconds since T0", anchor="middle", colour=FAINT)
        yield _text(24, self._top + 12, self._panel.query, weight="600")
        yield _text(24, self._top + 30, "added delay, s", colour=FAINT)
        y = self._y(self._timeline.threshold_s)
        yield f'<line x1="{LEFT}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="{INK}" stroke-dasharray="6 4"/>'

    def _points(self) -> Iterator[str]:
        for kind, colour in KINDS.items():
            of_kind = [p for p in self._panel.points if p.kind == kind]
            yield f'<g fill="{colour}" fill-opacity="0.75">'
            for p in of_kind:
                yield f'<circle cx="{self._x(p.at_s):.1f}" cy="{self._y(p.added_s):.1f}" r="2.2"/>'
            yield "</g>"

    def _band(self, band: Band, y: int) -> Iterator[str]:
        yield _text(LEFT - 8, y + BAND_HEIGHT - 6, band.label, anchor="end")
        for span in band.spans:
            left, right = self._x(span.start_s), self._x(span.end_s)
            colour = STATES.get(span.state, GRID)
            tip = f"{band.label} {span.state}, {span.start_s:.2f} s to {span.end_s:.2f} s"
            yield _rect(left, y, max(right - left, 0.8), BAND_HEIGHT, colour, tip)
            if right - left > max(LABEL_WIDTH_MIN, 7.4 * len(span.state)):
                yield _text((left + right) / 2, y + BAND_HEIGHT - 6, span.state, anchor="middle", size=10)
        for job in band.jobs:
            if job.engine == "inline":
                continue
            left, right = self._x(job.start_s), self._x(job.end_s)
            what = "took a peer's checkpoint over" if job.engine == "peer" else f"redo on Spark: {job.rows} rows"
            tip = f"{band.label} {what}, {job.end_s - job.start_s:.2f} s"
            yield _rect(left, y + BAND_HEIGHT - 5, max(right - left, 2.0), 5, JOB, tip)

    def _strip(self, strip: Strip, y: int) -> Iterator[str]:
        yield _text(LEFT - 8, y + BAND_HEIGHT - 6, strip.label, anchor="end")
        for cell in strip.cells:
            left, right = self._x(cell.start_s), self._x(cell.end_s)
            yield _rect(left, y, right - left, BAND_HEIGHT, MARKED if cell.marked else UNMARKED, cell.tip)


def ticks(low: float, high: float, most: int) -> list[float]:
    """Round values (1, 2 or 5 times a power of ten apart) in [low, high], at most `most` + 1 of them."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(f * power for f in (1, 2, 5, 10) if f * power >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 9) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def _rect(x: float, y: float, width: float, height: float, colour: str, tip: str) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{colour}">'
        f"<title>{escape(tip)}</title></rect>"
    )


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", size: int = 12, weight: str = "400", colour: str = INK
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor={quoteattr(anchor)} font-size="{size}" font-weight="{weight}" '
        f'fill="{colour}">{escape(text)}</text>'
    )


def spans(changes: Sequence[tuple[float, str]], end_s: float) -> tuple[Span, ...]:
    """Turn state changes (time, new state), in any order, into spans up to `end_s`; repeats of a state are merged."""
    merged: list[tuple[float, str]] = []
    for at, state in sorted(changes, key=lambda change: change[0]):
        if not merged or merged[-1][1] != state:
            merged.append((at, state))
    ends = [*(at for at, _ in merged[1:]), end_s][: len(merged)]
    return tuple(Span(state, at, end) for (at, state), end in zip(merged, ends, strict=True) if end > at)
