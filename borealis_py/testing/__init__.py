"""Tests of your own app without Kafka, Java or waiting: `run` computes results, `World` plays failures.

from borealis_py.testing import World, run

results = run(app, {"berlin": [{"item": "tea", "euros": 2.5}], "paris": []})
assert results["sales"][0]["euros"] == 2.5
"""

from __future__ import annotations

from borealis_py.testing.results import RefusedRow, Results
from borealis_py.testing.run_app import run
from borealis_py.testing.times import START_US, Time, to_stime
from borealis_py.testing.topic_records import TopicRecord, TopicRow
from borealis_py.testing.views import ShownChange
from borealis_py.testing.world import World, WorldError

__all__ = [
    "START_US",
    "RefusedRow",
    "Results",
    "ShownChange",
    "Time",
    "TopicRecord",
    "TopicRow",
    "World",
    "WorldError",
    "run",
    "to_stime",
]
