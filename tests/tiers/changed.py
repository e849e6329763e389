"""Which tests a submission's changes are about: they run in every rotation.

A test is about a module if its file, or a helper of the tests that it uses, imports the module by name. What lies
behind that is left to the rotation: nearly everything stands on the protocol.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

import grimp

PACKAGES = ("borealis_py", "sunion", "reconcile", "benchmarks", "tests")


def tests(root: Path) -> set[str]:
    """The test files that are about what has changed since the rotation before; empty where there is no history."""
    touched = {file for file in _files(root) if file.endswith(".py")}
    if not touched:
        return set()
    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    known = {_file(root, module): module for module in graph.modules}
    modules = {known[file] for file in touched if file in known}
    return {
        file
        for file, module in known.items()
        if module.rpartition(".")[2].startswith("test_") and modules & _about(graph, module)
    }


def _about(graph: grimp.ImportGraph, test: str) -> set[str]:
    """The test's module, the helpers that it uses, and what these import of the product."""
    found, left = {test}, [test]
    while left:
        for module in graph.find_modules_directly_imported_by(left.pop()) - found:
            found.add(module)
            if module.startswith("tests."):
                left.append(module)
    return found


def _file(root: Path, module: str) -> str:
    path = module.replace(".", "/")
    return f"{path}/__init__.py" if (root / path).is_dir() else f"{path}.py"


def _files(root: Path) -> Iterable[str]:
    """Files that differ from the commit that began the rotation before this one."""
    commits = _git(root, "log", "-2", "--format=%H", "--", ".ci/rotation").split()
    return _git(root, "diff", "--name-only", commits[-1]).splitlines() if len(commits) == 2 else ()


def _git(root: Path, *words: str) -> str:
    done = subprocess.run(["git", *words], cwd=root, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode == 0 else ""
