"""Transcripts are worth something: a planted bug changes what the scene prints that it names, or breaks its oracles."""

from __future__ import annotations

import pytest

from borealis_py.simulation.violation import Violation
from tests.planted import BUGS
from tests.planted.bug import Bug
from tests.protocol.toy import Broken
from tests.transcripts.acting import TranscriptDiffers, transcript
from tests.transcripts.datadriven import transcripts

NOTICED = [(bug, bug.scene) for bug in BUGS if bug.scene is not None]


@pytest.mark.parametrize(("bug", "scene"), NOTICED, ids=[f"{bug.rule}-{scene}" for bug, scene in NOTICED])
def test_a_planted_bug_shows(bug: Bug, scene: str) -> None:
    with bug.plant(), pytest.raises((TranscriptDiffers, Broken, Violation)):
        transcript(scene)


def test_every_transcript_notices_something() -> None:
    assert {scene for _, scene in NOTICED} == {path.stem for path in transcripts()}
