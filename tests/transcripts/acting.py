"""Transcripts acted out: the text of a file with what its commands print now."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path

from tests.transcripts.cluster_scene import ClusterScene
from tests.transcripts.datadriven import Command, TranscriptError, replay, transcripts
from tests.transcripts.managers_scene import ManagersScene
from tests.transcripts.scene import OK, Scene, named

SCENES = (ManagersScene, ClusterScene)


class TranscriptDiffers(AssertionError):
    """A scene does not print what its file expects; the message is the difference."""


def acted(path: Path) -> str:
    """The file as it is when each command prints what it prints now. Raises TranscriptError, and what oracles raise."""
    scene: Scene | None = None

    def run(command: Command) -> str:
        nonlocal scene
        begins = named(SCENES, command)
        if begins is not None:
            scene = begins(*command.body, **command.args)
            return OK
        if scene is None:
            raise TranscriptError(f"{command.at}: no scene has begun")
        return scene.act(command)

    return replay(path, run)


def compare(path: Path) -> None:
    """Raises TranscriptDiffers."""
    before, now = path.read_text(), acted(path)
    if before != now:
        lines = unified_diff(before.splitlines(), now.splitlines(), f"{path.name}: expected", "now", lineterm="")
        raise TranscriptDiffers("\n".join([*lines, "If this is right, run again with --rewrite."]))


def transcript(name: str) -> None:
    """`compare` for the file of this name."""
    compare(next(path for path in transcripts() if path.stem == name))
