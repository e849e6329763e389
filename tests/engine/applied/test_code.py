"""Which functions a query can name, what they are made of, and that replicas load exactly that."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from borealis_py import App, QueryError
from borealis_py.engine.applied import described as described_module
from borealis_py.engine.applied.code_in_place import CodeInPlace
from borealis_py.engine.applied.described import described
from borealis_py.engine.applied.loader import load
from borealis_py.query.differences import of_functions
from borealis_py.query.errors import FunctionDiffers
from borealis_py.query.functions import code_files, function_of
from borealis_py.query.plan import CodeFile, Function, Requirement
from borealis_py.query.spec import AppSpec
from tests.engine.applied.modules import SCORING, imported, scoring_module

scoring = scoring_module()
COLUMNS = {"y": "double"}


def module(directory: Path, name: str, text: str) -> Any:
    file = directory / f"{name}.py"
    file.write_text(text)
    return imported(file)


def made_of(f: object, *files: Path) -> Function:
    return described(function_of(f, code_files(files, "test")))


def app_of(f: Any, *files: Path, columns: dict[str, str] = COLUMNS) -> AppSpec:
    app = App("test", modules=files)
    app.query("q", app.source("a", {"x": "double"}).apply(f, columns))
    return app.describe().with_functions(described)


def local() -> Any:
    def inside(table: pa.Table) -> pa.Table:
        return table

    return inside


def decoy(table: pa.Table) -> pa.Table:
    return table


decoy_of_another = decoy


def decoy(table: pa.Table) -> pa.Table:  # type: ignore[no-redef]
    return table


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (lambda table: table, r"a lambda of tests.engine.applied.test_code has no name .*: write it with def; move it"),
        (local(), r"local.inside is defined inside a function, where replicas cannot find it: move it to a file"),
        (scoring.Holder, r"apply\(\) needs a function of a module, got a class"),
        (scoring.Holder().score.__call__, r"got an object of type method-wrapper"),
        ("scoring.score", r"got an object of type str"),
        (decoy_of_another, r"test_code.decoy is another object than the function that was given"),
    ],
)
def test_a_function_that_no_name_leads_to_is_refused(f: object, reason: str) -> None:
    app = App("test")
    with pytest.raises(QueryError, match=reason):
        app.source("a", {"x": "double"}).apply(f, COLUMNS)  # type: ignore[arg-type]


def test_a_function_of_the_app_s_own_file_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("__main__", "__borealis_app__"):
        monkeypatch.setattr(decoy, "__module__", name)
        with pytest.raises(QueryError, match=r"decoy is defined in the app's own file.*App\(modules=\["):
            function_of(decoy, ())


def test_a_function_that_is_neither_in_a_file_of_the_app_nor_installed_is_refused(tmp_path: Path) -> None:
    lost = module(tmp_path, "lost_functions", "def f(table):\n    return table\n")
    with pytest.raises(QueryError, match=r"lost_functions.f: .* not in an installed package.*modules=\[\"lost"):
        made_of(lost.f)
    other = module(tmp_path, "other_functions", "def f(table):\n    return table\n")
    with pytest.raises(QueryError, match=r"other_functions.f: .*not in an installed package"):
        made_of(other.f, tmp_path / "lost_functions.py")


def test_a_file_imports_others_of_the_app_by_name_and_nothing_that_replicas_lack(tmp_path: Path) -> None:
    module(tmp_path, "rates", "FACTOR = 2.0\n")
    user = module(
        tmp_path,
        "user_of_rates",
        "import math\nimport rates\ndef f(table):\n    import numpy\n    return numpy.abs(math.pi) * rates.FACTOR\n",
    )
    with pytest.raises(QueryError, match=r"user_of_rates.py, line 2: it imports 'rates', a file.*add 'rates.py'"):
        made_of(user.f, tmp_path / "user_of_rates.py")
    function = made_of(user.f, tmp_path / "user_of_rates.py", tmp_path / "rates.py")
    assert [needed.module for needed in function.requirements] == ["", "numpy", "pandas", "pyarrow"]
    (tmp_path / "rates.py").write_text("FACTOR = 3.0\n")  # edited since
    with pytest.raises(FunctionDiffers, match=r"rates.py has changed since the app was described"):
        load(function, CodeInPlace())
    (tmp_path / "rates.py").write_text("FACTOR = 2.0\n")
    (tmp_path / "elsewhere").mkdir()
    assert sys.modules["rates"] is not module(tmp_path / "elsewhere", "rates", "FACTOR = 5.0\n")
    f = load(function, CodeInPlace())
    assert f(None) == 6.283185307179586
    assert f.__module__.startswith("borealis_code_")
    assert load(function, CodeInPlace()) is f


def test_every_byte_of_the_files_is_part_of_the_query_and_their_place_is_not(tmp_path: Path) -> None:
    first = app_of(module(tmp_path, "hashed", "def f(table):\n    return table\n").f, tmp_path / "hashed.py")
    assert AppSpec.from_json(first.to_json()) == first
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    same = app_of(module(elsewhere, "hashed", "def f(table):\n    return table\n").f, elsewhere / "hashed.py")
    assert same.functions != first.functions
    assert same.query_hash("q") == first.query_hash("q")
    other = app_of(module(elsewhere, "hashed", "def f(table):\n    return table  # \n").f, elsewhere / "hashed.py")
    assert other.query_hash("q") != first.query_hash("q")
    assert of_functions(first, same) == []
    (line,) = of_functions(first, other)
    assert re.fullmatch(r"function hashed.f: hashed.py is SHA-256 \w+... on the broker, SHA-256 \w+... in.*", line)
    op = first.query("q").plan[1]
    newer = tuple(one.model_copy(update={"version": "99"}) for one in first.functions[0].requirements)
    changed = first.with_functions(lambda function: function.model_copy(update={"requirements": newer}))
    assert changed.query("q").plan[1] != op
    assert changed.query_hash("q") != first.query_hash("q")


def test_another_version_does_not_load() -> None:
    function = made_of(scoring.score, SCORING)
    older = tuple(one.model_copy(update={"version": "1.0"}) for one in function.requirements)
    with pytest.raises(FunctionDiffers, match=r"scoring.score: python is 3.* here, the app was described with 1.0"):
        load(function.model_copy(update={"requirements": older}), CodeInPlace())
    gone = (Requirement(module="gone", distribution="gone-lib", version="1.0"),)
    with pytest.raises(FunctionDiffers, match=r"gone-lib is not installed here, the app was described with 1.0"):
        load(function.model_copy(update={"requirements": gone}), CodeInPlace())


def test_what_was_not_described_cannot_be_imported(tmp_path: Path) -> None:
    hidden = module(tmp_path, "hidden_import", "def f(table):\n    return __import__('yaml')\n")
    f = load(made_of(hidden.f, tmp_path / "hidden_import.py"), CodeInPlace())
    with pytest.raises(ModuleNotFoundError, match=r"'yaml' is neither installed where the app was described"):
        f(None)


def test_a_file_that_fails_or_lacks_the_function_does_not_load(tmp_path: Path) -> None:
    good = module(tmp_path, "failing", "def f(table):\n    return table\n")
    for text, reason in (
        ("def g(table):\n    return table\n", "failing.f: its module has no such function"),
        (
            "def f(table):\n    return table\nraise SystemExit('no')\n",
            "failing.f: its module does not load here: Sys",
        ),
    ):
        (tmp_path / "failing.py").write_text(text)
        with pytest.raises(FunctionDiffers, match=reason):
            load(made_of(good.f, tmp_path / "failing.py"), CodeInPlace())


def test_a_function_of_an_installed_package_is_known_by_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy.testing

    function = made_of(numpy.testing.assert_equal)
    assert function.files == ()
    assert function.requirements[1] == Requirement(module="numpy", distribution="numpy", version=numpy.__version__)
    assert load(function, CodeInPlace()) is numpy.testing.assert_equal
    monkeypatch.setattr(described_module, "_editable", lambda name: True)
    with pytest.raises(QueryError, match=r"numpy is installed in editable mode, so its code can change"):
        made_of(numpy.testing.assert_equal)


@pytest.mark.parametrize(
    ("modules", "reason"),
    [
        ("my_functions.py", "give the paths of Python files"),
        (["my-functions.py"], "is not a Python file whose module can be imported"),
        (["functions.txt"], "is not a Python file"),
        (["a/f.py", "b/f.py"], "'a/f.py' and 'b/f.py' are modules of one name"),
        (["json.py"], "has the name of a module that is there already"),
    ],
)
def test_files_that_cannot_be_modules_are_refused(modules: Any, reason: str) -> None:
    with pytest.raises(QueryError, match=reason):
        App("test", modules=modules)


def test_the_arguments_of_apply_are_checked() -> None:
    app = App("test", modules=[SCORING])
    a = app.source("a", {"x": "double", "shop": "string"})
    for call, reason in (
        (lambda: a.apply(scoring.score, {}), r"columns of apply\(score\): name and type of each column"),
        (lambda: a.apply(scoring.score, {"y": "dubble"}), r"unknown type 'dubble'; did you mean 'double'"),
        (lambda: a.apply(scoring.score, {"stime": "int"}), r"column name 'stime' .* is reserved"),
        (lambda: a.apply(scoring.score, {"shop": "string"}, keep=("shop",)), r"column name 'shop' .* is there twice"),
        (lambda: a.apply(scoring.score, COLUMNS, keep="shop"), r"keep='shop'; give the names of columns"),
        (lambda: a.apply(scoring.score, COLUMNS, keep=("shops",)), r"unknown column 'shops'.*did you mean 'shop'"),
        (lambda: a.apply(scoring.score, COLUMNS, style="polars"), r"style='polars'; choose \"arrow\" or \"pandas\""),  # type: ignore[arg-type]
        (lambda: a.window("1s").group_by("shop").apply(scoring.spread, {"shop": "string"}), r"'shop' .* there twice"),
        (lambda: a.window(rows=5).apply(scoring.spread, COLUMNS), r"takes the rows of windows by time"),
        (lambda: a.window("1s").agg(n="count(*)").window("2s").apply(scoring.spread, COLUMNS), r"'window_start' and"),
    ):  # fmt: skip
        with pytest.raises(QueryError, match=reason):
            call()


def test_a_key_of_partitions_must_be_kept() -> None:
    app = App("test", modules=[SCORING])
    a = app.source("a", {"x": "double", "shop": "string"})
    with pytest.raises(QueryError, match=r"apply\(scoring.score\) of it does not keep .*keep=\('shop', ...\)"):
        app.query("q", a.apply(scoring.score, {"shop": "string"}), partitions=2, by="shop")
    app.query("q", a.apply(scoring.score, COLUMNS, keep=("shop",)), partitions=2, by="shop")
    grouped = a.window("1s").apply(scoring.spread, {"shop": "string"})
    with pytest.raises(QueryError, match=r"a window of it groups all rows together"):
        app.query("r", grouped, partitions=2, by="shop")
    app.query("r", a.window("1s").group_by("shop").apply(scoring.spread, COLUMNS), partitions=2, by="shop")


def test_a_file_in_place_must_be_the_described_one(tmp_path: Path) -> None:
    with pytest.raises(FunctionDiffers, match="No such file"):
        CodeInPlace().read(CodeFile(name="f", path=str(tmp_path / "f.py"), sha256="0"))
