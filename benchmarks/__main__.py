"""The project's experiments, on this machine: `python -m benchmarks NAME`, in the checkout."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from benchmarks.report.names import EXPERIMENTS, PAPERS
from borealis_py.cli.commands.bench import LOGS, Work, telling
from borealis_py.cli.commands.up import Host, check_host
from borealis_py.cli.shared.console import err, out, print_json, print_table
from borealis_py.cli.shared.options import Json

if TYPE_CHECKING:
    from benchmarks.measure.failover import FailoverFigures
    from benchmarks.measure.gaps import GapFigures

PERCENT = 100
FIGURES = Path("docs/figures")

app = typer.Typer(help="Measure this machine.", no_args_is_help=True, rich_markup_mode=None)


@app.command()
def scaling(
    events: Annotated[int, typer.Option("--events", help="Backlog of each run.")] = 300_000,
    per_record: Annotated[int, typer.Option("--per-record", help="Events per bucket.")] = 5_000,
    length: Annotated[
        int, typer.Option("--length", min=1, max=20, help="Length of names; a row's work is its square.")
    ] = 4,
    runs: Annotated[int, typer.Option("--runs", min=1, max=100, help="Runs of each; the median is reported.")] = 3,
    work: Work = None,
    json: Json = False,
    host: Host = "spark",
) -> None:
    """What partitions and Spark slots gain and replicas cost on Kafka: about 9 minutes, on its own broker.

    Tables on standard error. With --length 1 (3 us a row) reading is the bottleneck, with 4 (20 us) the query is. With
    --host process only that host is measured.
    """
    check_host(host)
    from benchmarks.measure import scaling as measured
    from benchmarks.measure.scaling_tables import show
    from borealis_py.bench.figures import BenchError

    options = measured.ScalingOptions(
        events=events, per_record=per_record, length=length, runs=runs, spark=host == "spark", work=work
    )
    with telling(BenchError):
        source = measured.check(options)
    with telling(BenchError, hint=LOGS):
        report = measured.run(options, source, err())
    show(report, err())
    if json:
        print_json(report)


@app.command()
def failover(
    kills: Annotated[int, typer.Option("--kills", min=1, max=1_000, help="Kills of each kind.")] = 30,
    work: Work = None,
    json: Json = False,
) -> None:
    """How long readers stall when a replica is killed (kill -9), on its own broker. 12 s for each --kills.

    Exit code 1 if a target is missed, or a row of the corrected stream is repeated or missing.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    from benchmarks.measure import failover as measured
    from borealis_py.bench.figures import BenchError
    from borealis_py.verify.kafka_reader import CannotRead

    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=err()) as bar:
        task = bar.add_task("", total=measured.KINDS * kills)
        with telling(BenchError, CannotRead, hint=LOGS):
            figures = measured.run(kills, work, lambda done, what: bar.update(task, completed=done, description=what))
    if json:
        print_json(failover_json(figures))
    else:
        _show_failover(figures)
    if not figures.ok:
        raise typer.Exit(1)


Full = Annotated[bool, typer.Option("--full", help="Measure the whole grid, however long it takes.")]
Short = Annotated[bool, typer.Option("--short", help="Measure the smallest grid.")]
Figures = Annotated[Path, typer.Option("--figures", help="Where NAME.json and NAME.svg go.")]
Kills = Annotated[
    int | None,
    typer.Option("--kills", min=0, max=1_000, help="Kills of the ingress.", show_default="20; --short: 1, --full: 100"),
]
CellKills = Annotated[
    int | None,
    typer.Option(
        "--kills", min=1, max=100, help="Kills of each way and window.", show_default="8; --short: 1, --full: 30"
    ),
]
KILLING = ("ingress",)
"""Experiments that take --kills."""
Paper = Annotated[bool, typer.Option("--paper", help="Model the paper's protocols instead, beside what the paper has.")]


def _experiment(name: str, what: str) -> None:
    """Create the command of one experiment."""

    def command(
        full: Full = False,
        short: Short = False,
        host: Host = "process",
        figures: Figures = FIGURES,
        work: Work = None,
        json: Json = False,
    ) -> None:
        _run(name, full, short, host, figures, work, json)

    def killing(
        full: Full = False,
        short: Short = False,
        kills: Kills = None,
        figures: Figures = FIGURES,
        work: Work = None,
        json: Json = False,
    ) -> None:
        _run(name, full, short, "process", figures, work, json, kills)

    def modelled(
        paper: Paper = False,
        full: Full = False,
        short: Short = False,
        kills: CellKills = None,
        figures: Figures = FIGURES,
        work: Work = None,
        json: Json = False,
    ) -> None:
        _run(name, full, short, "process", figures, work, json, kills, paper)

    app.command(name, help=f"{what}.")(killing if name in KILLING else modelled if name in PAPERS else command)


def _run(
    name: str,
    full: bool,
    short: bool,
    host: str,
    figures: Path,
    work: Path | None,
    json: bool,
    kills: int | None = None,
    paper: bool = False,
) -> None:
    from benchmarks.report import runner
    from borealis_py.app.errors import LaunchError
    from borealis_py.bench.figures import BenchError
    from borealis_py.log.base import LogError
    from borealis_py.runtime.spark.session import SparkUnavailable
    from borealis_py.verify.kafka_reader import CannotRead

    check_host(host)
    size: runner.Size = "full" if full else "short" if short else "usual"
    options = runner.ExperimentOptions(size=size, host=host, work=work, kills=kills, paper=paper)
    with telling(BenchError, LaunchError, LogError, SparkUnavailable, CannotRead, hint=LOGS):
        outcome = runner.run(name, options, err(), None if short else figures)
    print_table(outcome.title, outcome.columns, outcome.rows)
    for text in (outcome.published, outcome.setup, outcome.worse):
        out().print(text, soft_wrap=True)
    if json:
        print_json(outcome)


for _name, _what in EXPERIMENTS.items():
    _experiment(_name, _what)


def failover_json(figures: FailoverFigures) -> dict[str, Any]:
    """Everything measured, as JSON values; times in milliseconds."""
    gaps = {"live": figures.live, "upstream": figures.upstream, "corrected": figures.corrected}
    met = {f"{name}_met": gap.met for name, gap in gaps.items()}
    return {**asdict(figures), **met, "ok": figures.ok}


def _show_failover(figures: FailoverFigures) -> None:
    columns = ["killed", "kills>", "p50 ms>", "p99 ms>", "max ms>", "p99 is to be", "", "quiet max ms>", "spacing ms>"]
    rows = [_gap_row(gap) for gap in (figures.live, figures.upstream, figures.corrected)]
    title = (
        "How long a stream stands still when a replica is killed (kill -9), beyond its ordinary spacing\n"
        "quiet: the same in as much time without a kill, before each of them"
    )
    print_table(title, columns, rows, ("spacing ms>", "quiet max ms>", "p50 ms>", "kills>"))
    c, n = figures.content, figures.tentative
    out().print(f"live stream: {n} buckets were tentative first, though one replica of each node lived")
    out().print(
        f"corrected stream, read back with kafka-python: {c.rows:,} rows, {c.repeated} repeated, {c.missing} missing"
    )
    if figures.kills < PERCENT:
        out().print(f"of fewer than {PERCENT} kills p99 is the largest")


def _gap_row(g: GapFigures) -> list[str | Text]:
    gap = [f"{ms:.0f}" for ms in (g.gap.p50_ms, g.gap.p99_ms, g.gap.max_ms)]
    verdict = Text("met", "green") if g.met else Text("missed", "red")
    ordinary = f"{g.ordinary.p50_ms:.0f}"
    return [g.what, str(g.gap.count), *gap, f"< {g.target_ms:.0f} ms", verdict, f"{g.quiet_gap.max_ms:.0f}", ordinary]


if __name__ == "__main__":
    app(prog_name="python -m benchmarks")
