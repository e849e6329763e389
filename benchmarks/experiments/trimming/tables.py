"""The report of `make bench NAME=trimming`. Pure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from benchmarks.experiments.throughput_tables import Caught, KeptUp
from benchmarks.report.outcome import Curve, Outcome, Panel
from borealis_py.bench.events import KEPT

ALL = "all"
WORDS = {ALL: "all", "default": "as by default", "needed": "what is needed"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One run: the backlog (`caught`), the live rate (`fed`), and how many records were deleted while that came."""

    caught: Caught
    fed: KeptUp
    deleted: int

    @property
    def kept(self) -> str:
        return self.caught.point.kept

    @property
    def speed(self) -> float:
        """Events a second until all was published."""
        return self.caught.events / self.caught.published_s

    @property
    def caught_us(self) -> float:
        """Processor time of an event of the backlog, in microseconds."""
        return self.caught.cpu_s * 1e6 / self.caught.events


Measure = Callable[[Compared], float]
MEASURES: dict[str, Measure] = {
    "catching up: events/s": lambda one: one.speed,
    "catching up: CPU us an event": lambda one: one.caught_us,
    "live: CPU us an event": lambda one: one.fed.cpu_us,
}
LARGER_IS_BETTER = "catching up: events/s"


def outcome(found: Sequence[Compared], rate: int, host: str) -> Outcome:
    """All of it. Raises ValueError: something was not measured."""
    of = {kept: [one for one in found if one.kept == kept] for kept in KEPT}
    ratios = {f"{kept}, {name}": _better(name, of[ALL], of[kept]) for kept in KEPT if kept != ALL for name in MEASURES}
    runs = len(of[ALL])
    return Outcome(
        name="trimming",
        title="What trimming costs",
        published="Nothing comparable is published. Goal: what is kept by default costs less than noise between runs.",
        setup=(
            f"One replica, host {host}, count and sum by 100 keys and second of three sources. Catching up with "
            f"{found[0].caught.events:,} events, then {rate:,} events/s for {found[0].fed.load.seconds} s: with all "
            "kept, with an hour of the replica's stream (the default; nothing of it is that old here), and with no "
            f"more than is needed, of sources too. Medians of {runs}, each kind first in turn; in brackets least and "
            "most. A replica decides every 10 s. Ratios are of medians; larger is better."
        ),
        worse=_worse(ratios),
        columns=["kept", *(f"{name}>" for name in MEASURES), "records deleted>"],
        rows=[[WORDS[kept], *(_cell(of[kept], m) for m in MEASURES.values()), _deleted(of[kept])] for kept in KEPT],
        ratios=ratios,
        data={"runs": [{**asdict(one), "kept": one.kept} for one in found]},
        panels=[_panel(name, of) for name in MEASURES],
    )


def _better(name: str, all_kept: Sequence[Compared], kept: Sequence[Compared]) -> float:
    before, now = (median(MEASURES[name](one) for one in some) for some in (all_kept, kept))
    return now / before if name == LARGER_IS_BETTER else before / now


def _worse(ratios: dict[str, float]) -> str:
    said = ", ".join(f"{name} {value:.2f}" for name, value in ratios.items())
    return f"To all kept: {said}."


def _cell(some: Sequence[Compared], measure: Measure) -> str:
    values = [measure(one) for one in some]
    digits = 0 if max(values) >= 1_000 else 1
    return f"{median(values):,.{digits}f} ({min(values):,.{digits}f} to {max(values):,.{digits}f})"


def _deleted(some: Sequence[Compared]) -> str:
    return f"{median(one.deleted for one in some):,.0f}"


def _panel(name: str, of: dict[str, list[Compared]]) -> Panel:
    curves = [
        Curve(label=WORDS[kept], x=[float(n + 1) for n in range(len(some))], y=[MEASURES[name](one) for one in some])
        for kept, some in of.items()
    ]
    what, _, unit = name.partition(": ")
    return Panel(title=what[:1].upper() + what[1:], x="run", y=unit, curves=curves)
