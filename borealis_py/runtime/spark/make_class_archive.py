"""`python -m borealis_py.runtime.spark.make_class_archive`: starts Spark, runs a job, and makes its JVM archive the
loaded classes. Runs in a separate process, like a driver.
"""

from __future__ import annotations

import os
import sys

from borealis_py.kafka import cache
from borealis_py.kafka.java import find_java
from borealis_py.runtime.lean_imports import without
from borealis_py.runtime.spark.class_archive import QUIET, archive

EXIT_S = 120.0
"""How long a JVM may take to write the archive at its end."""


def main() -> int:
    """Returns the exit code: 0 if the archive exists."""
    without("pandas", "numpy", "pyarrow")  # as a driver does
    from borealis_py.runtime.spark.session import ReplicaSession, SparkSettings

    path = archive(find_java())
    path.parent.mkdir(parents=True, exist_ok=True)
    with cache.locked(path.with_suffix(".lock")):
        if path.exists():
            return 0
        for left in path.parent.glob(f"{path.stem}.partial-*"):  # left by one that was killed
            left.unlink(missing_ok=True)
        partial = path.with_name(f"{path.stem}.partial-{os.getpid()}")
        java = (f'"-XX:ArchiveClassesAtExit={partial}"', *QUIET)
        session = ReplicaSession.start_spark(
            "borealis classes", SparkSettings("local[2]", 2, java=java), path.with_suffix(".log")
        )
        session.warm()
        session.stop(EXIT_S)
        if not partial.exists():
            return 1
        partial.replace(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
