"""Logs of two sources, as publishers write them."""

from __future__ import annotations

from tests.reconcile.flights_world import log

LOGS = {"s": log(1, 8), "t": log(2, 8)}
