"""`borealis publish`: publish rows of a file or standard input to a source."""

from __future__ import annotations

import os
import signal
import threading
import time
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from borealis_py.cli.shared.console import INTERRUPTED, fail, say, waiting
from borealis_py.cli.shared.context import open_context
from borealis_py.cli.shared.options import AppName, Bootstrap, rows_file
from borealis_py.config.signals import setting

if TYPE_CHECKING:
    from borealis_py.app.state import AppState
    from borealis_py.client.items import Items
    from borealis_py.client.pump import PumpProgress, ReplayPace

PEEK_ROWS = 100
REASON_CHARS = 200
_BY_POSITION = "what is there already is told by the rows' positions in the file, not by what they hold"


class BoundaryOption(StrEnum):
    clock = "clock"
    data = "data"


class TimeUnit(StrEnum):
    s = "s"
    ms = "ms"
    us = "us"
    ns = "ns"


class Format(StrEnum):
    csv = "csv"
    jsonl = "jsonl"


def publish(
    stream: Annotated[str, typer.Argument(help="A source of the app.", show_default=False)],
    file: Annotated[
        str, typer.Argument(help="CSV with a header, or JSON lines; - is standard input.", callback=rows_file)
    ],
    stime: Annotated[
        str | None,
        typer.Option("--stime", help="Column with each row's time: a number or ISO 8601. Without: the clock."),
    ] = None,
    stime_unit: Annotated[
        TimeUnit | None,
        typer.Option(
            "--stime-unit",
            help="What a number in that column counts since 1970.",
            show_default="us; numbers that look like another unit are refused",
        ),
    ] = None,
    stime_format: Annotated[
        str | None,
        typer.Option(
            "--stime-format", help='How text in that column is written, like "%d.%m.%Y %H:%M:%S"; UTC without %z.'
        ),
    ] = None,
    speed: Annotated[
        int | None,
        typer.Option(
            "--speed", min=1, help="Replay so many times as fast as it happened; without: as fast as it goes."
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--start",
            help="When a replay starts: ISO 8601, microseconds, or origin: the app's, so that publishers agree.",
            show_default="now",
        ),
    ] = None,
    base: Annotated[
        str | None,
        typer.Option("--base", help="The input's time that is replayed at --start.", show_default="the first row's"),
    ] = None,
    format: Annotated[Format | None, typer.Option("--format", help="Needed where the name does not show it.")] = None,
    null: Annotated[
        list[str] | None,
        typer.Option(
            "--null", help="A value of CSV that means null, like NA; may be repeated. An empty one always does."
        ),
    ] = None,
    lateness: Annotated[
        str | None,
        typer.Option(
            "--lateness", help="How long after its time a row may come, like 2s.", show_default="0s by --boundary data"
        ),
    ] = None,
    boundary: Annotated[
        BoundaryOption | None,
        typer.Option(
            "--boundary",
            help="What moves the promise that nothing older follows: the clock, or the rows' times (--stime).",
            show_default="data with --stime, else clock",
        ),
    ] = None,
    end: Annotated[
        bool | None,
        typer.Option(
            "--end/--no-end", help="Write END afterwards: the source is complete.", show_default="END for files"
        ),
    ] = None,
    append: Annotated[
        bool,
        typer.Option(
            "--append",
            help="A further file: number its rows from behind those there. Run again, it sends them again.",
        ),
    ] = False,
    take_over: Annotated[bool, typer.Option("--take-over", help="Replace a publisher that is at work.")] = False,
    bootstrap: Bootstrap = None,
    app: AppName = None,
) -> None:
    """Publish rows to a source. Run again on the same file, it resumes where the source ends.

    Rows are told apart by their position in the file alone: a second file needs --append, and --no-end at the first.
    """
    if stime is None and (speed or start or base):
        raise typer.BadParameter("a replay needs the column with each row's time", param_hint="--stime")
    if speed is None and (start or base):
        raise typer.BadParameter("--start and --base belong to a replay", param_hint="--speed")
    if stime is None and (stime_unit is not None or stime_format is not None):
        raise typer.BadParameter("they are about the column with each row's time", param_hint="--stime")
    lateness_us = _lateness(stime, speed, lateness, boundary)
    from borealis_py.client.ingest import open_rows
    from borealis_py.query.times import time_form

    form = time_form(stime_unit and stime_unit.value, stime_format, "--stime-unit", "--stime-format")

    context = open_context(bootstrap)
    state = context.app(app)
    schema = state.published_schema(stream)
    with open_rows(file, schema, stime, format and format.value, form, null or ()) as source:
        first_us = None if stime is None else source.first_us(PEEK_ROWS)
        pace = None if speed is None else _pace(state, speed, start, base, first_us)
        if first_us is not None:
            _warn_of_times(state, stream, first_us, paced=pace is not None)
        from borealis_py.client.publisher import Publisher
        from borealis_py.client.stimes import Boundaries
        from borealis_py.client.target import StreamEnded

        publisher = Publisher(
            context.log,
            state.name,
            state.app_uid,
            stream,
            schema,
            state.spec.bucket_us,
            state.origin,
            take_over=take_over,
            boundaries=_boundaries(Boundaries, stime, pace, boundary),
            lateness_us=lateness_us,
            ahead_max_us=state.timing.ahead_max_us,
            row_max_bytes=state.timing.row_max_bytes,
        )
        finite = file != "-" if end is None else end
        name, positions = f"{state.name}.{stream}", file != "-" and not append
        try:
            code = _run(publisher, source, pace, file, positions, finite, name, state.name, stime)
        except StreamEnded as exc:
            if not (positions and finite and _last_of(source) == exc.last_seq):
                raise
            say(f"{name}: all {exc.last_seq + 1} rows and END are there already")
            say(
                f"{name}: {_BY_POSITION}. After END nothing can follow: give --no-end where a further file will",
                "yellow",
            )
            return
    if code:
        raise typer.Exit(code)


def _last_of(rows: Items) -> int:
    """Position of the last row; -1 for an empty input."""
    last = -1
    for row in rows:
        last = row.position
    return last


def _lateness(
    stime: str | None, speed: int | None, lateness: str | None, boundary: BoundaryOption | None
) -> int | None:
    """The lateness from the options, in microseconds. Raises BadParameter, QueryError."""
    if speed is not None and (lateness is not None or boundary is not None):
        raise typer.BadParameter(
            "a replay knows its next row: leave out --lateness and --boundary", param_hint="--speed"
        )
    if stime is None and (lateness is not None or boundary is BoundaryOption.data):
        raise typer.BadParameter(
            "--lateness and --boundary data need rows with their own times: name the column",
            param_hint="--stime",
        )
    if stime is not None and boundary is BoundaryOption.clock and lateness is None:
        raise typer.BadParameter(
            "rows with their own times need a lateness with --boundary clock; 0s: they are never late",
            param_hint="--lateness",
        )
    if lateness is None:
        return None
    from borealis_py.query.units import parse_duration

    return parse_duration(lateness, "--lateness", zero=True)


def _boundaries(kinds: Any, stime: str | None, pace: ReplayPace | None, boundary: BoundaryOption | None) -> Any:
    if pace is not None:
        return kinds.PACED
    if boundary is None:
        return kinds.CLOCK if stime is None else kinds.DATA
    return kinds.DATA if boundary is BoundaryOption.data else kinds.CLOCK


def _pace(state: AppState, speed: int, start: str | None, base: str | None, first_us: int | None) -> ReplayPace:
    from borealis_py.app.origin import parse
    from borealis_py.client.ingest import WrongOption
    from borealis_py.client.pump import ReplayPace

    base_us = first_us if base is None else parse(base, "--base")
    if base_us is None:
        raise WrongOption("none of the first rows has a time, so say with --base which time the replay starts at")
    if start == "origin":
        return ReplayPace(base_us, _origin_us(state), speed)
    start_us = time.time_ns() // 1000 if start in (None, "now") else parse(str(start), "--start")
    return ReplayPace(base_us, start_us, speed)


def _origin_us(state: AppState) -> int:
    from sunion.bucket import Buckets

    return Buckets(state.spec.bucket_us).start(state.origin)


def _warn_of_times(state: AppState, stream: str, first_us: int, paced: bool) -> None:
    from borealis_py.app.origin import show

    origin_us = _origin_us(state)
    if first_us < origin_us and not paced:
        say(
            f"warning: {stream} begins before the app's origin {show(origin_us)}: such rows are late and go to "
            f"{state.name}.deadletter. `borealis up --reset --origin TIME` begins earlier",
            "yellow",
        )


def _run(
    publisher: Any,
    rows: Items,
    pace: ReplayPace | None,
    file: str,
    positions: bool,
    end: bool,
    name: str,
    app: str,
    stime: str | None,
) -> int:
    """Publish to the end of the rows or until Ctrl-C. Returns the exit code."""
    from borealis_py.client.pump import publish_rows

    stop, interrupted = threading.Event(), list[bool]()

    def interrupt() -> None:
        interrupted.append(True)
        if file == "-":
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # a thread that waits for standard input now reads its end

    with setting(stop, signal.SIGINT, first=interrupt), waiting(f"claiming {name}") as spinner, publisher:

        def show(progress: PumpProgress) -> None:
            spinner.update(f"{name}: {_counts(progress)}")

        done = publish_rows(publisher, rows, pace, positions, show, stop, timed=stime is not None)
        useless = done.rejected > 0 and not done.sent and not done.skipped
        ended = end and not interrupted and not useless  # END is for ever, and nothing of the input is there
        publisher.close(end=ended)
    say(f"{name}: {_counts(done)}{', then END' if ended else ''}")
    _tell_rejected(done, app)
    if positions and done.skipped:
        say(f"{name}: {_BY_POSITION}. Publish a further file with --append", "yellow")
    counts = publisher.counts
    if counts.early:
        say(f"{name}: {counts.early} rows lie before the app's origin", "yellow")
    if counts.late > counts.early:
        late = ", ".join(f"{p}% within {counts.lateness.percentile(p / 100) / 1e6:.3g} s" for p in (50, 99))
        most, rows = counts.lateness.max_us / 1e6, counts.late - counts.early
        say(f"{name}: {rows} rows came too late; {late}, all within {most:.3g} s", "yellow")
    if interrupted:
        return INTERRUPTED
    if useless:
        fail(_useless(name, file, end, stime))
    return int(useless)


def _tell_rejected(done: PumpProgress, app: str) -> None:
    from borealis_py.log import topics

    for reason in done.reasons:
        say(f"  {reason if len(reason) <= REASON_CHARS else reason[:REASON_CHARS] + '...'}", "yellow")
    if done.rejected:
        more = f"{done.rejected - len(done.reasons)} more, and these" if done.rejected > len(done.reasons) else "them"
        say(f"  the topic {topics.deadletter(app)} has {more}, with their reasons", "yellow")


def _useless(name: str, file: str, end: bool, stime: str | None) -> str:
    """What to do where every row was rejected."""
    column = f" (is {stime!r} the column with the times?)" if stime is not None else ""
    kept = ", so END was not sent and the source is still open" if end else ""
    again = (
        "publish it again" if file == "-" else "publish it again with --append: the rejected rows keep their positions"
    )
    return f"{name}: not one row could be sent{kept}. Mend the input or the options{column}, then {again}"


def _counts(progress: PumpProgress) -> str:
    parts = [f"{progress.sent} rows sent"]
    if progress.rejected:
        parts.append(f"{progress.rejected} rejected (dead letters)")
    if progress.skipped:
        parts.append(f"{progress.skipped} there already")
    return ", ".join(parts)
