"""What an ingress process says over HTTP: health, readiness, status, metrics."""

from __future__ import annotations

import json

import pytest
from prometheus_client.parser import text_string_to_metric_families as parse_text

from borealis_py.log.ingress_status import AbsentField, IngressRole
from borealis_py.observe.http_routes import Routes
from borealis_py.observe.ingress_metrics import IngressCollector
from borealis_py.observe.ingress_registry import IngressRegistry
from borealis_py.observe.status_registry import HUNG_S
from tests.observe.states import Now
from tests.support.ingress_statuses import ingress_input, ingress_state, ingress_status
from tests.support.statuses import WALL_US


@pytest.fixture
def now() -> Now:
    return Now()


@pytest.fixture
def board(now: Now) -> IngressRegistry:
    return IngressRegistry(ingress_state(), [("orders", 0)], now)


def ask(board: IngressRegistry, page: str) -> tuple[int, str]:
    answer = Routes(board, IngressCollector(board)).answer("GET", page)
    return answer.code, answer.body.decode()


def value(board: IngressRegistry, name: str, **labels: str) -> float | None:
    where = {"app": "shop", "source": "orders", "ingress": "0"} | labels
    samples = (s for family in parse_text(ask(board, "/metrics")[1]) for s in family.samples)
    return next((s.value for s in samples if s.name == f"borealis_ingress_{name}" and s.labels == where), None)


def test_one_that_has_not_reported_is_starting(board: IngressRegistry) -> None:
    assert ask(board, "/readyz") == (503, "ingress 0 of orders is starting\n")
    board.tell(ingress_status(role=IngressRole.STARTING, detail="reads its source"))
    assert ask(board, "/readyz") == (503, "ingress 0 of orders is starting: reads its source\n")
    assert ask(board, "/healthz") == (200, "ok\n")


@pytest.mark.parametrize("role", [IngressRole.OWNER, IngressRole.STANDBY])
def test_one_that_copies_or_stands_by_is_ready_until_it_is_silent(
    board: IngressRegistry, now: Now, role: IngressRole
) -> None:
    board.tell(ingress_status(role=role))
    assert ask(board, "/readyz") == ask(board, "/healthz") == (200, "ok\n")
    now.s += HUNG_S + 1
    assert ask(board, "/readyz") == ask(board, "/healthz") == (503, "ingress 0 of orders has said nothing for 11 s\n")


def test_one_that_has_stopped_is_not_ready_and_does_not_hang(board: IngressRegistry, now: Now) -> None:
    board.tell(ingress_status(role=IngressRole.STOPPED, detail="begun anew"))
    now.s += HUNG_S + 1
    assert ask(board, "/readyz") == (503, "ingress 0 of orders has stopped: begun anew\n")
    assert ask(board, "/healthz") == (200, "ok\n")


def test_one_whose_source_has_ended_is_well(board: IngressRegistry, now: Now) -> None:
    board.tell(ingress_status(role=IngressRole.ENDED, detail="it has ended", inputs=()))
    now.s += HUNG_S + 1
    assert ask(board, "/readyz") == ask(board, "/healthz") == (200, "ok\n")


def test_its_status_is_that_of_the_command(board: IngressRegistry) -> None:
    board.tell(ingress_status())
    code, body = ask(board, "/api/v1/status")
    (one,) = json.loads(body)["ingresses"]
    assert (code, one["source"], one["role"], one["inputs"][0]["lag"]) == (200, "orders", "owner", 7)


def test_its_metrics(board: IngressRegistry) -> None:
    inputs = (
        ingress_input(0, late=2, given_up=(0, 2)),
        ingress_input(1, lag=None, dead=3, boundary_us=0, missing="silent"),
    )
    absent = (AbsentField("userId", 9, "user_id"), AbsentField("note", 9))
    board.tell(ingress_status(inputs=inputs, expect_us=1_500_000, ending=True, absent=absent))
    assert value(board, "absent_columns") == 2
    assert value(board, "role", role="owner") == 1
    assert value(board, "role", role="standby") == 0
    assert value(board, "status_timestamp_seconds") == WALL_US / 1e6
    assert [value(board, "rows_total", input=f"orders.{i}") for i in range(2)] == [90, 90]
    assert [value(board, "late_rows_total", input=f"orders.{i}") for i in range(2)] == [2, 0]
    assert [value(board, "unusable_records_total", input=f"orders.{i}") for i in range(2)] == [0, 3]
    assert [value(board, "lag_records", input=f"orders.{i}") for i in range(2)] == [7, None]
    assert [value(board, "missing", input=f"orders.{i}") for i in range(2)] == [0, 1]
    assert [value(board, "given_up_partitions", input=f"orders.{i}") for i in range(2)] == [2, 0]
    assert (value(board, "expect_seconds"), value(board, "ending")) == (1.5, 1)
    boundaries = [value(board, "boundary_timestamp_seconds", input=f"orders.{i}") for i in range(2)]
    assert boundaries == [pytest.approx(WALL_US / 1e6 - 2.5), None]


def test_only_an_owner_has_inputs_there(board: IngressRegistry) -> None:
    board.tell(ingress_status(role=IngressRole.STANDBY))
    assert value(board, "rows_total", input="orders.0") is None
    assert value(board, "absent_columns") is None
    assert (value(board, "expect_seconds"), value(board, "ending")) == (None, 0)
