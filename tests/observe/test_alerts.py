"""The rules of docs/how-to/alerts.md use names and labels that /metrics has."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from prometheus_client.parser import text_string_to_metric_families as parse_text

from borealis_py.log.messages import InputStatus, Status
from borealis_py.observe.http_routes import Routes, replica_routes
from borealis_py.observe.ingress_metrics import IngressCollector
from borealis_py.observe.ingress_registry import IngressRegistry
from borealis_py.observe.status_registry import StatusRegistry
from tests.docs.page import blocks
from tests.observe.states import CUT1, Q0, app_state, both
from tests.support.ingress_statuses import ingress_state, ingress_status
from tests.support.statuses import WALL_US

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "alerts.md"
RULES = [
    rule for b in blocks(PAGE) if b.language == "yaml" for g in yaml.safe_load(b.text)["groups"] for rule in g["rules"]
]


def labels_by_name() -> dict[str, set[str]]:
    board = StatusRegistry(app_state(), [Q0, CUT1])
    both(board, event="READY", checkpoint_wall_us=WALL_US)
    ingresses = IngressRegistry(ingress_state(), [("orders", 0)])
    ingresses.tell(ingress_status())
    pages = replica_routes(board), Routes(ingresses, IngressCollector(ingresses))
    bodies = [page.answer("GET", "/metrics", "").body.decode() for page in pages]
    return {s.name: set(s.labels) for body in bodies for family in parse_text(body) for s in family.samples}


def test_every_name_on_the_page_is_a_metric() -> None:
    named = set(re.findall(r"\bborealis_\w+", PAGE.read_text())) - {"borealis_py"}
    assert len(named) >= 8
    assert named - labels_by_name().keys() == set()


def test_every_rule_groups_by_labels_that_its_metric_has() -> None:
    known = labels_by_name()
    assert RULES
    for rule in RULES:
        grouped = {
            label for group in re.findall(r"(?:by|on) \(([\w, ]+)\)", rule["expr"]) for label in group.split(", ")
        }
        for name in re.findall(r"\bborealis_\w+", rule["expr"]):
            assert grouped <= known[name], f"{rule['alert']}: {name} has no {grouped - known[name]}"


def test_the_fields_on_the_page_are_those_of_a_status() -> None:
    assert {"checkpoint_wall_us", "why_inline", "inc"} <= set(Status.__struct_fields__)
    assert {"late", "closed", "rejected"} <= set(InputStatus.__struct_fields__)
