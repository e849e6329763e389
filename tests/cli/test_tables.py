"""Every table fits the terminal: what has no room is named below it, and no word or number is broken."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from borealis_py.app.replicas import ProcessName
from borealis_py.app.state import AppState, Statuses
from borealis_py.app.supervision import Fate
from borealis_py.cli.commands import explain
from borealis_py.cli.commands.inspect import show
from borealis_py.cli.shared import console
from borealis_py.cli.shared.ingress_table import INGRESS_COLUMNS, ingress_table
from borealis_py.cli.shared.recovery_table import recovery_of
from borealis_py.cli.shared.replica_table import COLUMNS, parts_table, replica_table
from borealis_py.cli.shared.tables import ColumnWidths, FittingTable, fitted, wrapped
from borealis_py.log.base import Feed, Record
from borealis_py.log.ingress_status import IngressRole
from borealis_py.log.messages import Description
from borealis_py.observe.process_tree import JVM, Footprint
from borealis_py.observe.topic_survey import survey
from borealis_py.query import App
from tests.cli.commands import Borealis, chain_text
from tests.support.ingress_statuses import ingress_input, ingress_state, ingress_status
from tests.support.statuses import NOW, WALL_US, source, status

WIDTHS = [60, 80, 120, 200]
SAID = "not shown, as the terminal has NUMBER columns: NAMES (--json has all)"
NOT_SHOWN = re.compile(
    re.escape(SAID).replace("\\ ", r"\s+").replace("NUMBER", r"(\d+)").replace("NAMES", r"([^()]*?)")
)


def on(width: int, table: FittingTable) -> str:
    """The table on a terminal of this width."""
    screen = Console(width=width, file=io.StringIO(), highlight=False)
    with screen.capture() as capture:
        screen.print(table)
    return capture.get()


def left_out(printed: str) -> list[str]:
    """What the lines below tables name as not shown."""
    said = (found[1] for found in NOT_SHOWN.findall(printed))
    return [" ".join(name.split()) for names in said for name in names.split(",")]


def is_whole(printed: str, width: int, wide: str) -> None:
    """No line is longer than the terminal; each word is one of a terminal that is wide enough, or a part of one between
    signs, and then no part of a number."""
    assert [line for line in printed.splitlines() if len(line.rstrip()) > width] == []
    assert all(int(said) == width for said, _ in NOT_SHOWN.findall(printed))
    whole = wide.replace("─", "").split()
    for word in set(NOT_SHOWN.sub("", printed).replace("─", "").split()) - set(whole):
        part = rf"(^|(?<=[-_./:,;=])){re.escape(word)}($|(?<=[-_./:,;=]))"
        inside = rf"\d[-_./:,;=]{re.escape(word)}|{re.escape(word)}\d"
        assert any(re.search(part, w) and not (word[0].isdigit() and re.search(inside, w)) for w in whole), word


def replicas() -> tuple[AppState, Statuses]:
    """An app in trouble: a node that two queries read, long counts, a standby, one gone, one not there."""
    app = App("orders-of-a-shop", bucket="100ms")
    left, right = (app.source(s, schema={"x": "int"}) for s in ("payments", "refunds"))
    cut = app.union(left, right).filter("x > 0").node("cleaned", replicas=2)
    app.query("revenue_by_country", cut.filter("x > 1"), replicas=2)
    app.query("q", cut, replicas=1)
    many = {"stable_rows": 123_456_789, "tentative_rows": 98_765_432, "tuples_in": 1_234_567_890, "rejected": 4_321}
    both = (source("payments", late=True), source("refunds", closed=NOW - 3_600_000))
    statuses = {
        ("cleaned", 0): status(node="cleaned", state="UPSTREAM_FAILURE", f_s=NOW - 35, inputs=both, **many),
        ("cleaned", 1): status(
            node="cleaned",
            replica=1,
            state="STANDBY",
            recovery="passive-standby",
            checkpoint_wall_us=WALL_US - 9_000_000,
        ),
        ("revenue_by_country", 0): status(
            node="revenue_by_country", state="STABILIZATION", at_wall_us=WALL_US - 60_000_000, granted=True, **many
        ),
        ("q", 0): status(f_s=NOW - 864_001, f_l=NOW - 864_001, asking=True, head=1),
    }
    return AppState("orders-of-a-shop", app.describe(), Description("", "", 0, "", "a1")), statuses


def ingresses() -> FittingTable:
    one = ingress_input(0, rows=123_456_789_012, late=4_711, dead=815, lag=1_234_567)
    other = ingress_input(1, missing="silent for 12.5 s, expected within 3.0 s", given_up=(3, 4))
    statuses = {
        ("orders", 0): ingress_status(inputs=(one, other)),
        ("orders", 1): ingress_status(ingress=1, role=IngressRole.STANDBY, detail="waits for the lease of ingress 0"),
    }
    return ingress_table(ingress_state(), statuses, WALL_US)


FATES = {ProcessName(0, "cleaned"): Fate(73, "exit code 1", WALL_US - 5_000_000, final=False)}
TABLES: Mapping[str, FittingTable] = {
    "replicas": replica_table(*replicas(), WALL_US, fates=FATES),
    "rates": replica_table(*replicas(), WALL_US, {("cleaned", 0): (1_234_567.0, 0.25)}),
    "ingresses": ingresses(),
    "parts": parts_table(
        [
            Footprint(ProcessName(0), "driver", 4_194_304, 6_000_000_000, 4_000_000_000, 123),
            Footprint(ProcessName(0, "cleaned"), JVM, 12, 9_000_000, None, 7),
        ]
    ),
}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_fits(name: str, width: int) -> None:
    table = TABLES[name]
    is_whole(on(width, table), width, on(1_000, table))
    assert left_out(on(1_000, table)) == []


@pytest.mark.parametrize("width", WIDTHS)
def test_each_column_of_replicas_is_shown_or_named(width: int) -> None:
    printed = on(width, TABLES["replicas"])
    named = left_out(printed)
    known = {"node", "of query", "recovery", "restarts", *(name.rstrip(">") for name in COLUMNS)}
    assert set(named) <= known - {"node", "r", "state", "lag", "inputs"}
    heads = printed[: printed.index("─")]
    assert all(word in heads for name in known - {*named} for word in name.split())
    assert named, "24 columns need more than 200 characters"
    assert all(said in printed for said in ("UPSTREAM_", "gone, was", "not running", "payments:late", "4 d behind"))


@pytest.mark.parametrize("width", WIDTHS)
def test_each_column_of_ingresses_is_shown_or_named(width: int) -> None:
    printed = on(width, TABLES["ingresses"])
    named = left_out(printed)
    assert set(named) <= {name.rstrip(">") for name in INGRESS_COLUMNS} - {
        "source",
        "role",
        "input",
        "behind",
        "missing",
    }
    assert ("123456789012" in printed) == ("rows" not in named)
    assert bool(named) == (width < 200)


@pytest.fixture
def app(here: Path) -> str:
    (here / "app.py").write_text(chain_text())
    return "app.py"


@pytest.mark.parametrize("words", [["check"], ["explain", "--rate", "left=200000", "--rate", "right=300"]])
def test_tables_of_an_app_fit(words: list[str], app: str, borealis: Borealis, monkeypatch: pytest.MonkeyPatch) -> None:
    command, *options = words
    measured = recovery_of
    found: list[Any] = []

    def once(*about: Any) -> Any:
        """Each run measures other figures, and takes a second."""
        found[:] = found or [measured(*about)]
        return found[0]

    monkeypatch.setattr(explain, "recovery_of", once)
    wide = borealis(command, app, *options).out
    assert "not shown" not in wide, "no terminal"
    for width in WIDTHS:
        monkeypatch.setattr(console, "out", lambda width=width: Console(width=width, highlight=False))
        said = borealis(command, app, *options)
        assert said.code == 0, said.err
        is_whole(said.out, width, wide)
        assert width == 80 or (left_out(said.out) == []) == (width >= 120)


@pytest.mark.parametrize("width", WIDTHS)
def test_a_topic_fits(width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    value = {"order": 1, "price_in_euros_before_tax": 2.5, "lines": [1, 2], "[bold]": "x"}
    records = [
        Record(Feed("prod.orders", 0), i, 1_700_000_000_000 + i * 100, None, json.dumps(value).encode())
        for i in range(9)
    ]
    seen = survey("prod.orders", 3, records)
    show(seen, None)
    wide = capsys.readouterr().out
    monkeypatch.setattr(console, "out", lambda: Console(width=width, highlight=False))
    show(seen, None)
    tables = capsys.readouterr().out.partition("app.topic(")[0]
    assert "[bold]" in tables, "not markup"
    is_whole(tables, width, wide)


def test_the_least_important_column_goes_first() -> None:
    table = FittingTable("", ["name", "a>", "b>", "c>"], [["x", "1" * 20, "2" * 20, "3" * 20]], ("b>", "a>"))
    assert left_out(on(80, table)) == []
    assert left_out(on(70, table)) == ["b"]
    assert left_out(on(50, table)) == ["a", "b"]
    assert left_out(on(25, table)) == ["a", "b", "c"], "from the right, once its author has named no more"


def test_text_is_broken_between_words_before_a_column_goes() -> None:
    table = FittingTable("", ["name", "why", "n>"], [["x", "because it is what " * 3, "1"]], ("n>",))
    assert left_out(on(40, table)) == []
    assert on(40, table).count("because") == 3
    assert left_out(on(32, table)) == ["n"], "twenty characters are read with ease"


def test_a_long_word_is_broken_before_a_number_is() -> None:
    printed = on(40, FittingTable("", ["topic", "rows>"], [["t" * 60, "1234567890"]]))
    assert "1234567890" in printed
    assert printed.count("t") >= 60
    assert left_out(printed) == []


def test_no_width_is_too_small() -> None:
    for width in range(1, 30):
        printed = on(width, TABLES["replicas"])
        assert all(len(line.rstrip()) <= width for line in printed.splitlines())


@st.composite
def columns(draw: st.DrawFn) -> ColumnWidths:
    least = draw(st.integers(1, 30))
    unbroken = max(least, draw(st.integers(1, 40)))
    readable = max(unbroken, draw(st.integers(1, 40)))
    pieces = draw(st.integers(least, unbroken))
    return ColumnWidths(max(readable, draw(st.integers(1, 200))), readable, unbroken, pieces, least)


@given(st.text("ab1.:- \u00a0中", max_size=60), st.integers(2, 30))
def test_wrapped(said: str, width: int) -> None:
    lines = wrapped(Text(said), width).plain.split("\n")
    assert all(cell_len(line) <= width for line in lines)
    assert "".join("".join(lines).split()) == "".join(said.split()), "nothing is lost"
    words = said.replace("\u00a0", "_").split(" ")
    if all(cell_len(word) <= width for word in words):
        assert {w for line in said_lines(said, width) for w in line.split(" ")} <= {*words}, "words stay whole"


def said_lines(said: str, width: int) -> list[str]:
    """Lines, with _ for each space at which none is broken."""
    return wrapped(Text(said.replace("\u00a0", "_")), width).plain.split("\n")


def test_a_number_is_broken_last() -> None:
    assert wrapped(Text("a.b:12.5 x_22:13:20.0"), 12).plain.split("\n") == ["a.b:12.5", "x_22:13:20.0"]
    assert wrapped(Text("orders.12:22:13:20.0"), 12).plain.split("\n") == ["orders.", "12:22:13:20.", "0"]


@given(st.lists(columns(), min_size=1, max_size=12), st.integers(1, 400), st.data())
def test_fitted(given_columns: list[ColumnWidths], width: int, data: st.DataObject) -> None:
    least = data.draw(st.lists(st.sampled_from(range(1, len(given_columns) + 1)), unique=True))
    least = [i for i in least if i < len(given_columns)]
    found = fitted(given_columns, width, least)
    assert list(found) == sorted(found), "in order"
    assert 0 in found, "the first column stays"
    if len(found) > 1:
        assert sum(found.values()) + 3 * (len(found) - 1) + 2 <= width
        assert all(given_columns[i].least <= size <= given_columns[i].most for i, size in found.items())
    gone = [i for i in range(len(given_columns)) if i not in found]
    order = [*least, *(i for i in range(len(given_columns) - 1, 0, -1) if i not in least)]
    assert set(gone) == set(order[: len(gone)]), "the least important ones"
    if sum(c.most for c in given_columns) + 3 * (len(given_columns) - 1) + 2 <= width:
        assert list(found.values()) == [c.most for c in given_columns]
    assert len(fitted(given_columns, width + 1, least)) >= len(found), "a wider terminal shows no less"
