"""The parent of a Spark application's Python workers: loads what replicas and redos need once, and forks.

Spark starts it instead of its own daemon (`spark.python.daemon.module`) on every machine with executors. Workers then
start at once and share unmodified memory. No thread may exist before a fork: a lock held by a thread would stay locked
in the child forever.
"""

from __future__ import annotations

import gc
from importlib import import_module

from pyspark.daemon import manager

from borealis_py.runtime.lean_imports import hidden, load_engine

LOADED = (
    "pyspark.worker",
    "borealis_py.runtime.kernel_check",
    "borealis_py.runtime.spark.replica_task",
    "borealis_py.kafka.log",
    "confluent_kafka",
    "reconcile.spark_executor",
    "reconcile.redo_job",
)


def load() -> None:
    """Load everything that is shared. Starts no thread."""
    gc.disable()  # nothing of it is garbage
    with hidden("rich"):  # structlog would load it, and draw with it what no file shows
        import_module("structlog")
    load_engine()
    for name in LOADED:
        import_module(name)
    gc.freeze()  # otherwise the first collection in each child would touch, and so copy, all of it
    gc.enable()


if __name__ == "__main__":
    load()
    manager()
