"""The cluster of docker-compose.yml as a project of its own: Docker's command line, nothing of the product."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
LABEL = "com.docker.compose.project"
BUILD_S = 3_600.0
COMMAND_S = 600.0


class ComposeError(Exception):
    """A command failed, or there is no Docker; the message has what it said."""


def compose_command() -> list[str]:
    """Compose 2 where it is there, else 1.29. Raises ComposeError."""
    for candidate in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(candidate[0]) is not None:
            found = subprocess.run([*candidate, "version"], capture_output=True, text=True, check=False)
            if found.returncode == 0:
                return candidate
    raise ComposeError("Docker with Compose is not here: install docker.io and docker-compose, or Docker Desktop")


@dataclass(frozen=True)
class Compose:
    """One project. `settings`: environment of the compose file; `files`: compose files, if not the usual one."""

    project: str
    settings: Mapping[str, str]
    command: tuple[str, ...]
    files: tuple[str, ...] = ()

    def up(self, *services: str) -> None:
        """Start what does not run, and wait as `depends_on` says; the first time it builds the image."""
        self("up", "-d", *services, timeout_s=BUILD_S)

    def down(self) -> None:
        """End everything and forget it: containers, networks, volumes."""
        self("down", "--volumes", "--remove-orphans", "--timeout", "20")

    def shown(self, service: str, *command: str) -> str:
        """What a command says in a service's container."""
        return self("exec", "-T", service, *command)

    def printed(self, service: str) -> str:
        """What a service has written to standard output."""
        return docker("logs", self.containers()[service])

    def containers(self) -> dict[str, str]:
        """Container ids by service, ended ones too."""
        form = '{{.Label "com.docker.compose.service"}} {{.ID}}'
        listed = docker("ps", "--all", "--no-trunc", "--filter", f"label={LABEL}={self.project}", "--format", form)
        return dict(line.split() for line in listed.splitlines())

    def states(self) -> dict[str, dict[str, object]]:
        """What the engine says of each service's container, ended ones too."""
        ids = self.containers()
        if not ids:
            return {}
        found = json.loads(docker("inspect", *ids.values()))
        restarts = {one["Id"]: one["RestartCount"] for one in found}
        by_id = {one["Id"]: {**one["State"], "RestartCount": restarts[one["Id"]]} for one in found}
        return {service: by_id[id_] for service, id_ in ids.items()}

    def memory_mb(self) -> dict[str, float]:
        """Memory in use now, without page cache, by service."""
        names = {id_[:12]: service for service, id_ in self.containers().items()}
        said = docker("stats", "--no-stream", "--format", "{{.ID}} {{.MemUsage}}")
        rows = (line.split() for line in said.splitlines())
        return {names[id_[:12]]: _mb(used) for id_, used, *_ in rows if id_[:12] in names}

    def left(self) -> list[str]:
        """What `down` should have removed and did not."""
        chosen = "--quiet", "--filter", f"label={LABEL}={self.project}"
        kinds = ("ps", "--all"), ("volume", "ls"), ("network", "ls")
        return [f"{kind[0]} {found}" for kind in kinds for found in docker(*kind, *chosen).split()]

    def __call__(self, *arguments: str, timeout_s: float = COMMAND_S) -> str:
        """Any of Compose's commands: its standard output. Raises ComposeError."""
        files = [word for file in self.files for word in ("-f", file)]
        command = [*self.command, *files, "--project-name", self.project, *arguments]
        patience = {"COMPOSE_HTTP_TIMEOUT": f"{COMMAND_S:.0f}"}  # Compose 1 would wait for a minute
        return _run(command, {**os.environ, **patience, **self.settings}, timeout_s)


def docker(*arguments: str) -> str:
    """Standard output of the engine's command line. Raises ComposeError."""
    return _run(["docker", *arguments], dict(os.environ), COMMAND_S)


def _run(command: list[str], environment: dict[str, str], timeout_s: float) -> str:
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as exc:
        raise ComposeError(f"{' '.join(command)}: not done within {timeout_s:g} s") from exc
    if done.returncode:
        raise ComposeError(f"{' '.join(command)}: exit code {done.returncode}\n{(done.stderr or done.stdout)[-3000:]}")
    return done.stdout


def _mb(text: str) -> float:
    for unit, factor in (("GiB", 1024.0), ("MiB", 1.0), ("KiB", 1 / 1024)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    return 0.0
