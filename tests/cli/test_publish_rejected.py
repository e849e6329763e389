"""What `borealis publish` says and does about rows that are rejected, or there already. No broker."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from borealis_py.app.state import AppState
from borealis_py.cli.commands import publish
from borealis_py.client import publisher
from borealis_py.client.stimes import Boundaries
from borealis_py.log.messages import Description
from borealis_py.query import App
from tests.cli.commands import Borealis
from tests.client.folded import SCHEMA, T0, Folded, PublishedSource, row

GOOD = "carrier,n,delay,late\nAA,1,0.5,true\nDL,2,0.5,true\n"


class Driven:
    """A publisher on a simulated log."""

    paced = False

    def __init__(self, world: PublishedSource, there: int, **options: Any) -> None:
        self._world = world
        if there:
            first = world.ready("before")
            for n in range(there):
                first.send(row(n))
            world.run(1)
            first.stop()
        self._publisher = world.ready("p", take_over=True, **options)

    def __enter__(self) -> Driven:
        return self

    def __exit__(self, *_: object) -> None:
        self._world.run(1)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._publisher, name)


class Site:
    """Where the command publishes to: `there` rows are in the source before. `options`: of its publisher."""

    def __init__(self) -> None:
        self.world, self.there, self.options = PublishedSource(), 0, dict[str, Any]()

    def folded(self) -> Folded:
        return self.world.folded()


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Site:
    app, found = App("flights", bucket="100ms"), Site()
    app.query("q", app.source("ewr", schema=SCHEMA), "3s")
    state = AppState("flights", app.describe(), Description("{}", "h", 0, "f", "a1"))
    context = SimpleNamespace(log=None, app=lambda name: state)
    monkeypatch.setattr(publish, "open_context", lambda bootstrap: context)
    monkeypatch.setattr(publisher, "Publisher", lambda *_, **__: Driven(found.world, found.there, **found.options))
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    it = tmp_path / "rows.csv"
    it.write_text(GOOD)
    return it


def test_end_is_not_sent_where_every_row_was_rejected(borealis: Borealis, site: Site, file: Path) -> None:
    said = borealis("publish", "ewr", file, "--stime", "carrier")
    assert said.code == 1
    assert "flights.ewr: 0 rows sent, 2 rejected (dead letters)\n" in said.err
    assert "not one row could be sent, so END was not sent and the source is still open" in said.err
    assert "is 'carrier' the column with the times?" in said.err
    assert "--append" in said.err
    assert not site.folded().state.ended


def test_end_is_sent_where_some_rows_were_good(borealis: Borealis, site: Site, file: Path) -> None:
    file.write_text(GOOD + "AA,many,1,true\n")
    said = borealis("publish", "ewr", file)
    assert (said.code, site.folded().state.ended) == (0, True), said.err


def test_an_empty_input_still_ends_a_source(borealis: Borealis, site: Site) -> None:
    said = borealis("publish", "ewr", "/dev/null", "--end", "--format", "jsonl")
    assert (said.code, site.folded().state.ended) == (0, True), said.err


def test_the_first_rejected_rows_are_shown_with_line_reason_and_topic(
    borealis: Borealis, site: Site, file: Path
) -> None:
    file.write_text(GOOD + "AA,many,1,true\nAA,1\nDL,3,inf,true\nDL,4,1,maybe\n")
    said = borealis("publish", "ewr", file)
    assert "2 rows sent, 4 rejected (dead letters)" in said.err
    assert "  line 4: malformed: field `n`: 'many' is not a whole number\n" in said.err
    assert "  line 5: malformed: 2 fields, the header has 4\n" in said.err
    assert "  line 6: malformed: field `delay` is inf" in said.err
    assert "line 7" not in said.err
    assert "the topic flights.deadletter has 1 more, and these, with their reasons" in said.err


def test_a_further_file_is_told_of_positions_and_sent_with_append(borealis: Borealis, site: Site, file: Path) -> None:
    site.there = 1
    said = borealis("publish", "ewr", file, "--no-end")
    assert "1 rows sent, 1 there already" in said.err
    assert "what is there already is told by the rows' positions in the file" in said.err
    assert "--append" in said.err
    site.world, site.there = PublishedSource(), 1
    said = borealis("publish", "ewr", file, "--append")
    assert (said.code, "2 rows sent, then END" in said.err) == (0, True), said.err
    assert [seq for _, seq, _, _ in site.folded().rows] == [0, 1, 2]
    assert site.folded().state.ended


def test_lines_are_right_where_rows_are_numbered_from_behind(borealis: Borealis, site: Site, file: Path) -> None:
    site.there = 5
    file.write_text(GOOD + "DL,3,nan,true\n")
    said = borealis("publish", "ewr", file, "--append")
    assert "  line 4: malformed: field `delay` is nan" in said.err


@pytest.mark.parametrize(
    ("unit", "in_a_second"), [("seconds", 1), ("milliseconds", 1_000), ("nanoseconds", 1_000_000_000)]
)
def test_times_in_another_unit_are_refused_until_it_is_named(
    borealis: Borealis, site: Site, file: Path, unit: str, in_a_second: int
) -> None:
    site.options = {"boundaries": Boundaries.DATA}
    first = T0 // 1_000_000 * in_a_second
    file.write_text(f"carrier,n,delay,late,at\nAA,1,0.5,true,{first}\n")
    said = borealis("publish", "ewr", file, "--stime", "at", "--no-end")
    assert f"{first} looks like {unit} and is read as microseconds: set stime_unit=" in said.err
    assert "--reset" not in said.err
    short = {1: "s", 1_000: "ms", 1_000_000_000: "ns"}[in_a_second]
    site.world = PublishedSource()
    said = borealis("publish", "ewr", file, "--stime", "at", "--stime-unit", short)
    assert "1 rows sent" in said.err, said.err
    assert [stime for _, _, stime, _ in site.folded().rows] == [T0 // 1_000_000 * 1_000_000]


def test_text_in_a_format_of_its_own_is_read_by_it(borealis: Borealis, site: Site, file: Path) -> None:
    site.options = {"boundaries": Boundaries.DATA}
    at = datetime.fromtimestamp(T0 / 1_000_000, UTC)
    file.write_text(f"carrier,n,delay,late,at\nAA,1,0.5,true,{at:%d.%m.%Y %H:%M:%S}\n")
    said = borealis("publish", "ewr", file, "--stime", "at", "--stime-format", "%d.%m.%Y %H:%M:%S")
    assert "1 rows sent" in said.err, said.err
    said = borealis("publish", "ewr", file, "--stime-format", "%d.%m.%Y %H:%M:%S")
    assert said.code == 2


def test_rows_before_the_origin_are_not_called_late_by_0_s(borealis: Borealis, site: Site, file: Path) -> None:
    site.options = {"boundaries": Boundaries.DATA, "lateness_us": 200_000_000}
    times = (T0 + 1_000_000, T0 - 100_000_000)
    file.write_text("carrier,n,delay,late,at\n" + "".join(f"AA,1,0.5,true,{at}\n" for at in times))
    with capture_logs() as logs:
        said = borealis("publish", "ewr", file, "--stime", "at", "--lateness", "200s")
    assert f"  line 3: late: stime {times[1]} is before the app's origin\n" in said.err
    assert "flights.ewr: 1 rows lie before the app's origin\n" in said.err
    assert "came too late" not in said.err
    assert not logs, "a lateness of 100s would not have sufficed"
