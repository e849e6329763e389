"""The product as a wheel installs it: packages and metadata, built by setuptools as pip has it do."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("borealis_py", "sunion", "reconcile")
BUILD = "from setuptools import setup; setup()"


def build(directory: Path) -> Path:
    """Build into a new directory, without network. Returns what to have on PYTHONPATH.

    The sources are copied first: setuptools leaves files where it builds, and would take old ones from there.
    """
    sources, installed = directory / "sources", directory / "installed"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, sources / package, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    installed.mkdir()
    metadata, files = ["egg_info", "--egg-base", str(installed)], ["build", "--build-lib", str(installed)]
    command = [sys.executable, "-c", BUILD, "--quiet", *metadata, *files]
    done = subprocess.run(command, cwd=sources, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return installed
