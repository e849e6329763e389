"""What `borealis check` finds in functions: planted faults, each by the trial that is there for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from borealis_py import App, QueryError
from borealis_py.app.functions.check import check_functions, remarks
from borealis_py.app.functions.samples import samples
from borealis_py.engine.applied.described import described
from borealis_py.query.spec import AppSpec
from tests.engine.applied.modules import imported

HEAD = "import random, time\nimport pyarrow as pa\nimport pyarrow.compute as pc\nCALLS = []\n"
AGAIN, PARTS, ALONE, ELSEWHERE = "when it is called again", "in two parts", "each row alone", "in another process"
PLANTED = {
    "chance": (AGAIN, "return pa.table({'y': [random.random() for _ in range(len(t))]})"),
    "clock": (AGAIN, "return pa.table({'y': [float(time.perf_counter_ns())] * len(t)})"),
    "kept": (AGAIN, "CALLS.append(1); return pa.table({'y': [float(len(CALLS))] * len(t)})"),
    "neighbours": (PARTS, "return pa.table({'y': pc.subtract(t['x'], pc.min(t['stime'].cast(pa.float64())))})"),
    "position": (PARTS, "return pa.table({'y': [float(n) for n in range(len(t))]})"),
    "many": (ALONE, "return pa.table({'y': [1.0 if len(t) > 1 else 2.0] * len(t)})"),
    "set_order": (ELSEWHERE, "return pa.table({'y': [float(''.join({*map(str, range(10, 30))}))] * len(t)})"),
    "zone": (ELSEWHERE, "return pa.table({'y': [float(time.localtime(s / 1e6)[3]) for s in t['stime'].to_pylist()]})"),
    "threads": (ELSEWHERE, "return pa.table({'y': [float(pa.cpu_count())] * len(t)})"),
}  # fmt: skip
"""By name: the trial that finds it, and its body."""
GOOD = {
    "good": "return pa.table({'y': pc.multiply(t['x'], 3.0)})",
    "printing": "print('hello'); return pa.table({'y': t['x']})",
    "refusing": "return pa.table({'y': [1 / k if k is not None else k for k in map(float, t['i'].to_pylist())]})",
    "useless": "raise ValueError('no such shop')",
    "words": "return pa.table({'y': [float({'tea': 1, 'rum': 2}[k]) for k in t['k'].to_pylist()]})",
}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("functions") / "planted.py"
    bodies = {**{name: body for name, (_, body) in PLANTED.items()}, **GOOD}
    file.write_text(HEAD + "".join(f"def {name}(t):\n    {body}\n" for name, body in bodies.items()))
    return file


def app_of(file: Path, name: str, grouped: bool = False) -> AppSpec:
    f = getattr(imported(file), name)
    app = App("shop", modules=[file])
    a = app.source("a", {"k": "string", "i": "int64", "x": "double"}).filter("x >= 0")
    node = a.window("1s").group_by("k").apply(f, {"y": "double"}) if grouped else a.apply(f, {"y": "double"})
    app.query("q", node)
    return app.describe().with_functions(described)


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_function_is_found_with_its_first_difference(written: Path, name: str) -> None:
    with pytest.raises(QueryError) as told:
        check_functions(app_of(written, name))
    text = str(told.value)
    assert text.startswith(f"query 'q': planted.{name} gives another result ")
    assert PLANTED[name][0] in text.splitlines()[0]
    assert '"stime":' in text.splitlines()[1]
    first, then = (line.split(":", 1)[1] for line in text.splitlines()[2:4])
    assert first != then
    assert "event DIVERGED" in text


@pytest.mark.parametrize("name", ["chance", "kept"])
def test_it_is_found_in_windows_too(written: Path, name: str) -> None:
    with pytest.raises(QueryError, match=rf"planted.{name} gives another result {PLANTED[name][0]}"):
        check_functions(app_of(written, name, grouped=True))


@pytest.mark.parametrize("name", ["good", "printing", "refusing", "useless"])
def test_a_function_of_rows_alone_passes(written: Path, name: str) -> None:
    (report,) = check_functions(app_of(written, name))
    assert (report.function, report.rows, report.generated) == (f"planted.{name}", 96, True)
    told = list(remarks([report]))
    if name == "refusing":
        assert 0 < report.refused < 96
        assert f"planted.refusing refused {report.refused} of 96 generated rows, the first: planted.ref" in told[0]
    elif name == "useless":
        assert report.useless
        assert "refused all 96 generated rows, so nothing was compared: planted.useless: ValueError: no s" in told[0]
    else:
        assert (report.refused, told) == (0, [])


@pytest.mark.parametrize("grouped", [False, True])
def test_rows_of_the_user_s_go_through_the_app_first(written: Path, tmp_path: Path, grouped: bool) -> None:
    spec = app_of(written, "words", grouped)
    rows: list[dict[str, Any]] = [{"k": k, "i": 1, "x": x} for k, x in (("tea", 1.0), ("oil", -1.0), ("rum", 0.0))]
    file = tmp_path / "a.jsonl"
    file.write_text("\n".join(map(json.dumps, rows)))
    given = samples(spec, {"a": file})
    ((place, seen),) = given.items()
    assert place == ("q", 0)
    assert [batch.column("k").to_pylist() for batch in seen] == ([["rum"], ["tea"]] if grouped else [["tea", "rum"]])
    (report,) = check_functions(spec, given)
    assert (report.rows, report.refused, report.generated) == (2, 0, False)


def test_rows_that_a_source_does_not_take_are_refused(written: Path, tmp_path: Path) -> None:
    spec = app_of(written, "good")
    file = tmp_path / "a.jsonl"
    broken = tmp_path / "b.jsonl"
    broken.write_text('{"k": "tea", "i": 1, "x": 1.0}\n[1]\n')
    file.write_text('{"k": "tea", "i": 1, "x": 1.0}\n\n{"k": 7, "i": 1, "x": 1.0}\n')
    for files, reason in (
        ({"b": file}, "no source 'b'; sources: a"),
        ({"a": file}, r"a.jsonl, line 3: column .k.: Expected `str"),
        ({"a": broken}, r"b.jsonl, line 2: not a JSON object: "),
        ({"a": tmp_path / "none"}, "No such file"),
    ):
        with pytest.raises(QueryError, match=reason):
            samples(spec, files)
