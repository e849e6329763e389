"""The part of `borealis explain` that tells what surviving a crash costs: rates from options or from the broker, the
table, the same as JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import typer
from rich.text import Text

from borealis_py.cli.shared.console import print_table, say

if TYPE_CHECKING:
    from borealis_py.app.explain import Explanation
    from borealis_py.app.recovery_forecast import Forecast
    from borealis_py.app.recovery_trial import TriedNode
    from borealis_py.observe.growth import Growth
    from borealis_py.observe.source_rows import SourceRows
    from borealis_py.protocol.settings import Timing
    from borealis_py.query.recovery import RecoveryPlan
    from borealis_py.query.spec import AppSpec

DAY_S = 86_400
MEASURED = "measured"
COLUMNS = ["node", "way", "guarantee", "stands still>", "of which readers see", "Kafka a day>", "cores>"]
EXPENDABLE = ("cores>", "Kafka a day>", "of which readers see")
"""Columns that a narrow terminal leaves out, the first ones first."""


@dataclass(frozen=True, slots=True)
class RowRates:
    """`rows_per_s`: of each source as it runs. `origin`: where that is from, in words. `samples`: rows of some."""

    rows_per_s: Mapping[str, float]
    origin: str
    samples: Mapping[str, Sequence[bytes]]


def given_rates(options: Sequence[str], spec: AppSpec) -> dict[str, float]:
    """What --rate says, by source as written. Raises BadParameter."""
    from borealis_py.query.errors import did_you_mean

    found: dict[str, float] = {}
    for text in options:
        name, equals, number = text.partition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = -1.0
        if not equals or not 0 <= rate < 1e9:
            raise typer.BadParameter(f"{text!r}: give SOURCE=ROWS, rows a second", param_hint="--rate")
        known = _written(spec)
        if name not in known:
            hint = did_you_mean(name, known) or ";"
            raise typer.BadParameter(f"no source {name!r}{hint} sources: {', '.join(known)}", param_hint="--rate")
        found[name] = rate
    return found


def rates(given: Mapping[str, float], live: Mapping[str, SourceRows], spec: AppSpec) -> RowRates | None:
    """The rates to go by: what is given, else what is measured. None: nothing is known of some source, and nothing was
    asked for.

    Args:
        live: by source as it runs. spec: the app as it runs.

    Raises:
        BadParameter: some sources are given, and nothing is known of others.
    """
    from borealis_py.query.names import base_name

    found: dict[str, float] = {}
    for name in spec.sources:
        base = base_name(name)
        if base in given:
            found[name] = given[base] / sum(base_name(other) == base for other in spec.sources)
        elif name in live:
            found[name] = live[name].rows_per_s
    missing = dict.fromkeys(base_name(name) for name in spec.sources if name not in found)
    if missing and given:
        raise typer.BadParameter(
            f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not running: give a rate, too",
            param_hint="--rate",
        )
    if missing:
        return None
    measured = [name for name in spec.sources if base_name(name) not in given]
    origin = "--rate" if not measured else MEASURED if not given else f"--rate and {MEASURED}"
    return RowRates(found, origin, {name: one.samples for name, one in live.items() if one.samples})


@dataclass(frozen=True, slots=True)
class RecoveryCosts:
    """By node as it runs: what it costs here (`tried`, or why that is not known), and all `ways`."""

    tried: Mapping[str, TriedNode | str]
    ways: Mapping[str, Sequence[Forecast]]


def recovery_of(
    found: Explanation,
    timing: Timing,
    by: RowRates,
    grows: Mapping[str, Growth] | None,
    plans: Mapping[str, RecoveryPlan] | None,
    kafka_keeps_state: bool,
) -> RecoveryCosts:
    """Tries every node, which takes a second or two, and predicts all ways for each. `plans`, `kafka_keeps_state`: see
    `forecasts`."""
    from borealis_py.app.recovery_forecast import forecasts
    from borealis_py.app.recovery_trial import try_nodes

    tried = try_nodes(found.spec, by.rows_per_s, by.samples)
    written = _written_by_replicas(found.spec, grows) if grows is not None and by.origin == MEASURED else {}
    return RecoveryCosts(tried, forecasts(found, timing, tried, written, plans, kafka_keeps_state))


def _written_by_replicas(spec: AppSpec, grows: Mapping[str, Growth]) -> dict[str, float]:
    """Bytes a second that one replica of each node writes, where that is known."""
    from borealis_py.log import topics

    a_day = {name: grows[topics.replica(spec.name, name, 0)].bytes_a_day for name in spec.all_nodes}
    return {name: size / DAY_S for name, size in a_day.items() if size is not None}


def recovery_json(found: RecoveryCosts, by: RowRates) -> dict[str, Any]:
    """As JSON values: times in seconds, bytes and cores beside those of one replica."""

    def one(of: Forecast) -> dict[str, Any]:
        known = of.predicted
        told = {"in_force": of.in_force, "refused": of.refused or None, "unknown": of.unknown or None}
        if known is None:
            return told
        behind_s = known.behind_s if known.behind_s < float("inf") else None
        return {
            **told,
            "guarantee": known.guarantee,
            "stands_still_s": known.still_s,
            "behind_s": behind_s,
            "readers_wait_s": of.wait_s,
            "seen": of.seen,
            "seen_s": of.beyond_s,
            "replayed_rows": known.replayed_rows,
            "lost_rows": known.lost_rows,
            "kafka_bytes_per_s": known.bytes_per_s,
            "sync_us": of.sync_us or None,
            "cores": known.cores,
        }

    nodes = {
        name: {
            "tried": None if isinstance(tried := found.tried[name], str) else asdict(tried),
            "ways": {of.way.value: one(of) for of in some},
        }
        for name, some in found.ways.items()
    }
    return {"rates": by.rows_per_s, "rates_from": by.origin, "nodes": nodes}


def print_recovery(found: Mapping[str, Sequence[Forecast]], by: RowRates, shown: Callable[[float], str]) -> None:
    """The table. `shown`: how a number of bytes is written."""
    rows: list[list[str | Text]] = []
    for name, some in found.items():
        known = [of for of in some if of.predicted is not None]
        rows += [[name if of is known[0] else "", _way(of), *_cells(of, shown)] for of in known]
    total = sum(by.rows_per_s.values())
    if rows:
        print_table(
            f"what it would cost to survive a crash, beside one replica, at {total:,.0f} rows/s ({by.origin})",
            COLUMNS,
            rows,
            EXPENDABLE,
        )
    said: dict[str, list[str]] = {}
    for name, some in found.items():
        for of in some:
            if of.predicted is not None and of.refused:
                said.setdefault(f"{of.way.value} is refused: {of.refused}", []).append(name)
        if some and some[0].predicted is None:
            said.setdefault(f"not predicted: {some[0].unknown}", []).append(name)
        elif not any(of.in_force for of in some):
            said.setdefault("with replicas=1 nobody stands by, so none of this is in force", []).append(name)
    for why, names in said.items():
        say(f"{', '.join(names)}: {why}", "yellow")


def _way(of: Forecast) -> Text:
    from borealis_py.query import format_duration

    sync = f", sync {format_duration(of.sync_us)}" if of.sync_us else ""
    return Text(f"{of.way.value} (now{sync})", "green") if of.in_force else Text(of.way.value)


def _cells(of: Forecast, shown: Callable[[float], str]) -> list[str | Text]:
    known = of.predicted
    assert known is not None
    guarantee = Text(f"{known.guarantee} (refused)", "yellow") if of.refused else Text(known.guarantee)
    seen = of.seen if not of.beyond_s else f"{of.seen} for {_seconds(of.beyond_s)}"
    kafka = shown(known.bytes_per_s * DAY_S) if known.bytes_per_s else "0"
    cores = "< 0.001" if 0 < known.cores < 0.001 else f"{known.cores:.3f}" if known.cores else "0"
    return [guarantee, _seconds(known.still_s), seen, kafka, cores]


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def _written(spec: AppSpec) -> list[str]:
    from borealis_py.query.names import base_name

    return list(dict.fromkeys(base_name(name) for name in spec.sources))
