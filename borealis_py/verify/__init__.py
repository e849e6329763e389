"""The independent checker: what lies in Kafka, judged in Jepsen's terms. For `borealis verify`, demo, drills and chaos.

It shares no code with the product (an import contract holds it to that): records are read with kafka-python and taken
apart after the tables of `docs/protocol/records/README.md`. A model, where there is one, computes a query with plain
functions over tuples (`model`, `judge`); without one, what was committed is held against what replicas said, and
replicas against each other (`app`). Everything but `kafka_reader` is pure, so histories made by hand test it.
"""

from borealis_py.verify.anomalies import Anomaly, AnomalyKind, Subject, Verdict
from borealis_py.verify.evidence import Evidence
from borealis_py.verify.judge import judge
from borealis_py.verify.reading import read_evidence

__all__ = ["Anomaly", "AnomalyKind", "Evidence", "Subject", "Verdict", "judge", "read_evidence"]
