"""A real Kafka broker on this machine, for users who have none: fetch, start, inspect, stop. One per data directory.

Knows nothing of apps or topics.
"""

from __future__ import annotations

import fcntl
import json
import re
import secrets
import socket
import subprocess
import time
import uuid
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import msgspec
import psutil

from borealis_py.kafka import jars
from borealis_py.kafka.broker_config import HOST, java_command, server_properties
from borealis_py.kafka.checksums import KAFKA_VERSION
from borealis_py.kafka.client import ask_cluster_id
from borealis_py.kafka.errors import BrokerError
from borealis_py.kafka.java import find_java
from borealis_py.kafka.process_end import is_over, terminate
from borealis_py.kafka.process_start import uninterrupted
from borealis_py.log.unreadable import total

GIVEN_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
"""Where Linux says which ports it gives to connections, and to who asks for any."""
GIVEN_ELSEWHERE = (49_152, 65_535)
"""Those of other systems."""
PORT_MIN, PORT_MAX = 10_000, 65_535
"""Well-known services listen below."""
PORTS_TRIED = 100
PID_MAX = 2**31 - 1
LOG_BYTES_MAX = 10_000_000
_TAIL_LINES = 20


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """The state of the broker of `borealis broker`: whether it is `running`. `data_dir`: where its log lies. `version`:
    of Kafka. `port`, `pid` and `rss_bytes` (resident memory) are those of the running broker, None if none runs."""

    running: bool
    data_dir: Path
    version: str = KAFKA_VERSION
    port: int | None = None
    pid: int | None = None
    rss_bytes: int | None = None

    @property
    def bootstrap(self) -> str | None:
        return None if self.port is None else f"{HOST}:{self.port}"


@dataclass(frozen=True, slots=True)
class _PidFile:
    """The content of `broker.json`, about the broker started last."""

    pid: Annotated[int, msgspec.Meta(ge=1, le=PID_MAX)]
    port: int
    version: str


_note = msgspec.json.Decoder(_PidFile).decode


class _PortLost(BrokerError):
    """Another process took the port between our choosing it and the broker's start."""


def new_cluster_id() -> str:
    """A random cluster id in Kafka's format; never with a leading "-", which its format tool takes for an option."""
    while True:
        found = urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not found.startswith("-"):
            return found


class LocalBroker:
    """The broker of one data directory.

    Args:
        data_dir: holds the log, `server.properties`, `broker.json` (process id, port) and `broker.log`.
        port: where clients will connect, on the loopback interface only.
    """

    def __init__(self, data_dir: Path | str, port: int = 9092) -> None:
        self.data_dir = Path(data_dir).expanduser().resolve()
        self.port = port
        self._config = self.data_dir / "server.properties"
        self._pid_file = self.data_dir / "broker.json"
        self.log_file = self.data_dir / "broker.log"

    @property
    def bootstrap(self) -> str:
        return f"{HOST}:{self.port}"

    def properties(self) -> str:
        """The text of server.properties for the next start. The controller's port differs each time."""
        return server_properties(self.data_dir, self.port, free_port())

    def fetch(self) -> Path:
        """Download Kafka's jars if they are not in the cache yet. `up` does that, too.

        Raises:
            BrokerError: no Java, or the download failed.
        """
        return jars.fetch(find_java())

    def up(self, timeout_s: float = 60.0) -> bool:
        """Start the broker, and wait until it answers. It outlives this process.

        Args:
            timeout_s: how long to wait for the answer; fetching is not counted.

        Returns:
            True: started. False: it was already running.

        Raises:
            BrokerError: no Java, port taken, or it did not start (the end of its log is in the message).
        """
        with self._locked():
            there = self.status()
            if there.running:
                if there.port != self.port:
                    raise BrokerError(
                        f"the broker of {self.data_dir} is running on port {there.port}, not {self.port}. "
                        "Use that port, or stop it first with `borealis broker down`."
                    )
                return False
            java = find_java()
            self._check_port()
            directory = jars.fetch(java)
            for last in (False, False, True):
                try:
                    self._start(java, directory, timeout_s)
                    break
                except _PortLost:  # most likely the controller's, which we can choose again
                    self._check_port()
                    if last:
                        raise
            return True

    def down(self, timeout_s: float = 20.0) -> bool:
        """Stop the broker: terminate it, and kill it after `timeout_s`. Its data stays.

        Returns:
            True: stopped. False: none was running.
        """
        with self._locked():
            process = self._process()
            if process is not None:
                terminate(process, timeout_s)
            self._pid_file.unlink(missing_ok=True)
            return process is not None

    def status(self) -> BrokerStatus:
        """What is running now. Asks the operating system, not the broker: quick, and never blocks."""
        process, noted = self._process(), self._noted()
        if process is None or noted is None:
            return BrokerStatus(running=False, data_dir=self.data_dir)
        try:
            rss_bytes: int | None = process.memory_info().rss
        except psutil.Error:
            return BrokerStatus(running=False, data_dir=self.data_dir)
        return BrokerStatus(True, self.data_dir, noted.version, noted.port, process.pid, rss_bytes)

    def log_tail(self, lines: int = _TAIL_LINES) -> str:
        """The end of the broker's own log."""
        try:
            with self.log_file.open("rb") as file:
                file.seek(max(0, self.log_file.stat().st_size - 65536))
                return "\n".join(file.read().decode(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Allow one `up` or `down` of this directory at a time."""
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            file = (self.data_dir / "lock").open("w")
        except OSError as exc:
            raise BrokerError(f"cannot keep the broker's data in {self.data_dir}: {exc}") from exc
        if "," in str(self.data_dir):
            raise BrokerError(f"Kafka accepts no data directory with a comma in its name: {self.data_dir}")
        with file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield

    def _noted(self) -> _PidFile | None:
        try:
            return total(_note, self._pid_file.read_bytes())
        except (OSError, msgspec.DecodeError):
            return None

    def _process(self) -> psutil.Process | None:
        """The running broker of this directory. A process id alone proves nothing: it may have been reused."""
        noted = self._noted()
        if noted is None:
            return None
        try:
            process = psutil.Process(noted.pid)
            ours = str(self._config) in process.cmdline() and not is_over(process)
        except psutil.Error:
            return None
        return process if ours else None

    def _check_port(self) -> None:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the broker does; ignores TIME_WAIT
            try:
                probe.bind((HOST, self.port))
            except OSError as exc:
                raise BrokerError(
                    f"port {self.port} is in use or not allowed ({exc.strerror}). If a Kafka listens there, it can be "
                    "used as it is; else choose another port with --port."
                ) from exc

    def _start(self, java: Path, directory: Path, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        self._config.write_text(self.properties())
        if self.log_file.exists() and self.log_file.stat().st_size > LOG_BYTES_MAX:
            self.log_file.replace(self.log_file.with_name("broker.log.1"))
        cluster_id = self._format(java, directory)
        process: subprocess.Popen[bytes] | None = None
        try:
            with uninterrupted(), self.log_file.open("ab") as log:
                process = subprocess.Popen(
                    java_command(java, directory, "kafka.Kafka", str(self._config)),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.data_dir,
                    start_new_session=True,  # Ctrl-C in this terminal, or its closing, must not end the broker
                )
            noted = json.dumps(asdict(_PidFile(process.pid, self.port, KAFKA_VERSION)))
            partial = self._pid_file.with_suffix(".partial")
            partial.write_text(noted)
            partial.replace(self._pid_file)
            self._wait_healthy(process, cluster_id, deadline, timeout_s)
        except BaseException:
            if process is not None:
                process.kill()
                process.wait()
            self._pid_file.unlink(missing_ok=True)
            raise
        process.returncode = 0  # it outlives this object: suppresses Python's warning

    def _format(self, java: Path, directory: Path) -> str:
        """Give the storage a cluster id, once. Returns the id."""
        meta = self.data_dir / "log" / "meta.properties"
        if not meta.exists():
            arguments = ("format", "--config", str(self._config), "--cluster-id", new_cluster_id())
            done = subprocess.run(
                java_command(java, directory, "kafka.tools.StorageTool", *arguments, heap_mb=128),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
            )
            if done.returncode:
                said = (done.stdout + done.stderr).strip()
                raise BrokerError(f"Kafka could not format its storage in {self.data_dir}:\n{said}")
        for line in meta.read_text().splitlines():
            if line.startswith("cluster.id="):
                return line.partition("=")[2].strip()
        raise BrokerError(f"{meta} has no cluster id: the broker's data is damaged. Move {self.data_dir} away.")

    def _wait_healthy(
        self, process: subprocess.Popen[bytes], cluster_id: str, deadline: float, timeout_s: float
    ) -> None:
        """Wait until this broker answers a real request; another one may have taken the port."""
        while time.monotonic() < deadline:
            if process.poll() is not None:
                lost = re.search(r"failed to bind|Address already in use", self.log_tail())
                raise (_PortLost if lost else BrokerError)(
                    f"the broker ended while starting (code {process.returncode}). "
                    f"End of {self.log_file}:\n{self.log_tail()}"
                )
            if _listens(self.port) and ask_cluster_id(self.bootstrap, timeout_s=2.0) == cluster_id:
                return
            time.sleep(0.05)
        raise BrokerError(
            f"the broker did not answer within {timeout_s:.0f} s. End of {self.log_file}:\n{self.log_tail()}"
        )


def _listens(port: int) -> bool:
    with suppress(OSError), socket.create_connection((HOST, port), timeout=1.0):
        return True
    return False


def free_port() -> int:
    """A port on which no process listens at present, another one each time. Whoever is to listen there starts only
    seconds later: so it is none that the system gives to connections and to who asks for any, where there are others.
    """
    others = _ports_not_given()
    for _ in range(PORTS_TRIED if others else 0):
        port = others[secrets.randbelow(len(others))]
        if port not in _chosen and _is_free(port):
            _chosen.add(port)
            return port
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        found: int = probe.getsockname()[1]
        return found


_chosen = set[int]()


def _ports_not_given() -> range:
    """Ports that the system gives to nobody by itself, below those that it gives, or beyond; there may be none."""
    try:
        low, high = (int(text) for text in GIVEN_PORTS.read_text().split())
    except (OSError, ValueError):
        low, high = GIVEN_ELSEWHERE
    return max(range(PORT_MIN, low), range(high + 1, PORT_MAX + 1), key=len)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True
