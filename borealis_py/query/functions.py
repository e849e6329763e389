"""Python functions that a user gives to `apply`, and the files that they are in: what a query can name, as values.

A replica loads a function by its name, so only a function that a name leads to can be applied. What the files contain,
and which distributions the modules are in, is found out where the app is loaded (`engine.applied.described`).
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from types import FunctionType
from typing import Any, Protocol, get_args

from borealis_py.query.bykey import key_columns
from borealis_py.query.errors import QueryError
from borealis_py.query.names import STIME, WINDOW_END, WINDOW_START, check_columns, check_schema
from borealis_py.query.plan import CodeFile, Function, StyleName

_MODULE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ELSEWHERE = (
    "move it to a file of its own, say my_functions.py, import it from there, and name that file in "
    'App(modules=["my_functions.py"])'
)
_OF_THE_APP = ("__main__", "__borealis_app__")


class CodeStore(Protocol):
    """Reads files of code. Picklable: redo tasks and audits have one, too."""

    def read(self, file: CodeFile) -> bytes:
        """The content with this file's SHA-256. Raises FunctionDiffers if nothing here has it."""


def digest(content: bytes) -> str:
    """Its SHA-256, in hex."""
    return hashlib.sha256(content).hexdigest()


def is_content(file: CodeFile, content: bytes) -> bool:
    """Whether this is the content that the app was described with."""
    return digest(content) == file.sha256


def code_files(modules: object, app: str) -> tuple[CodeFile, ...]:
    """The files of `App(modules=...)`, by name. Raises QueryError."""
    where = f"modules of app {app!r}"
    if isinstance(modules, str | bytes) or not isinstance(modules, Sequence):
        raise QueryError(f'{where}: {modules!r}; give the paths of Python files, like ["my_functions.py"]')
    found: dict[str, CodeFile] = {}
    for path in map(str, modules):
        name = PurePath(path).stem
        if not path.endswith(".py") or not _MODULE.fullmatch(name):
            raise QueryError(
                f"{where}: {path!r} is not a Python file whose module can be imported, like my_functions.py"
            )
        if name in found:
            raise QueryError(f"{where}: {found[name].path!r} and {path!r} are modules of one name; rename a file")
        if name in sys.stdlib_module_names or name.startswith("borealis_py"):
            raise QueryError(f"{where}: {path!r} has the name of a module that is there already; rename the file")
        found[name] = CodeFile(name=name, path=path)
    return tuple(found[name] for name in sorted(found))


def function_of(f: object, files: tuple[CodeFile, ...]) -> Function:
    """The function as a value. Raises QueryError for one that no name leads to."""
    if not isinstance(f, FunctionType):
        kind = "a class" if isinstance(f, type) else f"an object of type {type(f).__name__}"
        raise QueryError(
            f"apply() needs a function of a module, got {kind}; write `def f(table): ...` in a file of its own, and "
            'name that file in App(modules=["my_functions.py"])'
        )
    name = f.__qualname__
    if "<lambda>" in name:
        raise QueryError(
            f"apply(): a lambda of {f.__module__} has no name by which replicas could load it: write it with def; "
            f"{_ELSEWHERE}"
        )
    if "<locals>" in name:
        raise QueryError(
            f"apply(): {name.replace('.<locals>', '')} is defined inside a function, where replicas cannot find it: "
            f"{_ELSEWHERE}"
        )
    if f.__module__ in _OF_THE_APP:
        raise QueryError(f"apply(): {name} is defined in the app's own file, which replicas do not run: {_ELSEWHERE}")
    if _named(f.__module__, name) is not f:
        raise QueryError(
            f"apply(): {f.__module__}.{name} is another object than the function that was given: give the one that "
            "this name has in its module"
        )
    return Function(module=f.__module__, qualname=name, files=files)


def _named(module: str, qualname: str) -> object:
    found: object = sys.modules.get(module)
    for part in qualname.split("."):
        found = getattr(found, part, None)
    return found


def apply_op(
    f: object,
    files: tuple[CodeFile, ...],
    columns: Mapping[str, str],
    style: str,
    keep: Sequence[str],
    has: Sequence[str],
) -> dict[str, Any]:
    """The fields of an `ApplyOp`, for a stream with the columns `has`. Raises QueryError."""
    if isinstance(keep, str) or not isinstance(keep, Sequence) or not all(isinstance(name, str) for name in keep):
        raise QueryError(f'apply(): keep={keep!r}; give the names of columns, like keep=("shop",)')
    kept = key_columns(keep, "keep of apply()", has)
    made = _made(f, files, columns, style, kept, (STIME,))
    return {"op": "apply", "keep": kept, **made}


def window_apply_op(
    kind: Mapping[str, Any],
    f: object,
    files: tuple[CodeFile, ...],
    columns: Mapping[str, str],
    style: str,
    keys: Sequence[str],
    has: Sequence[str],
) -> dict[str, Any]:
    """The fields of a `WindowApplyOp` over windows of this kind (`windows.window_kind`), for a stream with the columns
    `has`. Raises QueryError."""
    if kind["op"] != "window":
        raise QueryError('apply() takes the rows of windows by time: stream.window("1m").apply(...)')
    window = (WINDOW_START, WINDOW_END)
    clash = next((name for name in has if name.lower() in window), None)
    if clash is not None:
        raise QueryError(
            f"apply(): the stream's column {clash!r} and a column that each window's table has would be of one name; "
            "rename it with map() first"
        )
    made = _made(f, files, columns, style, keys, (STIME, *window))
    return {**kind, "op": "window_apply", "keys": tuple(keys), **made}


def _made(
    f: object,
    files: tuple[CodeFile, ...],
    columns: Mapping[str, str],
    style: str,
    beside: Sequence[str],
    reserved: Sequence[str],
) -> dict[str, Any]:
    function = function_of(f, files)
    where = f"columns of apply({function.qualname})"
    if style not in get_args(StyleName):
        raise QueryError(f'apply({function.qualname}): style={style!r}; choose "arrow" or "pandas"')
    if not isinstance(columns, Mapping) or not columns:
        raise QueryError(f"{where}: name and type of each column that it returns, like columns={{'score': 'double'}}")
    check_columns((*beside, *columns), where, reserved)
    return {"function": function, "columns": tuple(check_schema(columns, where).items()), "style": style}
