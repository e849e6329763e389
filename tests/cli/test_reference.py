"""The generated pages of docs/reference are those of the code."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import borealis_py
from borealis_py.app.state import AppState
from borealis_py.cli.main import app
from borealis_py.cli.reference.commands import leaves
from borealis_py.cli.reference.pages import PAGES
from borealis_py.cli.reference.status import COLUMNS, DERIVED, INGRESS, INGRESS_DERIVED, WHOLE
from borealis_py.cli.shared.ingress_table import INGRESS_COLUMNS
from borealis_py.cli.shared.replica_table import COLUMNS as SHOWN
from borealis_py.config.reference import documented
from borealis_py.log.ingress_status import IngressInput, IngressStatus
from borealis_py.log.messages import Description, InputStatus, RedoStatus, Status, TrimStatus
from borealis_py.observe.ingress_overview import ingress_overview
from borealis_py.observe.overview import overview
from borealis_py.query import App
from tests.support.ingress_statuses import ingress_state, ingress_status
from tests.support.statuses import NOW, WALL_US, status

REFERENCE = Path(__file__).parents[2] / "docs" / "reference"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_in_docs_is_that_of_the_code(name: str) -> None:
    made = PAGES[name]()
    assert (REFERENCE / f"{name}.md").read_text() == made, (
        f"python -m borealis_py.cli.reference {name} > docs/reference/{name}.md"
    )


def test_every_command_is_on_its_page() -> None:
    named = [name for name, _, _ in leaves("borealis", app)]
    assert {"borealis up", "borealis broker up", "borealis fail source"} <= set(named)
    assert all(f"\n## {name}\n" in PAGES["commands"]() for name in named)


def test_every_public_name_is_on_its_page() -> None:
    assert all(f"\n## {name}\n" in PAGES["python"]() for name in borealis_py.__all__)


@pytest.mark.parametrize("kind", [Status, InputStatus, RedoStatus, TrimStatus, IngressStatus, IngressInput])
def test_every_field_of_a_status_is_explained(kind: type[msgspec.Struct]) -> None:
    assert [name for name, _ in documented(kind)] == list(kind.__struct_fields__)


def test_every_column_and_every_derived_field_is_explained() -> None:
    assert [name.rstrip(">") for name in SHOWN if name.rstrip(">") not in COLUMNS] == []
    shop = App("shop")
    shop.query("q", shop.source("s", schema={"item": "string"}).filter("true"))
    spec = shop.describe()
    state = AppState("shop", spec, Description(spec.to_json(), spec.hash, NOW, "", "a1"))
    found = overview(state, {("q", 0): status()}, WALL_US)
    assert found.keys() | {"processes_here", "supervised"} == WHOLE.keys()
    (replica,) = (r for r in found["replicas"] if r["replica"] == 0)
    assert replica.keys() - DERIVED.keys() == set(Status.__struct_fields__)


def test_every_column_and_every_derived_field_of_an_ingress_is_explained() -> None:
    assert [name.rstrip(">") for name in INGRESS_COLUMNS] == list(INGRESS)
    state, statuses = ingress_state(), {("orders", 0): ingress_status()}
    found = next(one for one in ingress_overview(state, statuses, WALL_US) if one["ingress"] == 0)
    assert found.keys() - INGRESS_DERIVED.keys() == set(IngressStatus.__struct_fields__)
