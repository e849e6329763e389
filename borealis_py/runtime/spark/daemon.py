"""The parent of a Spark application's Python workers: loads what replicas and redos need once, and forks.

Spark starts it in place of its own (`spark.python.daemon.module`) on every machine with executors. A worker is there at
once then, and shares with the others what it does not change. No thread may exist before a fork: whoever held a lock
would hold it in the child for ever.
"""

from __future__ import annotations

import gc
from importlib import import_module

from pyspark.daemon import manager

from borealis_py.runtime.lean_imports import load_engine

LOADED = (
    "pyspark.worker",
    "pyarrow.dataset",
    "borealis_py.runtime.kernel_check",
    "borealis_py.runtime.spark.replica_task",
    "borealis_py.kafka.log",
    "confluent_kafka",
    "reconcile.spark_redo",
    "reconcile.redo_job",
)


def load() -> None:
    """Everything that is shared. Starts no thread."""
    gc.disable()  # nothing of it is garbage
    load_engine()
    for name in LOADED:
        import_module(name)
    gc.freeze()  # else the first collection in each child would touch, and so copy, all of it
    gc.enable()


if __name__ == "__main__":
    load()
    manager()
