"""The machine on which something was measured: figures mean little without it."""

from __future__ import annotations

import os
import platform
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

from borealis_py.kafka.checksums import KAFKA_VERSION

PACKAGES = ("borealis-py", "confluent-kafka", "duckdb", "msgspec", "orjson", "pyarrow", "pyspark")


@dataclass(frozen=True, slots=True)
class BenchMachine:
    """`load`: the system's load average of the last minute, before and after. `day`: of the measurement, ISO 8601;
    empty: it was not noted."""

    cpus: int
    load: tuple[float, float]
    system: str
    python: str
    versions: dict[str, str]
    day: str = ""

    @classmethod
    def now(cls, load_before: float) -> BenchMachine:
        """This machine, at the end of a measurement."""
        versions = {"kafka": KAFKA_VERSION}
        for name in PACKAGES:
            with suppress(PackageNotFoundError):  # not every figure needs all of them
                versions[name] = version(name)
        load = load_before, os.getloadavg()[0]
        day = datetime.now(UTC).date().isoformat()
        return cls(os.cpu_count() or 0, load, platform.platform(), platform.python_version(), versions, day)

    def lines(self, seconds: float) -> tuple[str, str]:
        """Human-readable lines. `seconds`: how long it took."""
        before, after = self.load
        day = f"{self.day}, " if self.day else ""
        loads = f"load {before:.1f} before and {after:.1f} after"
        return (
            f"{day}{self.cpus} cores, {loads}, {self.system}, Python {self.python}",
            f"{', '.join(f'{name} {v}' for name, v in self.versions.items())}; {seconds:.0f} s in all",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The machine and duration of a benchmark. `seconds`: how long it took."""

    machine: BenchMachine
    seconds: float
