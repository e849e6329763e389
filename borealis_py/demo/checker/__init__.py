"""The demo's second opinion: what the flights say, computed in pandas, against what lies in Kafka.

It shares no code with the product and imports nothing of it: flights come from the raw package, records are read with
kafka-python, envelopes are taken apart after the table in PROTOCOL.md. Run it as `python -m borealis_py.demo.checker`.
"""

from borealis_py.demo.checker.history import CorrectedRecord, StreamRecord
from borealis_py.demo.checker.judge import Case, ContentReport, judge
from borealis_py.demo.checker.truth import QUERIES, Truth, load_flights

__all__ = ["QUERIES", "Case", "ContentReport", "CorrectedRecord", "StreamRecord", "Truth", "judge", "load_flights"]
