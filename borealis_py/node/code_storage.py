"""Keeps the files of an app's functions beside its checkpoints, named by their SHA-256, so that replicas load the bytes
that `up` saw, whatever has become of the files since. Code never travels through Kafka.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from borealis_py.node.checkpoint_storage import (
    CheckpointLocation,
    LocalLocation,
    LocationError,
    in_short,
    location_at,
    without_query,
)
from borealis_py.node.checkpoint_topic import KAFKA
from borealis_py.query.errors import FunctionDiffers
from borealis_py.query.functions import is_content
from borealis_py.query.plan import CodeFile
from borealis_py.query.spec import AppSpec

DIRECTORY = "code"


@dataclass(frozen=True, slots=True)
class StoredCode:
    """The files of one `app`. `directory`: the app's own. `uri`: where checkpoints are, for pyarrow.fs; empty, or
    `kafka`: below `directory`."""

    app: str
    directory: Path
    uri: str = ""

    def store(self, spec: AppSpec) -> None:
        """Copy the files of an app from where it was described. They are durable afterwards.

        Raises:
            LocationError: they cannot be kept there. FunctionDiffers: a file has changed, or is gone.
        """
        from borealis_py.engine.applied.code_in_place import (
            CodeInPlace,  # drivers, which have this class, load no engine
        )

        for file in dict.fromkeys(file for function in spec.functions for file in function.files):
            content, location = CodeInPlace().read(file), self._location()
            try:
                if self._read(location, file) is None:
                    location.prepare()
                    location.write(_name(file), content)
            except OSError as exc:
                raise LocationError(
                    f"{file.path} cannot be copied to {self._shown}: {in_short(exc, self.uri)}"
                ) from exc

    def read(self, file: CodeFile) -> bytes:
        """The file's content: what is stored, else the file itself, on the machine where the app was described. Raises
        FunctionDiffers."""
        found = self._read(self._location(), file)
        if found is not None:
            return found
        from borealis_py.engine.applied.code_in_place import CodeInPlace

        with suppress(FunctionDiffers):
            return CodeInPlace().read(file)
        raise FunctionDiffers(
            f"{file.name}.py with SHA-256 {file.sha256} is not in {self._shown}, where `borealis up` puts it: run `up` "
            "on this machine, copy that directory here, or set `checkpoints:` to a place that all machines reach"
        )

    def _read(self, location: CheckpointLocation, file: CodeFile) -> bytes | None:
        """What is stored of a file; None: nothing, or another content."""
        try:
            content = location.read(_name(file))
        except OSError:
            return None
        return content if is_content(file, content) else None

    @property
    def _afar(self) -> bool:
        return self.uri not in ("", KAFKA)

    def _location(self) -> CheckpointLocation:
        if self._afar:
            return location_at(self.uri, self.app, DIRECTORY)
        return LocalLocation(self.directory / DIRECTORY)

    @property
    def _shown(self) -> str:
        """For messages, without keys."""
        return f"{without_query(self.uri)}/{self.app}/{DIRECTORY}" if self._afar else str(self.directory / DIRECTORY)


def _name(file: CodeFile) -> str:
    return f"{file.sha256}.py"
