"""Flights out of New York: mean departure delay per carrier and second, and every very late flight with the weather of
its hour.

Copy this file and change it: `borealis check flights.py`, `borealis up flights.py`. It needs nothing but `borealis_py`.
"""

from importlib.resources import files

from borealis_py import App

app = App("flights", bucket="100ms")
columns = {"carrier": "string", "dep_delay": "double", "origin": "string", "sched": "string"}  # sched: 2013-01-01T05:15
ewr, jfk, lga = (app.source(airport, schema=columns) for airport in ("ewr", "jfk", "lga"))
delays = (
    app.union(ewr, jfk, lga)
    .filter("dep_delay IS NOT NULL")
    .window("1s")  # sliding: window("10s", every="1s")
    .group_by("carrier")
    .agg(flights="count(*)", mean_delay_hours="avg(dep_delay / 60.0)")
)
weather = app.table(
    "weather",
    key=("origin", "hour"),
    schema={"origin": "string", "hour": "string", "visibility": "double", "rain": "double"},  # miles, inches
    file=str(files("borealis_py.demo") / "weather.csv"),
)
late = (
    app.union(ewr, jfk, lga)
    .filter("dep_delay > 120")
    .map(carrier="carrier", dep_delay="dep_delay", origin="origin", hour="left(sched, 13)")
    .lookup(weather, on=("origin", "hour"))
)
app.query("carrier_delays", delays, delay_threshold="3s", on_failure="process", on_stabilization="process", replicas=2)
app.query("very_late", late, delay_threshold="3s", replicas=2)
