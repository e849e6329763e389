"""Apps of users, rows for them, and an audit of the worlds they are in."""

from __future__ import annotations

from borealis_py import App
from borealis_py.engine.applied.code_in_place import CodeInPlace
from borealis_py.protocol.settings import Timing
from borealis_py.testing import World
from reconcile.audit import audit, audit_specs

SALE = {"item": "string", "euros": "double"}


def shop(threshold: str = "3s", replicas: int = 2) -> App:
    """The README's first app."""
    app = App("shop")
    berlin, paris = (app.source(city, schema=SALE) for city in ("berlin", "paris"))
    sales = app.union(berlin, paris).window("1s").group_by("item").agg(sold="count(*)", euros="sum(euros)")
    app.query("sales", sales, delay_threshold=threshold, replicas=replicas)
    return app


def network() -> App:
    """Two nodes that several queries read, one of them in partitions, over a source in two partitions and another one.

    Rows without euros are kept away, an item that is no number is refused by the node `cleaned`.
    """
    app = App("network")
    web, till = app.source("web", schema=SALE, partitions=2), app.source("till", schema=SALE)
    cleaned = (
        app.union(web, till).filter("euros IS NOT NULL").map(item="item", euros="euros / 3.0", n="CAST(item AS BIGINT)")
    )
    cleaned = cleaned.node("cleaned")
    parts = cleaned.map(item="item", euros="euros * 1.1", n="n").node("parts", partitions=2, by="item")
    totals = parts.window("1s", every="500ms").group_by("item").agg(euros="sum(euros)", n="sum(n)", rows="count(*)")
    app.query("totals", totals, partitions=2, by="item")
    app.query("big", cleaned.filter("euros > 10").map(item="item", twice="CAST(euros * 1e17 AS BIGINT)"), replicas=1)
    app.query("till_only", till.window("1s").agg(rows="count(*)"))
    return app


def sales(
    count: int, every_ms: int = 200, item: str = "tea", euros: float = 2.5
) -> list[tuple[str, dict[str, object]]]:
    """So many sales at this distance, from the beginning on."""
    return [(f"{n * every_ms}ms", {"item": item, "euros": euros}) for n in range(count)]


def audited(world: World, *queries: str) -> None:
    """An audit of the world's topics finds nothing."""
    app, log = world._app.state, world._app.log.client("audit")
    for query in queries:
        how = app.origin, Timing().ahead_max_us, app.app_uid
        for spec in audit_specs(app.spec, query, log, *how, whole=True, code=CodeInPlace()):
            result = audit(spec)
            assert result.clean, result
