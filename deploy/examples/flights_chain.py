"""The demo's two queries over a node that both read: cleaning is done once, and fails independently.

    borealis check deploy/examples/flights_chain.py
    borealis up deploy/examples/flights_chain.py

Sources -> cleaned (2 replicas) -> carrier_delays (2 replicas), very_late (2 replicas): two processes on one machine,
`replica-0` and `replica-1`, each with the node and both queries.
"""

from __future__ import annotations

from borealis_py import App

app = App("flights_chain", bucket="100ms")

ewr, jfk, lga = (app.source(a, schema={"carrier": "string", "dep_delay": "double"}) for a in ("ewr", "jfk", "lga"))

cleaned = app.union(ewr, jfk, lga).filter("dep_delay IS NOT NULL").node("cleaned")

delays = cleaned.window("1s").group_by("carrier").agg(flights="count(*)", mean_delay_hours="avg(dep_delay / 60.0)")
app.query("carrier_delays", delays, delay_threshold="3s", replicas=2)
app.query("very_late", cleaned.filter("dep_delay > 120"), delay_threshold="3s", replicas=2)
