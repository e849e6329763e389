"""A Spark for tests."""

from __future__ import annotations

from pathlib import Path

from borealis_py.runtime.spark.session import SparkSettings

ROOT = Path(__file__).parents[2]


SETTINGS = SparkSettings(extra=(("spark.executorEnv.PYTHONPATH", str(ROOT)),))
"""Workers also find the tests' own modules."""
