"""What the image runs while it is built, and in its containers, is there to be run."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
MODULES = sorted(
    (file.relative_to(DEPLOY).as_posix(), module)
    for file in (DEPLOY / "Dockerfile", *(DEPLOY / "container").iterdir())
    for module in re.findall(r"python3? -m (borealis_py[.\w]*)", file.read_text())
)


def test_the_image_makes_a_class_archive() -> None:
    assert ("Dockerfile", "borealis_py.runtime.spark.make_class_archive") in MODULES


@pytest.mark.parametrize(("file", "module"), MODULES)
def test_a_module_that_is_run_runs_something(file: str, module: str) -> None:
    """`python -m` of any other module does nothing, and succeeds."""
    spec = find_spec(module)
    assert spec is not None, file
    assert spec.origin is not None
    assert 'if __name__ == "__main__":' in Path(spec.origin).read_text(), f"{file}: python -m {module}"
