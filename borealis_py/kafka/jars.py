"""Kafka's own jars, fetched once into the user's cache; `checksums` pins them.

PySpark includes Ivy, so Java and this package suffice; Maven, if it is on PATH, is ten times faster and knows the
user's mirrors.
"""

from __future__ import annotations

import hashlib
import importlib.util
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from borealis_py.kafka import cache
from borealis_py.kafka.checksums import JARS, KAFKA_VERSION, SLF4J_VERSION
from borealis_py.kafka.errors import BrokerError

FETCH_TIMEOUT_S = 900
_WANTED = (("org.apache.kafka", "kafka_2.13", KAFKA_VERSION), ("org.slf4j", "slf4j-simple", SLF4J_VERSION))


def cache_dir() -> Path:
    """The directory of the jars: $XDG_CACHE_HOME/borealis/kafka-4.3.0, by default below ~/.cache."""
    return cache.root() / f"kafka-{KAFKA_VERSION}"


def fetch(java: Path) -> Path:
    """The directory with all jars; downloads them if they are missing (45 MB, once).

    A killed fetch leaves no incomplete cache, and of two concurrent ones the second waits for the first.

    Args:
        java: the Java that runs Ivy.

    Raises:
        BrokerError: no way to fetch them worked, or a jar has the wrong checksum.
    """
    target = cache_dir()
    if _complete(target):
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with cache.locked(target.with_name(target.name + ".lock")):
            if not _complete(target):
                _fetch_into(target, java)
    except OSError as exc:
        raise BrokerError(f"cannot keep Kafka's jars in {target} ({exc}). Set XDG_CACHE_HOME to move them.") from exc
    return target


def verify(directory: Path, expected: Mapping[str, str] = JARS) -> None:
    """Check that exactly the expected jars exist, each with its checksum.

    Raises:
        BrokerError: naming the first jar that is missing, unexpected, or different.
    """
    there = {p.name: p for p in directory.glob("*.jar")}
    for name in sorted(expected.keys() - there.keys()):
        raise BrokerError(f"fetching Kafka {KAFKA_VERSION} brought no {name}")
    for name in sorted(there.keys() - expected.keys()):
        raise BrokerError(f"fetching Kafka {KAFKA_VERSION} brought {name}, which does not belong to it")
    for name, path in sorted(there.items()):
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        if digest != expected[name]:
            raise BrokerError(f"{name} has the wrong checksum: SHA-256 {digest}, expected {expected[name]}")


def _complete(directory: Path) -> bool:
    """Checksums were verified before the directory got its name, so checking names suffices."""
    return JARS.keys() <= {p.name for p in directory.glob("*.jar")}


def _fetch_into(target: Path, java: Path) -> None:
    for left in target.parent.glob(f"{target.name}.partial-*"):  # left by a fetch that was killed
        shutil.rmtree(left, ignore_errors=True)
    console = Console(stderr=True)
    console.print(f"Fetching Apache Kafka {KAFKA_VERSION} into {target} (45 MB, once) ...", soft_wrap=True)
    staging = Path(tempfile.mkdtemp(prefix=f"{target.name}.partial-", dir=target.parent))
    try:
        jars = staging / "jars"
        failures = []
        for way in (_with_maven, _with_ivy):
            shutil.rmtree(jars, ignore_errors=True)
            jars.mkdir()
            try:
                with _progress(console, staging):
                    way(java, staging, jars)
                verify(jars)
                break
            except BrokerError as exc:
                failures.append(str(exc))
        else:
            reasons = "\n  ".join(failures)
            raise BrokerError(
                f"Kafka {KAFKA_VERSION} could not be fetched:\n  {reasons}\n"
                "Is there a network? Behind a mirror, name it in Maven's settings.xml and have `mvn` on PATH."
            )
        shutil.rmtree(target, ignore_errors=True)  # some jars were deleted by hand, not the whole directory
        jars.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)


@contextmanager
def _progress(console: Console, staging: Path) -> Iterator[None]:
    """A progress line with the number of fetched jars, if standard error is a terminal."""
    done = threading.Event()

    def count() -> None:
        while not done.wait(0.5):
            names = {p.name for p in staging.rglob("*.jar")}
            status.update(f"{len(names & JARS.keys()) or len(names)} jars of {len(JARS)}")

    with console.status("resolving") as status:
        thread = threading.Thread(target=count, name="fetch-progress", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()


def _with_maven(java: Path, staging: Path, jars: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise BrokerError("Maven: no mvn on PATH")
    dependencies = "".join(
        f"<dependency><groupId>{g}</groupId><artifactId>{a}</artifactId><version>{v}</version></dependency>"
        for g, a, v in _WANTED
    )
    pom = staging / "pom.xml"
    pom.write_text(
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>borealis</groupId><artifactId>broker</artifactId><version>1</version><packaging>pom</packaging>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )
    goal = "dependency:copy-dependencies"
    _run("Maven", [maven, "-q", "-B", "-f", str(pom), goal, f"-DoutputDirectory={jars}", "-DincludeScope=runtime"])


def _with_ivy(java: Path, staging: Path, jars: Path) -> None:
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise BrokerError("Ivy: PySpark, which brings it, is not installed")
    dependencies = "".join(f'<dependency org="{g}" name="{a}" rev="{v}" conf="default"/>' for g, a, v in _WANTED)
    ivy = staging / "ivy.xml"
    ivy.write_text(
        '<ivy-module version="2.0"><info organisation="borealis" module="broker"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{dependencies}</dependencies></ivy-module>"
    )
    classes = Path(spec.origin).parent / "jars" / "*"
    home = staging / "ivy"  # writes nothing to the user's home except our cache
    command = [str(java), f"-Duser.home={home}", f"-Divy.default.ivy.user.dir={home}", "-cp", str(classes)]
    command += ["org.apache.ivy.Main", "-ivy", str(ivy), "-cache", str(home / "cache"), "-confs", "default"]
    _run("Ivy", [*command, "-retrieve", str(jars / "[artifact]-[revision](-[classifier]).[ext]")])


def _run(name: str, command: list[str]) -> None:
    """Run a fetcher. Raises BrokerError with the end of its output if it fails."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=FETCH_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise BrokerError(f"{name}: {exc}") from exc
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        raise BrokerError(f"{name} ended with {done.returncode}: " + " | ".join(lines[-3:]))
