"""The user's file: what comes out of it, and what is said when nothing can."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from borealis_py.app.loader import AppFileError, load_app

GOOD = """
from borealis_py import App
app = App("demo")
source = app.source("src", schema={"a": "int64"})
app.query("all", source)
"""


def write(directory: Path, text: str) -> Path:
    path = directory / "my_app.py"
    path.write_text(text)
    return path


def test_the_app(tmp_path: Path) -> None:
    app = load_app(write(tmp_path, GOOD + "again = app\n"))
    assert list(app.describe().queries) == ["all"]


def test_modules_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "names_of_mine.py").write_text('NAME = "demo2"\n')
    before = list(sys.path)
    app = load_app(write(tmp_path, GOOD.replace('App("demo")', 'App(__import__("names_of_mine").NAME)')))
    assert app.name == "demo2"
    assert sys.path == before


def test_a_file_that_changes_without_a_change_of_time_or_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.dont_write_bytecode", False)
    for name in ("demo1", "demo2"):
        path = write(tmp_path, GOOD.replace("demo", name))
        os.utime(path, (1, 1))
        assert load_app(path).name == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1\n", "no App in it"),
        (GOOD + "other = App('other')\n", "2 Apps in it"),
        ("from borealis_py import App\napp = App('demo')\n", "has no query"),
        ("a = 1\nb = (\n", r"my_app\.py, line 2"),
        ("a = 1\nraise ValueError('mine')\n", r"line 2: ValueError: mine"),
        ("import sys\n\nsys.exit(3)\n", "line 3: SystemExit"),
        ("import no_such_module_at_all\n", "line 1: ModuleNotFoundError"),
        (GOOD + "source.window('1s').group_by('aa')\n", r"line 6: unknown column 'aa'.*did you mean 'a'"),
        (GOOD + "app.query('neg', source, delay_threshold='-1s')\n", "line 6: .*more than zero"),
        (GOOD + "app.query('zero', source, delay_threshold='0s')\n", "line 6: .*more than zero"),
        (GOOD + "app.qeury('b', source)\n", "line 6: AttributeError: .*; did you mean 'query'"),
        (GOOD + "source.having('a > 1')\n", "line 6: AttributeError: .*; it has apply, columns, distinct, filter, "),
        (
            GOOD + "app.query('b', source, dealy_threshold='1s')\n",
            "line 6: TypeError: .* 'dealy_threshold'; did you mean 'delay_threshold'",
        ),
        (GOOD + "source.distinct('a', seconds=3)\n", "line 6: TypeError: .* 'seconds'; it takes .*within"),
        (
            "import pydantic\nclass M(pydantic.BaseModel):\n    n: int\n    @pydantic.field_validator('n')\n"
            "    def even(cls, n):\n        raise ValueError('it is odd')\nM(n=3)\n",
            "line 7: M: n: it is odd\n",
        ),
        (GOOD + "len(source, x=1)\n", r"line 6: TypeError: len\(\) takes no keyword arguments\n"),
    ],
)
def test_a_file_without_a_usable_app(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(AppFileError, match=message):
        load_app(write(tmp_path, text))


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(AppFileError, match="no such file"):
        load_app(tmp_path / "gone.py")
    with pytest.raises(AppFileError, match="a directory"):
        load_app(tmp_path)


def test_not_python(tmp_path: Path) -> None:
    (tmp_path / "app.yaml").write_text("a: 1")
    with pytest.raises(AppFileError, match="not a Python file"):
        load_app(tmp_path / "app.yaml")
    (tmp_path / "app.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(AppFileError, match=r"app\.py"):
        load_app(tmp_path / "app.py")
