"""The changelog is for readers of releases: its newest one is the package's version."""

from __future__ import annotations

import re
import tomllib

import borealis_py
from tests.guards.tree import ROOT


def test_the_newest_release_is_the_version_of_the_package() -> None:
    headings = re.findall(r"(?m)^## (.+)$", (ROOT / "CHANGELOG.md").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert headings[0] == "Unreleased"
    assert headings[1].split()[0] == project["version"] == borealis_py.__version__
