"""Failures as figures: each file in tests/testdata is a scene, which is acted out and compared line by line.

`--rewrite` writes what the scenes print now into the files: read the difference before you commit it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.transcripts.acting import TranscriptDiffers, acted, compare
from tests.transcripts.datadriven import TranscriptError, parse, transcripts


@pytest.mark.parametrize("path", transcripts(), ids=lambda path: path.stem)
def test_transcript(path: Path, rewrite: bool) -> None:
    if rewrite:
        path.write_text(acted(path))
        return
    try:
        compare(path)
    except TranscriptDiffers as exc:
        pytest.fail(str(exc), pytrace=False)


BROKEN = {
    "frontiers\n": "no line ---- after the command",
    "": "no line ---- after the command",
    "----\n": "without a command before it",
    "managers\n----\nok\n\n# the end\n": "text after the last command",
    "managers 2\n----\n": "'2' is not name=value",
    "run until=1s\n----\n": "no scene has begun",
    "managers\n----\nok\n\nwalk\n----\n": "no command 'walk' in this scene",
    "managers\n----\nok\n\nrun to=1s\n----\n": "run: missing a required argument: 'until'",
}


@pytest.mark.parametrize(("text", "why"), BROKEN.items(), ids=BROKEN.values())
def test_a_file_that_cannot_be_acted_out_says_where_and_why(text: str, why: str, tmp_path: Path) -> None:
    path = tmp_path / "scene.txt"
    path.write_text(text)
    with pytest.raises(TranscriptError, match=r"scene\.txt") as caught:
        acted(path)
    assert why in str(caught.value)


def test_what_a_scene_prints_now_is_compared_and_rewritten(tmp_path: Path) -> None:
    path = tmp_path / "scene.txt"
    path.write_text("# prose\nmanagers\n----\nok\n\n# more\nrun until=10ms\n----\nwhat it does not print\n")
    with pytest.raises(TranscriptDiffers, match=r"-what it does not print\n\+  0.000 "):
        compare(path)
    path.write_text(acted(path))
    compare(path)
    assert [step.text for step in parse(path)] == ["# prose\nmanagers\n----", "\n# more\nrun until=10ms\n----"]
