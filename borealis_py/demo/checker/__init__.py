"""The demo's second opinion: what the flights say, computed in pandas, against what lies in Kafka.

It shares no code with the product and imports nothing of it: flights come from the raw package, records are read with
kafka-python, envelopes are taken apart after the table in PROTOCOL.md. Run it as `python -m borealis_py.demo.checker`.
"""

from borealis_py.demo.checker.history import CorrectedRecord, HistoryRecord
from borealis_py.demo.checker.judge import ContentReport, JudgedCase, judge
from borealis_py.demo.checker.truth import QUERIES, FlightsTruth, load_flights

__all__ = [
    "QUERIES",
    "ContentReport",
    "CorrectedRecord",
    "FlightsTruth",
    "HistoryRecord",
    "JudgedCase",
    "judge",
    "load_flights",
]
