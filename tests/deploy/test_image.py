"""What the image runs while it is built, and in its containers, is there to be run."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

DEPLOY = Path(__file__).parents[2] / "deploy"
EXTRAS = ("demo", "avro", "protobuf", "registry")
MODULES = sorted(
    (file.relative_to(DEPLOY).as_posix(), module)
    for file in (DEPLOY / "Dockerfile", *(DEPLOY / "container").iterdir())
    for module in re.findall(r"python3? -m (borealis_py[.\w]*)", file.read_text())
)


def test_the_image_has_what_formats_of_topics_need_and_nothing_for_tests() -> None:
    """The extras of users but for those of benches: a container has no checkout to install them from."""
    (script,) = re.findall(r'python -c "(import tomllib.*?)"', (DEPLOY / "Dockerfile").read_text(), re.DOTALL)
    asked = subprocess.run(
        [sys.executable, "-c", script.replace("\\\n", "")],
        cwd=DEPLOY.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = [*project["dependencies"], *(one for name in EXTRAS for one in extras[name])]
    assert sorted(asked.stdout.split("\n")[:-1]) == sorted(wanted)


def test_the_image_makes_a_class_archive() -> None:
    assert ("Dockerfile", "borealis_py.runtime.spark.make_class_archive") in MODULES


@pytest.mark.parametrize(("file", "module"), MODULES)
def test_a_module_that_is_run_runs_something(file: str, module: str) -> None:
    """`python -m` of any other module does nothing, and succeeds."""
    spec = find_spec(module)
    assert spec is not None, file
    assert spec.origin is not None
    assert 'if __name__ == "__main__":' in Path(spec.origin).read_text(), f"{file}: python -m {module}"
