"""A second opinion on a run, in Jepsen's words: what lies in Kafka against a recomputation in plain Python.

It shares no code with the product (`test_checker` holds it to that): records are read with kafka-python and taken apart
by the demo's checker, the query is a function over tuples. `judge` is pure, so histories made by hand test it.
"""

from tests.drills.checker.evidence import Evidence
from tests.drills.checker.judge import judge
from tests.drills.checker.read import read_evidence
from tests.drills.checker.words import Anomaly, Verdict, Word

__all__ = ["Anomaly", "Evidence", "Verdict", "Word", "judge", "read_evidence"]
