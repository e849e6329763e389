"""Loads the user's file as a module and extracts its only App. Errors name the line."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import ModuleType

from pydantic import ValidationError

from borealis_py.query import App
from borealis_py.query.errors import QueryError, did_you_mean, wrong_place, wrong_value
from borealis_py.query.plan import Function, TableFile
from borealis_py.query.spec import AppSpec
from borealis_py.query.stream import Stream

_CLASSES = {"App": App, "Stream": Stream}
_KEYWORD = re.compile(r"^(App|Stream)\.(\w+)\(\) got an unexpected keyword argument '(\w+)'")


class AppFileError(Exception):
    """The file has no usable app; the message has file, line and reason."""


def load_app(path: str | Path) -> App:
    """Run a Python file and return its App.

    The file can import modules from its own directory.

    Raises:
        AppFileError: no such file, it does not run, or it does not have exactly one App with a query.
    """
    file = Path(path)
    if not file.is_file():
        reason = "a directory" if file.is_dir() else "no such file"
        raise AppFileError(f"{path}: {reason}; give the app's Python file")
    module = _run(file.resolve(), str(path))
    found: dict[int, tuple[str, App]] = {}
    for name, value in vars(module).items():
        if isinstance(value, App):
            found.setdefault(id(value), (name, value))
    if not found:
        raise AppFileError(f'{path}: no App in it. Write `app = App("name")` at the top level of the file')
    if len(found) > 1:
        names = ", ".join(f"{name} ({app.name!r})" for name, app in found.values())
        raise AppFileError(f"{path}: {len(found)} Apps in it: {names}. Put each into a file of its own")
    (_, app), *_ = found.values()
    if not app.describe().queries:
        raise AppFileError(f"{path}: app {app.name!r} has no query. Add one with app.query(name, stream)")
    return app


def load_spec(path: str | Path) -> AppSpec:
    """The App in a Python file as a value, with what the files of its tables contain, and what its functions are made
    of.

    Raises:
        AppFileError: see `load_app`. QueryError: a node that no query reads, a table's file that is not there, or a
            function that replicas could not load.
    """
    return load_app(path).describe().with_files(_known).with_functions(_described)


def _known(file: TableFile) -> TableFile:
    from borealis_py.engine.keyed.table_file import (
        known,  # here: most apps have no such file, and commands start faster
    )

    return known(file)


def _described(function: Function) -> Function:
    from borealis_py.engine.applied.described import described  # here: most apps have no such function

    return described(function)


def _run(file: Path, shown: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("__borealis_app__", file)
    if spec is None or not isinstance(spec.loader, SourceFileLoader):
        raise AppFileError(f"{shown}: not a Python file (its name should end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.parent))
    try:
        # as it is written now: compiled code in __pycache__ counts as fresh after a change in the same second
        exec(spec.loader.source_to_code(spec.loader.get_data(str(file)), str(file)), module.__dict__)
    except SyntaxError as exc:
        where = shown if exc.filename in (None, str(file)) else exc.filename
        pointer = f"\n    {exc.text.rstrip()}" if exc.text else ""
        raise AppFileError(f"{where}, line {exc.lineno}: {exc.msg}{pointer}") from exc
    except UnicodeDecodeError as exc:
        raise AppFileError(f"{shown}: not a Python file: {exc}") from exc
    except (Exception, SystemExit) as exc:
        raise AppFileError(_explain(exc, file, shown)) from exc
    finally:
        sys.path.remove(str(file.parent))
    return module


def _explain(exc: BaseException, file: Path, shown: str) -> str:
    """An error message with the last line of the user's own file on the way to the error."""
    own = [frame for frame in traceback.extract_tb(exc.__traceback__) if frame.filename == str(file)]
    line = f", line {own[-1].lineno}" if own else ""
    said = _words(exc)
    quoted = f"\n    {own[-1].line}" if own and own[-1].line else ""
    return f"{shown}{line}: {said}{_nearest(exc)}{quoted}"


def _words(exc: BaseException) -> str:
    if isinstance(exc, QueryError):
        return str(exc)
    if isinstance(exc, ValidationError):  # of a model of the user's own; its text has several lines, and a link
        wrong = (": ".join(filter(None, (wrong_place(one), wrong_value(one)))) for one in exc.errors())
        return f"{exc.title}: {'; '.join(wrong)}"
    return f"{type(exc).__name__}: {exc}"


def _nearest(exc: BaseException) -> str:
    """What was meant by a misspelled method or argument of this package."""
    if isinstance(exc, AttributeError) and isinstance(exc.obj, (App, Stream)):
        known = [name for name in dir(exc.obj) if not name.startswith("_")]
        return did_you_mean(exc.name or "", known) or f"; it has {', '.join(known)}"
    match = _KEYWORD.search(str(exc)) if isinstance(exc, TypeError) else None
    if match is None:
        return ""
    known = list(inspect.signature(getattr(_CLASSES[match[1]], match[2])).parameters)[1:]
    return did_you_mean(match[3], known) or f"; it takes {', '.join(known)}"
