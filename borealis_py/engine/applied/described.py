"""What a function is made of, found where its app is loaded: the files of the app, or the distributions it is in.

All files of an app count together. Of each file the imports are read, wherever they stand in it, so that the versions
of the distributions behind them are known. What those import in turn is not followed.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, packages_distributions, version
from pathlib import Path

from borealis_py.query.errors import QueryError
from borealis_py.query.functions import digest
from borealis_py.query.plan import CodeFile, Function, Requirement

PYTHON = Requirement(module="", distribution="python", version=f"{sys.version_info[0]}.{sys.version_info[1]}")
_ALWAYS = ("pyarrow", "pandas")
"""What tables are made with."""


def described(function: Function) -> Function:
    """The function with what it is made of on this machine.

    Raises:
        QueryError: its module is neither in the app's files nor installed, a file cannot be read, or imports a module
            that is neither.
    """
    files = tuple(_known(file) for file in function.files)
    here = getattr(sys.modules.get(function.module), "__file__", None)
    own = next((f for f in files if here is not None and Path(here).resolve() == Path(f.path)), None)
    if own is None:
        if function.module.partition(".")[0] in sys.stdlib_module_names:
            needs = {}
        else:
            needs = {top.module: top for top in _installed_in(function, here)}
        files = ()
    elif own.name != function.module:
        raise QueryError(
            f"{function.name}: its file {own.path} is module {own.name!r} to replicas; import it under this name"
        )
    else:
        needs = {name: found for file in files for name, found in _imports(file, files)}
    for name in _ALWAYS:
        needs.setdefault(name, Requirement(module=name, distribution=name, version=version(name)))
    return function.model_copy(
        update={"files": files, "requirements": (PYTHON, *(needs[name] for name in sorted(needs)))}
    )


def _known(file: CodeFile) -> CodeFile:
    path = Path(file.path).resolve()
    return file.model_copy(update={"path": str(path), "sha256": digest(_content(path))})


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as exc:
        raise QueryError(f"modules of the app: {path}: {exc.strerror}") from exc


def _installed_in(function: Function, here: str | None) -> Sequence[Requirement]:
    """The distributions that the function's module is in. Raises QueryError: in none that has a version to rely on."""
    top = function.module.partition(".")[0]
    found = _installed(top)
    if not found:
        raise QueryError(
            f"{function.name}: its module ({here or 'without a file'}) is not in an installed package, so replicas may "
            f'not have it, or another one. Name its file in App(modules=["{Path(here or top).name}"]), or install it'
        )
    for one in found:
        if _editable(one.distribution):
            raise QueryError(
                f"{function.name}: {one.distribution} is installed in editable mode, so its code can change without "
                "its version: install it as a package, or name the function's file in App(modules=[...])"
            )
    return found


def _imports(file: CodeFile, files: Sequence[CodeFile]) -> Iterator[tuple[str, Requirement]]:
    """The top-level modules that a file imports and that are installed."""
    own = {one.name for one in files}
    for line, name in _imported(file):
        if name in own or name in sys.stdlib_module_names or name == "borealis_py":
            continue
        found = _installed(name)
        if not found and Path(file.path).with_name(f"{name}.py").exists():
            raise QueryError(
                f"{file.path}, line {line}: it imports {name!r}, a file beside it that replicas would not have: add "
                f"{name + '.py'!r} to App(modules=[...])"
            )
        for one in found[:1]:
            yield name, one


def _imported(file: CodeFile) -> Iterator[tuple[int, str]]:
    try:
        tree = ast.parse(_content(Path(file.path)), file.path)
    except (SyntaxError, ValueError) as exc:
        raise QueryError(f"modules of the app: {file.path}: {exc}") from exc
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            raise QueryError(
                f"{file.path}, line {node.lineno}: relative imports have no meaning in a file of App(modules=[...]): "
                "import the other file by its name"
            )
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.lineno, node.module.partition(".")[0]
        elif isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name.partition(".")[0]) for alias in node.names)


def _installed(top: str) -> tuple[Requirement, ...]:
    names = sorted(set(_distributions().get(top, ())))
    return tuple(Requirement(module=top, distribution=name, version=version(name)) for name in names)


@cache
def _distributions() -> dict[str, list[str]]:
    return {top: list(names) for top, names in packages_distributions().items()}


def _editable(name: str) -> bool:
    try:
        told = distribution(name).read_text("direct_url.json")
    except PackageNotFoundError:
        return False
    return bool(told) and bool(json.loads(told or "{}").get("dir_info", {}).get("editable"))
