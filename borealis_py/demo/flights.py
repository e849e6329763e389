"""Flights out of New York: mean departure delay per carrier and second, and every very late flight.

Copy this file and change it: `borealis check flights.py`, `borealis up flights.py`. It needs nothing but `borealis_py`.
"""

from borealis_py import App

app = App("flights", bucket="100ms")
ewr, jfk, lga = (app.source(a, schema={"carrier": "string", "dep_delay": "double"}) for a in ("ewr", "jfk", "lga"))
delays = (
    app.union(ewr, jfk, lga)
    .filter("dep_delay IS NOT NULL")
    .window("1s")  # sliding: window("10s", every="1s")
    .group_by("carrier")
    .agg(flights="count(*)", mean_delay_hours="avg(dep_delay / 60.0)")
)
late = app.union(ewr, jfk, lga).filter("dep_delay > 120")
app.query("carrier_delays", delays, delay_threshold="3s", on_failure="process", on_stabilization="process", replicas=2)
app.query("very_late", late, delay_threshold="3s", replicas=2)
