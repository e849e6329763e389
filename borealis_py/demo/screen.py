"""What the demo shows while it runs: a live table of the replicas, and a line for everything that happens."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from types import TracebackType

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from borealis_py.demo.watch import Key, QueryWatcher
from borealis_py.log.messages import Status

COLOURS = {"STABLE": "green", "UPSTREAM_FAILURE": "red", "STABILIZATION": "yellow", "RECOVERING": "magenta"}
QUIET = ("", "READY", "TOOK_OVER", "HEARD", "SILENT")


class Screen(AbstractContextManager["Screen"]):
    """Prints to stderr. On a terminal the table stays in place; elsewhere only the lines are printed."""

    def __init__(self, console: Console, days: int) -> None:
        self.console = console
        self._days = days
        self._live: Live | None = None
        self._silent: set[str] = set()
        self.t0_us: int | None = None

    def __enter__(self) -> Screen:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def step(self, text: str) -> None:
        """One line: what is done now."""
        self.console.print(f"[bold]•[/] {text}")

    def begin(self, t0_us: int) -> None:
        """The run begins: show the table."""
        self.t0_us = t0_us
        if self.console.is_terminal:
            self._live = Live(console=self.console, refresh_per_second=5, transient=True)
            self._live.start()

    def stop(self) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def at(self, wall_us: int) -> str:
        """Seconds since T0."""
        return "" if self.t0_us is None else f"{(wall_us - self.t0_us) / 1e6:7.2f} s"

    def event(self, wall_us: int, text: str, colour: str = "") -> None:
        """A line when something happens."""
        self.console.print(Text(f"{self.at(wall_us)}  ").append(text, style=colour))

    def tell(self, status: Status) -> None:
        """The line of a status record, if it is worth one."""
        who = f"{status.node} replica {status.replica}"
        if status.event == "SILENT" and status.detail not in self._silent:
            self._silent.add(status.detail)
            self.event(status.at_wall_us, f"{status.detail.upper()} is silent", "red")
        elif status.event == "HEARD" and status.detail in self._silent:
            self._silent.discard(status.detail)
            self.event(status.at_wall_us, f"{status.detail.upper()} is heard again", "green")
        elif status.redo is not None:
            r = status.redo
            what = {"spark": f"Spark job, {r.rows} rows of", "peer": "took a peer's checkpoint over,"}.get(
                r.engine, f"inline redo, {r.rows} rows of"
            )
            text = f"{who}: {what} {r.end - r.first} buckets in {r.seconds:.2f} s"
            self.event(status.at_wall_us, text, "yellow")
        elif status.event == "FIRST_TENTATIVE":
            self.event(status.at_wall_us, f"{who}: first tentative result, {status.detail}", "red")
        elif status.event == "STABLE":
            self.event(status.at_wall_us, f"{who}: REC_DONE, STABLE", "green")
        elif status.event == "REDO_FAILED":
            text = f"{who}: its Spark job is given up ({status.detail}): what is left runs in the replica itself"
            self.event(status.at_wall_us, text, "yellow")
        elif status.event not in QUIET:
            self.event(status.at_wall_us, f"{who}: {status.event}", COLOURS.get(status.event, ""))

    def show(self, newest: dict[Key, Status], followers: Sequence[QueryWatcher], wall_us: int) -> None:
        """Refresh the table."""
        if self._live is not None:
            self._live.update(Group(self._clock(wall_us), self._replicas(newest), self._results(followers)))

    def _clock(self, wall_us: int) -> Text:
        seconds = max(0.0, (wall_us - (self.t0_us or wall_us)) / 1e6)
        done = min(1.0, seconds / self._days)
        return Text("━" * round(done * 60), style="cyan").append(
            "━" * (60 - round(done * 60)) + f" day {min(self._days, int(seconds))} of {self._days}", style="dim"
        )

    def _replicas(self, newest: dict[Key, Status]) -> Table:
        table = Table("query", "replica", "state", "F_s", "F_l", "grant", "stable rows", "tentative rows", "inputs")
        for (query, k), s in sorted(newest.items()):
            inputs = " ".join(
                Text(i.name, style="red" if i.late or not i.reachable else "green").markup for i in s.inputs
            )
            state = f"[{COLOURS.get(s.state, '')}]{s.state}[/]"
            grant = "holds it" if s.granted else ("asks" if s.asking else "")
            table.add_row(
                query,
                f"{k}{' (publishes)' if s.publishing else ''}",
                state,
                self._frontier(s.f_s),
                self._frontier(s.f_l),
                grant,
                str(s.stable_rows),
                str(s.tentative_rows),
                inputs,
            )
        return table

    def _frontier(self, bucket: int) -> str:
        seconds = bucket * 0.1 - (self.t0_us or 0) / 1e6
        return "end" if seconds > 1e6 else f"{seconds:.1f} s"

    @staticmethod
    def _results(followers: Sequence[QueryWatcher]) -> Table:
        table = Table("subscriber of", "stable results", "tentative results")
        for f in followers:
            table.add_row(f.query, str(f.stable_rows), str(f.tentative_rows))
        return table
