"""Files of functions as an app's author has them: imported by their name, named in `App(modules=...)`, compiled."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from borealis_py import App
from borealis_py.engine import DuckKernel, compile_query
from borealis_py.engine.applied.code_in_place import CodeInPlace
from borealis_py.engine.applied.described import described
from borealis_py.query import Stream
from borealis_py.query.spec import AppSpec
from tests.engine.worlds import COLUMNS

SCORING = Path(__file__).with_name("scoring.py")


def imported(file: Path) -> ModuleType:
    """The module of a file, under its name, as an app beside it would import it."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    return module


def scoring_module() -> ModuleType:
    """`scoring.py` as module `scoring`, one and the same in all tests of a process."""
    return sys.modules.get("scoring") or imported(SCORING)


def app_with(
    build: Callable[[App, Stream, Stream], Stream],
    columns: Mapping[str, str] = COLUMNS,
    modules: Sequence[Path] = (SCORING,),
) -> App:
    """An app with query "q" over the sources "a" and "b"."""
    app = App("test", bucket="100ms", modules=modules)
    a, b = app.source("a", schema=columns), app.source("b", schema=columns)
    app.query("q", build(app, a, b))
    return app


def described_app(build: Callable[[App, Stream, Stream], Stream], columns: Mapping[str, str] = COLUMNS) -> AppSpec:
    return app_with(build, columns).describe().with_functions(described)


@contextmanager
def kernel(
    build: Callable[[App, Stream, Stream], Stream], columns: Mapping[str, str] = COLUMNS, row_max_bytes: int = 1 << 20
) -> Iterator[DuckKernel]:
    made = compile_query(described_app(build, columns), "q", row_max_bytes, code=CodeInPlace())
    try:
        yield made
    finally:
        made.close()
