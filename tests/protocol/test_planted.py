"""The oracles are worth something: of each planted bug that names a script, the script fails while it is planted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module

import pytest

from tests.planted import BUGS
from tests.planted.bug import Bug, Script
from tests.protocol.toy import Broken


def runs(script: Script) -> Callable[[], None]:
    """The test that it names, with the parameter in its id."""
    file, _, test = script.test.partition("::")
    name, _, parameter = test.removesuffix("]").partition("[")
    function: Callable[..., None] = getattr(import_module(file.removesuffix(".py").replace("/", ".")), name)
    if not parameter:
        return function
    (mark,) = function.pytestmark  # type: ignore[attr-defined]
    _, values = mark.args
    ids = mark.kwargs.get("ids", str)
    named = map(ids, values) if callable(ids) else ids
    return partial(function, dict(zip(named, values, strict=True))[parameter])


NOTICED = [(bug, bug.script) for bug in BUGS if bug.script is not None]


@pytest.mark.parametrize(("bug", "script"), NOTICED, ids=[bug.rule for bug, _ in NOTICED])
def test_a_script_notices_a_planted_bug(bug: Bug, script: Script) -> None:
    run = runs(script)
    run()  # it is the bug that is noticed; and what a run without failures says is computed without it
    with bug.plant(), pytest.raises(AssertionError) as caught:
        run()
    assert (caught.type is Broken) == bool(script.oracle)
    assert script.oracle in str(caught.value)
