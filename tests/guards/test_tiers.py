"""The list of slow tests names tests that exist: a renamed file would slip into `make test` unseen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiers.plan import SHARED, SLOW

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("entry", [*SLOW, *SHARED])
def test_every_slow_test_is_there(entry: str) -> None:
    file, _, name = entry.partition("::")
    text = (ROOT / file).read_text(encoding="utf-8")
    assert f"def {name.partition('[')[0]}" in text
