"""The class data archive of a Spark driver's JVM: with it, a JVM starts in half the time, and drivers share memory.

Made once per Java and PySpark version (`make_class_archive.py`), and kept in the user's cache. A JVM whose jars do not
match runs without it.
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
IN_PLACE = ("-XX:+UnlockDiagnosticVMOptions", "-XX:+IgnoreUnrecognizedVMOptions", "-XX:ArchiveRelocationMode=0")
"""Map it where it was made for: moved elsewhere, as is the default since Java 17, each JVM has 60 MB of its own."""


def archive(java: Path) -> Path:
    """The path of the archive, which may not exist yet."""
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
    """JVM options that use the archive; empty if there is none."""
    with suppress(OSError):
        path = archive(java)
        if path.exists():
            return (f'"-XX:SharedArchiveFile={path}"', *QUIET, *IN_PLACE)
    return ()


def there() -> bool:
    """Whether it exists or cannot be made (starting Spark then reports why)."""
    try:
        return archive(find_java()).exists()
    except (BrokerError, OSError):
        return True


def prepare(tell: Callable[[str], object]) -> None:
    """Make it if it is missing. `tell`: called with a message first, since that takes a while."""
    if not there():
        tell("preparing Spark's classes, once on this machine (about 15 s)")
        make()


def make() -> bool:
    """Make it in a separate process, unless it exists. Returns whether it exists; nothing depends on it."""
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
