"""The examples that newcomers copy load, and compile on the engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from borealis_py.app import launch
from borealis_py.app.loader import load_app
from borealis_py.app.replicas import process_names
from borealis_py.protocol.settings import Timing

EXAMPLES = sorted((Path(__file__).parents[2] / "deploy" / "examples").glob("*.py"))


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_an_example_can_be_started(file: Path) -> None:
    spec = load_app(file).describe()
    assert spec.name == file.stem
    assert {report.name for report in launch.check(spec, Timing())} == set(spec.all_nodes)


def test_the_chain_says_how_many_processes_it_is() -> None:
    spec = load_app(next(file for file in EXAMPLES if file.stem == "flights_chain")).describe()
    assert [name.stem for name in process_names(spec)] == ["replica-0", "replica-1"]
