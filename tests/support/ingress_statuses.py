"""An app that reads a topic of other programs, and statuses of its ingresses, made by hand."""

from __future__ import annotations

from typing import Any

import msgspec

from borealis_py.app.state import AppState
from borealis_py.log.ingress_status import IngressInput, IngressRole, IngressStatus
from borealis_py.log.messages import Description
from borealis_py.query import App
from tests.support.statuses import WALL_US


def ingress_state() -> AppState:
    """App shop, with source orders of two inputs, read by query q."""
    app = App("shop", bucket="100ms")
    orders = app.topic("orders", topic="prod.orders", schema={"euros": "double"}, partitions=2)
    app.query("q", orders.filter("euros > 0"), "3s")
    spec = app.describe()
    return AppState("shop", spec, Description(spec.to_json(), spec.hash, 1, "", "a1"))


def ingress_input(index: int = 0, **changes: Any) -> IngressInput:
    one = IngressInput(f"orders.{index}", f"partition {index}", WALL_US - 2_500_000, 7, 90, 0, 0)
    return msgspec.structs.replace(one, **changes)


def ingress_status(**changes: Any) -> IngressStatus:
    """Of ingress 0, which owns."""
    one = IngressStatus(
        "orders", 0, "prod.orders", "", IngressRole.OWNER, "u0", 11, "here", WALL_US,
        (ingress_input(0), ingress_input(1)),
    )  # fmt: skip
    return msgspec.structs.replace(one, **changes)
