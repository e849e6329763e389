"""Finds a Java that can run Kafka. Knows only the version that Kafka needs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from borealis_py.kafka.errors import BrokerError

JAVA_VERSION_MIN = 17
_INSTALL = (
    "Install one, for example with `sudo apt-get install openjdk-17-jre-headless` (Debian, Ubuntu), "
    "or set JAVA_HOME to an existing one."
)


def find_java() -> Path:
    """The `java` to run: JAVA_HOME's if that is set, else the first on PATH.

    Raises:
        BrokerError: there is none, or it is older than Java 17. The message says how to install one.
    """
    home = os.environ.get("JAVA_HOME")
    named = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if named is None:
        where = f"JAVA_HOME ({home}) has no bin/java" if home else "no java on PATH"
        raise BrokerError(f"borealis needs Java {JAVA_VERSION_MIN} or newer: {where}. {_INSTALL}")
    version = _version(named)
    if version < JAVA_VERSION_MIN:
        raise BrokerError(f"borealis needs Java {JAVA_VERSION_MIN} or newer: {named} is Java {version}. {_INSTALL}")
    return Path(named)


def _version(java: str) -> int:
    """The major version: 8 for "1.8.0_402", 17 for "17.0.15" or "17-ea"."""
    try:
        done = subprocess.run(
            [java, "-version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise BrokerError(f"{java} does not run ({exc}). {_INSTALL}") from exc
    said = done.stderr + done.stdout
    found = re.search(r'version "(\d+)(?:\.(\d+))?', said)
    if done.returncode or found is None:
        raise BrokerError(f"`{java} -version` does not tell its version ({said.strip()[:200]!r}). {_INSTALL}")
    major, minor = int(found[1]), int(found[2] or 0)
    return minor if major == 1 else major
