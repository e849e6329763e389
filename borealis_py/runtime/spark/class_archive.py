"""The archive of the classes that a Spark driver's JVM loads: with it a JVM starts in half the time, and drivers share
memory.

Made once for a Java and a PySpark (`make_class_archive.py`), and kept in the user's cache.
A JVM that finds it was made for other jars goes on without it.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from borealis_py.kafka import cache
from borealis_py.kafka.errors import BrokerError
from borealis_py.kafka.java import find_java

MAKE_S = 180.0
QUIET = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")


def archive(java: Path) -> Path:
    """Where it is, or is to be."""
    spark = find_spec("pyspark")
    assert spark is not None, "PySpark is a dependency"
    assert spark.origin is not None, "PySpark is a package"
    jars = Path(spark.origin).parent / "jars"
    of = [
        str(java.resolve()),
        str(java.resolve().stat().st_mtime_ns),
        str(jars.resolve()),
        str(jars.stat().st_mtime_ns),
    ]
    return cache.root() / f"spark-classes-{hashlib.sha256('|'.join(of).encode()).hexdigest()[:12]}.jsa"


def options(java: Path) -> tuple[str, ...]:
    """Of a JVM that is to use it; none where there is none."""
    with suppress(OSError):
        path = archive(java)
        if path.exists():
            return (f'"-XX:SharedArchiveFile={path}"', *QUIET)
    return ()


def there() -> bool:
    """It need not be made, or cannot be: whoever starts Spark says why not."""
    try:
        return archive(find_java()).exists()
    except (BrokerError, OSError):
        return True


def prepare(tell: Callable[[str], object]) -> None:
    """Make it where it is missing. `tell`: given a line first, since that takes a while."""
    if not there():
        tell("preparing Spark's classes, once on this machine (about 15 s)")
        make()


def make() -> bool:
    """Make it, in a process of its own, unless somebody has. Returns whether it is there: all goes on without, too."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", "borealis_py.runtime.spark.make_class_archive"],
            capture_output=True,
            timeout=MAKE_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
